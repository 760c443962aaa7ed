package spec

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestSettle(t *testing.T) {
	for _, tc := range []struct {
		text      string
		with      Opened
		epochs    uint32
		last      pb.LastBatch
		byDefault bool
	}{
		{"batch_size: 8", Opened{World: 1}, Unlimited, pb.LastBatch_UNEVEN, true},
		{"batch_size: 8", Opened{World: 2}, Unlimited, pb.LastBatch_DROP, true},
		{"{batch_size: 8, order: deterministic}", Opened{World: 2}, Unlimited, pb.LastBatch_DROP, true},
		{"{batch_size: 8, epochs: 3, last_batch: uneven}", Opened{World: 2}, 3, pb.LastBatch_UNEVEN, false},
		{
			"{batch_size: 8, last_batch: pad}",
			Opened{World: 2, Saved: pb.LastBatch_UNEVEN},
			Unlimited, pb.LastBatch_PAD,
			false,
		},
		{"batch_size: 8", Opened{World: 2, Saved: pb.LastBatch_UNEVEN}, Unlimited, pb.LastBatch_UNEVEN, false},
		{"batch_size: 8", Opened{World: 1, Saved: pb.LastBatch_DROP}, Unlimited, pb.LastBatch_DROP, false},
		{"batch_size: 8", Opened{World: 2, Earlier: true}, 0, pb.LastBatch_UNEVEN, false},
		{"{batch_size: 8, on_error: {skip: 2}}", Opened{World: 1}, Unlimited, pb.LastBatch_UNEVEN, true},
		{"{batch_size: 8, on_error: {skip: 2}, last_batch: pad}", Opened{World: 2}, Unlimited, pb.LastBatch_PAD, false},
	} {
		s := mustParse(t, tc.text)
		got, byDefault, err := Settle(s, tc.with)
		if err != nil {
			t.Errorf("%s, %+v: %v", tc.text, tc.with, err)
			continue
		}
		if got.GetEpochs() != tc.epochs || got.GetLastBatch() != tc.last || byDefault != tc.byDefault {
			t.Errorf("%s, %+v: %d epochs, %v, by default %v; want %d, %v, %v",
				tc.text, tc.with, got.GetEpochs(), got.GetLastBatch(), byDefault, tc.epochs, tc.last, tc.byDefault)
		}
		if !proto.Equal(s, mustParse(t, tc.text)) {
			t.Errorf("%s: the spec that was given is changed", tc.text)
		}
	}
	_, _, err := Settle(mustParse(t, "{batch_size: 8, on_error: {skip_rows: 2}}"), Opened{World: 2})
	if err == nil || !strings.HasPrefix(err.Error(), "last_batch: found nothing, with on_error: skip_rows and 2 ranks") {
		t.Errorf("on_error without an ending: %v", err)
	}
	_, _, err = Settle(mustParse(t, "{batch_size: 8, on_error: {skip: 2}}"), Opened{World: 2})
	if err == nil || !strings.HasPrefix(err.Error(), "last_batch: found nothing, with on_error: skip and 2 ranks") ||
		!strings.Contains(err.Error(), "want pad") ||
		!strings.Contains(err.Error(), "or uneven") {
		t.Errorf("on_error without an ending: %v", err)
	}
}

// What sessions of earlier releases leave out means what it meant when they were opened.
func TestEpochs(t *testing.T) {
	if got := Epochs(&pb.Spec{}); got != 1 {
		t.Errorf("a session's spec that says nothing has %d epochs, want 1", got)
	}
	diff := strings.Join(Diff(&pb.Spec{BatchSize: 8},
		&pb.Spec{BatchSize: 8, Epochs: Unlimited, LastBatch: pb.LastBatch_DROP}), "; ")
	if want := "last_batch: uneven and drop; epochs: 1 and no limit"; diff != want {
		t.Errorf("they differ in %q, want %q", diff, want)
	}
}

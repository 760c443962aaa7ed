package master_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
)

func TestOpen(t *testing.T) {
	m := single(t)
	dir := dataset(t, 3)
	with := func(change func(*pb.Spec)) *pb.Spec {
		s := newSpec(dir)
		change(s)
		return s
	}
	opened := openSession(t, m, "run/1 ä", newSpec(dir), 2)
	if opened.GetFiles() != 3 || opened.GetWorldSize() != 2 || opened.GetGeneration() != 1 ||
		opened.GetState() != pb.SessionState_WAITING {
		t.Errorf("opened %v", opened)
	}
	pinned, err := spec.PinnedSession(opened)
	if err != nil {
		t.Fatal(err)
	}
	other := proto.CloneOf(pinned)
	other.Pinned.Ops = map[string]uint32{"log1p": 1}
	tests := []struct {
		name string
		req  *pb.OpenRequest
		code codes.Code
		want []string
	}{
		{"pinned", &pb.OpenRequest{Session: "run/1 ä", Spec: pinned}, codes.OK, nil},
		{
			"pinned to another op", &pb.OpenRequest{Session: "run/1 ä", Spec: other}, codes.AlreadyExists,
			[]string{"pinned.ops.log1p: nothing and 1"},
		},
		{"again", &pb.OpenRequest{Session: "run/1 ä", Spec: newSpec(dir)}, codes.OK, nil},
		{
			"written otherwise", &pb.OpenRequest{Session: "run/1 ä", Spec: with(func(s *pb.Spec) { s.Epochs = 1 })},
			codes.OK, nil,
		},
		{"without a spec", &pb.OpenRequest{Session: "run/1 ä"}, codes.OK, nil},
		{
			"another spec", &pb.OpenRequest{Session: "run/1 ä", Spec: with(func(s *pb.Spec) { s.BatchSize = 9 })},
			codes.AlreadyExists,
			[]string{"batch_size: 4 and 9"},
		},
		{"nothing to attach to", &pb.OpenRequest{Session: "new"}, codes.NotFound, []string{`"new"`}},
		{"no id", &pb.OpenRequest{Spec: newSpec(dir)}, codes.InvalidArgument, []string{"1 to 200"}},
		{"a line break", &pb.OpenRequest{Session: "a\nb", Spec: newSpec(dir)}, codes.InvalidArgument, []string{`a\nb`}},
		{
			"long id", &pb.OpenRequest{Session: strings.Repeat("x", 201), Spec: newSpec(dir)}, codes.InvalidArgument,
			[]string{"200"},
		},
		{
			"world", &pb.OpenRequest{Session: "new", WorldSize: 1 << 20, Spec: newSpec(dir)}, codes.InvalidArgument,
			[]string{"world size 1048576"},
		},
		{
			"indivisible", &pb.OpenRequest{
				Session: "new", WorldSize: 3,
				Spec: with(func(s *pb.Spec) { s.BatchSize, s.GlobalBatchSize = 0, 8 }),
			}, codes.InvalidArgument,
			[]string{"world size 3 does not divide global_batch_size 8"},
		},
		{
			"lanes", &pb.OpenRequest{
				Session: "new", WorldSize: 3,
				Spec: with(func(s *pb.Spec) { s.Order, s.Lanes = pb.Order_DETERMINISTIC, 4 }),
			}, codes.InvalidArgument,
			[]string{"world size 3 does not divide the 4 lanes"},
		},
		{
			"no uri", &pb.OpenRequest{Session: "new", Spec: with(func(s *pb.Spec) { s.Dataset.Uri = nil })},
			codes.InvalidArgument,
			[]string{"dataset.uri: found nothing"},
		},
		{
			"no files", &pb.OpenRequest{Session: "new", Spec: newSpec(t.TempDir())}, codes.FailedPrecondition,
			[]string{"file://"},
		},
		{
			"no profile", &pb.OpenRequest{Session: "new", Spec: with(func(s *pb.Spec) { s.Dataset.Storage = "moon" })},
			codes.FailedPrecondition,
			[]string{"moon"},
		},
		{
			"no partition", &pb.OpenRequest{
				Session: "new",
				Spec:    with(func(s *pb.Spec) { s.Dataset.Partitions = "day > 7" }),
			}, codes.InvalidArgument,
			[]string{"dataset.partitions: none of 3 files"},
		},
		{"all mistakes", &pb.OpenRequest{Session: "new", Spec: with(func(s *pb.Spec) {
			s.Dataset.Partitions = "dey == 1"
			s.BatchSize = -1
			s.Filter = "labl == 1"
			s.Features[0].Name = []string{"z"}
		})}, codes.InvalidArgument, []string{
			`dataset.partitions: no file has a partition key "dey" in its path; nearest: day`,
			"batch_size: found -1", "filter: ", "nearest: label", "features[0]",
		}},
		{"one partition", &pb.OpenRequest{
			Session: "one day",
			Spec:    with(func(s *pb.Spec) { s.Dataset.Partitions = "day == 1" }),
		}, codes.OK, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := m.Open(t.Context(), test.req)
			if status.Code(err) != test.code {
				t.Fatalf("%v, want %v", err, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			if err == nil {
				got.Progress = opened.GetProgress() // which moves on
			}
			if err == nil && test.req.GetSession() == "run/1 ä" && !proto.Equal(got, opened) {
				t.Errorf("%v, but it was opened as %v", got, opened)
			}
		})
	}
	list, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{})
	check(t, err)
	if s := list.GetSessions(); len(s) != 2 || s[0].GetId() != "one day" || s[0].GetFiles() != 1 ||
		s[1].GetId() != "run/1 ä" || s[1].Program != nil {
		t.Errorf("the sessions are %v", s)
	}
}

// slowListing lets a listing wait for its permission.
type slowListing struct {
	storage.Storage
	lists atomic.Int32
	begun chan struct{}
	may   chan struct{}
}

func (s *slowListing) List(ctx context.Context, profile string, uris []string) ([]*pb.File, error) {
	if s.lists.Add(1) == 1 {
		close(s.begun)
		select {
		case <-s.may:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Storage.List(ctx, profile, uris)
}

func TestASlowOpenIsSharedAndHoldsUpNobody(t *testing.T) {
	disk, err := storage.New(storage.Config{})
	check(t, err)
	slow := &slowListing{Storage: disk, begun: make(chan struct{}), may: make(chan struct{})}
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Storage: slow}})
	dir := dataset(t, 1)
	impatient, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := m.Open(impatient, &pb.OpenRequest{Session: "slow", Spec: newSpec(dir)})
		first <- err
	}()
	<-slow.begun
	openSession(t, m, "fast", newSpec(dir), 1)
	cancel() // the one who began it does not wait for its end
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Errorf("who went away is told %v", err)
	}
	other := newSpec(dir)
	other.Seed = 77
	var calls sync.WaitGroup
	for i := range 4 {
		s, want := newSpec(dir), codes.OK
		if i == 3 {
			s, want = other, codes.AlreadyExists
		}
		calls.Go(func() {
			if _, err := m.Open(t.Context(), &pb.OpenRequest{Session: "slow", Spec: s}); status.Code(err) != want {
				t.Errorf("open: %v, want %v", err, want)
			}
		})
	}
	close(slow.may)
	calls.Wait()
	if n := slow.lists.Load(); n != 2 {
		t.Errorf("the dataset was listed %d times for two sessions", n)
	}
}

func TestABadFooterFailsTheSession(t *testing.T) {
	m := single(t)
	dir := dataset(t, 2)
	bad := filepath.Join(dir, "day=2", "bad.parquet")
	check(t, os.MkdirAll(filepath.Dir(bad), 0o755))
	check(t, os.WriteFile(bad, []byte("PAR1 this is no footer at all PAR1"), 0o644))
	s := newSpec(dir)
	s.Shuffle = false
	openSession(t, m, "run", s, 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	r.work(func() bool { return r.last.GetFailure() != "" })
	if got := r.last.GetFailure(); !strings.Contains(got, bad) || !strings.Contains(got, "block 2 of epoch 0") {
		t.Errorf("the session fails with %q", got)
	}
	if got := openSession(t, m, "run", s, 1); got.GetState() != pb.SessionState_FAILED ||
		!strings.Contains(got.GetFailure(), bad) {
		t.Errorf("it is shown as %v", got)
	}
	eventually(t, "it is told that the session has failed", func() bool {
		o, err := m.Observe(t.Context(), &pb.ObserveRequest{Session: "run"})
		check(t, err)
		return strings.HasPrefix(o.GetVerdict(), "session run has failed: ") && strings.Contains(o.GetVerdict(), bad) &&
			o.GetSessions()[0].GetState() == pb.SessionState_FAILED
	})
	if err := newTrainer(t, m, "run", 0, 1).join("b"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("joining it: %v", err)
	}
}

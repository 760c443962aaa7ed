package master

import (
	"cmp"
	"log/slog"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/master/features"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// Notes are written once, whatever becomes of etcd's answers; what it refuses waits for the next write.
func TestNotesAreWrittenOnce(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	logger := slog.New(slog.DiscardHandler)
	e, err := store.Embedded(t.Context(), t.TempDir(), "127.0.0.1:0", logger)
	check(err)
	defer func() { check(e.Close()) }()
	proxy, err := storetest.NewProxy(t.Context(), e.Endpoints()[0])
	check(err)
	defer func() { check(proxy.Close()) }()
	st, err := store.Open(t.Context(), store.Config{Endpoints: []string{proxy.Endpoint}})
	check(err)
	defer func() { check(st.Close()) }()
	lead, err := st.Campaign(t.Context(), "a")
	check(err)
	n := newNotes(st, lead, logger)
	name := store.ReadsName{Namespace: "default", Prefix: "s3://b/t/"}
	rows := int64(0)
	for _, test := range []struct {
		what    string
		fault   storetest.Fault // of the first transaction
		refused bool
	}{
		{"an answer is lost", func(forward func() error) error { return cmp.Or(forward(), storetest.ErrLost) }, false},
		{"a write is lost", func(func() error) error { return storetest.ErrLost }, false},
		{"etcd refuses", func(func() error) error {
			return status.Error(codes.PermissionDenied, "etcdserver: permission denied")
		}, true},
		{"nothing happens", func(forward func() error) error { return forward() }, false},
	} {
		var first sync.Once
		proxy.OnTxn(func(forward func() error) (err error) {
			passed := true
			first.Do(func() { passed, err = false, test.fault(forward) })
			if passed {
				return forward()
			}
			return err
		})
		n.add(name, features.Of(features.Note{Features: []string{"x"}, Rows: 10, UnixMs: 1}))
		rows += 10
		if err := n.write(t.Context()); (err != nil) != test.refused {
			t.Errorf("%s: %v", test.what, err)
		}
		all, err := n.all(t.Context(), "default", "s3://b/")
		check(err)
		if got := all.Proto().GetRows(); got != rows || all.Proto().GetFeatures()[0].GetRows() != rows {
			t.Errorf("%s: %d rows are counted, want %d", test.what, got, rows)
		}
	}
}

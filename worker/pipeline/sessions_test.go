package pipeline

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// Each session has its counters, for some minutes behind its last stream; the sum knows of all that there ever was.
func TestSessionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := pipelinetest.Store{}
		p := newPipeline(&store, 500)
		p.cfg.Zone = "north"
		read := func(session, zone string, wait time.Duration) {
			ticket := shard(t, &store, 50, 100)
			ticket.Session, ticket.Zone = session, zone
			s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
				defer b.Release()
				return s.Blocked(func() error { time.Sleep(wait); return nil })
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		read("a", "south", time.Second)
		read("b", "north", time.Second)
		time.Sleep(remembered - time.Minute)
		read("b", "", time.Second)
		all, each := p.Sessions()
		if len(each) != 2 || all.GetRows() != 300 {
			t.Fatalf("%v of %v", all, each)
		}
		a, b := each[0].GetCounters(), each[1].GetCounters()
		if a.GetRows() != 100 || a.GetBytesCrossZone() != a.GetBytesSent() || a.GetBlockedNs() != a.GetSendNs() ||
			a.GetOpenNs() < a.GetBlockedNs() || a.GetBlockedNs() == 0 {
			t.Errorf("a: %v", a)
		}
		if b.GetRows() != 200 || b.GetBytesCrossZone() != 0 {
			t.Errorf("b: %v", b)
		}
		time.Sleep(2 * time.Minute)
		later, each := p.Sessions()
		if len(each) != 1 || each[0].GetSession() != "b" || !proto.Equal(later, all) {
			t.Errorf("%v of %v, after %v", later, each, all)
		}
		for i := range 2 * sessionsKept {
			read(fmt.Sprint("run ", i), "", 0)
		}
		later, each = p.Sessions()
		if len(each) != sessionsKept || later.GetRows() != 300+200*sessionsKept {
			t.Errorf("%d sessions are kept; %d rows", len(each), later.GetRows())
		}
	})
}

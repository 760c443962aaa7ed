package master_test

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master"
)

// That workers refuse a session is one event, however many they are and however often they say so.
func TestWorkersThatRefuseASession(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{}})
	for name, address := range map[string]string{"a": "h:1", "b": "h:2"} {
		addWorker(t, m, fleet.Member{Name: name, Address: address, Slots: 4})
	}
	openSession(t, m, "run", newSpec(dataset(t, 1)), 1)
	openSession(t, m, "other", newSpec(dataset(t, 1)), 1)
	report := func(session, words string) {
		for _, name := range []string{"a", "b"} {
			_, err := m.SyncWorker(t.Context(), &pb.WorkerReport{
				Name: name, Slots: 4, Counters: &pb.WorkerCounters{},
				Sessions: []*pb.SessionCounters{{Session: session, Refusal: words}},
			})
			check(t, err)
		}
	}
	told := func(session string) (events []*pb.Event) {
		for _, e := range eventsOf(t, m, &pb.ListEventsRequest{Session: session}) {
			if e.GetKind() == pb.EventKind_DATA {
				events = append(events, e)
			}
		}
		return events
	}
	eventually(t, "there is an event", func() bool {
		report("run", "the table changed")
		return len(told("run")) > 0
	})
	eventually(t, "there is one of the other session", func() bool { // the first one was looked at again by then
		report("other", "the table is gone")
		return len(told("other")) > 0
	})
	eventually(t, "the first session is refused for another reason", func() bool {
		report("run", "the table is gone")
		return len(told("run")) > 1
	})
	const words = " its streams, which others have to take: the table "
	for i, want := range []string{"changed", "is gone"} {
		got, _ := strings.CutSuffix(told("run")[i].GetWords(), words+want)
		if got != "a and b refuse" && got != "a refuses" && got != "b refuses" {
			t.Error(got)
		}
	}
	if n := len(told("run")) + len(told("other")); n != 3 {
		t.Errorf("%d events", n)
	}
}

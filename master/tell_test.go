package master

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

func TestWorkerEvents(t *testing.T) {
	workers := func(members ...fleet.Member) map[string]fleet.Member { return byName(members) }
	a, b := fleet.Member{Name: "a", Address: "h:1"}, fleet.Member{Name: "b", Address: "h:2"}
	drains := func(m fleet.Member) fleet.Member { m.Draining = true; return m }
	var crowd []fleet.Member
	for i := range 12 {
		crowd = append(crowd, fleet.Member{Name: fmt.Sprintf("w%02d", i)})
	}
	for _, c := range []struct {
		name          string
		before, after map[string]fleet.Member
		want          []string
		worker        string
	}{
		{"nothing new", workers(a), workers(a), nil, ""},
		{"came", workers(), workers(a), []string{"a joined; the fleet has 1 worker"}, "a"},
		{"both came", workers(), workers(a, b), []string{"a and b joined; the fleet has 2 workers"}, ""},
		{
			"came again", workers(a), workers(fleet.Member{Name: "a", Address: "h:9"}),
			[]string{"a was started again, and was not seen to drain; the fleet has 1 worker"},
			"a",
		},
		{
			"came again after it had drained", workers(drains(a)), workers(fleet.Member{Name: "a", Address: "h:9"}),
			[]string{"a joined; the fleet has 1 worker"},
			"a",
		},
		{"drains", workers(a, b), workers(drains(a), b), []string{"a drains; the fleet has 1 worker"}, "a"},
		{"drained", workers(drains(a), b), workers(b), []string{"a has drained and left; the fleet has 1 worker"}, "a"},
		{
			"died", workers(a, b), workers(),
			[]string{"a and b are gone, and were not seen to drain; the fleet has 0 workers"},
			"",
		},
		{
			"all at once", workers(a, drains(b)), workers(drains(fleet.Member{Name: "c"})),
			[]string{
				"c joined; the fleet has 0 workers", "b has drained and left; the fleet has 0 workers",
				"a is gone, and was not seen to drain; the fleet has 0 workers",
			},
			"c",
		},
		{
			"many", workers(), workers(crowd...),
			[]string{"w00, w01, w02, w03, w04, w05, w06, w07 and 4 more joined; the fleet has 12 workers"},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := workerEvents(c.before, c.after)
			if len(got) != len(c.want) {
				t.Fatalf("found %v", got)
			}
			for i, e := range got {
				if e.GetWords() != c.want[i] || e.GetKind() != pb.EventKind_WORKER {
					t.Errorf("found %v, want %q", e, c.want[i])
				}
				if lost := strings.Contains(e.GetWords(), "not seen to drain"); lost != (e.GetLost() > 0) {
					t.Errorf("%q: it says that %d were lost", e.GetWords(), e.GetLost())
				}
			}
			if len(got) > 0 && got[0].GetWorker() != c.worker {
				t.Errorf("the event is of worker %q, want %q", got[0].GetWorker(), c.worker)
			}
		})
	}
}

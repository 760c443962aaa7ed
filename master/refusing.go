package master

import (
	"fmt"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/observe"
	"github.com/penstock-ml/penstock/master/store"
)

// refusalsTold bounds the events of one session about workers that refuse it.
const refusalsTold = 8

// emitRefusals makes an event of each session that workers begin to refuse: one for a reason, however many workers have
// it, and however often. The goroutine that observes calls it.
func (t *term) emitRefusals() {
	f, _ := t.master.observed.Fleet()
	for i := range f.Sessions {
		s := &f.Sessions[i]
		if len(s.Refusal.Workers) == 0 {
			continue
		}
		r, err := t.find(store.NameOf(s.Namespace, s.ID))
		if err != nil || r.refusals[s.Refusal.Words] || len(r.refusals) == refusalsTold { // it has just been deleted
			continue
		}
		if r.refusals == nil {
			r.refusals = map[string]bool{}
		}
		r.refusals[s.Refusal.Words] = true
		t.events.Add(r.refusedBy(s.Refusal))
	}
}

// refusedBy is the event of a session that workers refuse.
func (r *runner) refusedBy(by observe.Refusal) *pb.Event {
	e := r.event(pb.EventKind_DATA, fmt.Sprintf("%s %s its streams, which others have to take: %s",
		listed(by.Workers), english.PluralWord(len(by.Workers), "refuses", "refuse"), by.Words))
	if len(by.Workers) == 1 {
		e.Worker = by.Workers[0]
	}
	return e
}

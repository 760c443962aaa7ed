package observe

import (
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
)

// Refusal is why workers refuse the streams of a session, though others may take them: such as a table that changed.
type Refusal struct {
	Workers []string // by name
	Words   string   // of the first
}

// refusals are what the workers told lately, by session.
func (o *Observer) refusals(now time.Time) map[name]Refusal {
	all := map[name]Refusal{}
	for who, w := range o.workers {
		if !w.reports.fresh(now) || w.member.Draining {
			continue
		}
		for id := range w.reports.newest.refusals {
			r := all[id]
			r.Workers = append(r.Workers, who)
			all[id] = r
		}
	}
	for id, r := range all {
		slices.Sort(r.Workers)
		r.Words = o.workers[r.Workers[0]].reports.newest.refusals[id]
		all[id] = r
	}
	return all
}

// refusedBy adds to a session's verdict that some of so many workers refuse it.
func (s *Session) refusedBy(r Refusal, workers int) {
	s.Refusal = r
	if len(r.Workers) > 0 && s.Reads() {
		s.Verdict += fmt.Sprintf("; %d of %s %s it: %s", len(r.Workers), english.Plural(workers, "worker", ""),
			english.PluralWord(len(r.Workers), "refuses", "refuse"), r.Words)
	}
}

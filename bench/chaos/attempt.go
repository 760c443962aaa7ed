package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/process"
)

const (
	// maxVain is how many attempts in a row may end by themselves without a step.
	maxVain = 5
	// checkpointEvery is how often the job takes a checkpoint.
	checkpointEvery = 700 * time.Millisecond
	// holdFor is how long the job holds for one: a rank that hangs shall not keep the others from reading on.
	holdFor = 1500 * time.Millisecond
)

// attempt is the job from one start of all ranks to the next. It belongs to one goroutine, but for describe.
type attempt struct {
	*job
	number int
	from   *checkpoint // where it began
	at     *checkpoint // the newest
	broke  time.Time   // when the last attempt ended; zero at first, and once a batch came
	ranks  []member

	holding  bool // all ranks wait, or are asked to, for a checkpoint
	first    bool // no step was taken yet
	held     time.Time
	stopping bool
	overlap  bool // the restore was refused, since two states have the same rows
}

// member is a rank.
type member struct {
	process *process.Process
	last    heard     // its newest message
	waits   bool      // for the answer to it
	since   time.Time // when it last got what it waited for: an answer, or its start
	ended   bool
	marks   []mark
	named   namedMark
}

// run starts all ranks and follows them until they have ended, in order or not. It reports whether the job is done.
func (a *attempt) run(ctx context.Context) (done bool, err error) {
	defer a.kill()
	if a.from.Named != "" {
		if err := a.restoreNamed(ctx, a.from.Named, a.number, len(a.ranks)); err != nil {
			return false, err
		}
	}
	ends := make(chan int, len(a.ranks))
	for r := range a.ranks {
		if err := a.start(r); err != nil {
			return false, err
		}
		p := a.ranks[r].process
		go discard(p)
		go func() {
			<-p.Done()
			ends <- r
		}()
	}
	a.publish()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	a.held = time.Now()
	for {
		select {
		case m := <-a.messages:
			if m.Attempt == a.number {
				err = a.hear(m)
			}
		case r := <-ends:
			if a.lost(r) {
				return false, a.hopeless()
			}
			if !slices.ContainsFunc(a.ranks, func(m member) bool { return !m.ended }) {
				return a.complete(), nil
			}
		case <-tick.C:
			err = a.tick()
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if err != nil {
			return false, err
		}
	}
}

func (a *attempt) start(r int) error {
	name := fmt.Sprintf("trainer-%d", r+1)
	path := a.path(r)
	s := start{
		Session: a.name, Attempt: a.number, Rank: r, World: len(a.ranks), Masters: a.fleet.masterAddresses(),
		Spec: a.spec, Functions: a.fleet.called,
		Security: a.fleet.keys.security(), Socket: a.socket, Ledger: path + ".rows", Restore: a.from.Number > 0 &&
			a.from.Named == "", Named: a.from.Named, Step: a.from.Step, Compute: a.fleet.compute,
	}
	for i, state := range a.from.States { // each of them in exactly one rank's hands
		if i%len(a.ranks) == r {
			s.States = append(s.States, state)
		}
	}
	if err := s.parse(); err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".start", text, 0o600); err != nil {
		return fmt.Errorf("chaos: job: %w", err)
	}
	if a.fleet.mixed && r%2 == 1 {
		a.ranks[r].process, err = a.fleet.runPython(name, trainerScript, path+".start")
	} else {
		a.ranks[r].process, err = a.fleet.run(name, "trainer", "--start="+path+".start")
	}
	return err
}

// path is where a rank's files are, but for their endings.
func (a *attempt) path(r int) string {
	return filepath.Join(a.fleet.dir, fmt.Sprintf("%s-%d-%d", a.name, a.number, r))
}

// publish lets faults find the ranks.
func (a *attempt) publish() {
	a.change(func() {
		a.trainers = nil
		for _, m := range a.ranks {
			a.trainers = append(a.trainers, m.process)
		}
	})
}

// kill ends what is left of the ranks, as a launcher does when one of them failed.
func (a *attempt) kill() {
	a.change(func() { a.trainers = nil })
	for _, m := range a.ranks {
		if m.process != nil {
			_ = m.process.Kill() // it may have ended already
		}
	}
	for _, m := range a.ranks {
		if m.process != nil {
			<-m.process.Done()
		}
	}
}

// lost takes note of a rank's end, and reports whether the attempt has failed by it.
func (a *attempt) lost(r int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.ranks[r].process
	a.ranks[r].ended = true
	err := p.Wait()
	if err == nil && p.Status() == "exit status 0" && a.stopping {
		return false
	}
	why := p.Status()
	if err != nil { // nobody killed it
		why = lastLine(err.Error())
	}
	a.overlap = a.overlap || strings.Contains(why, "the states overlap")
	a.figures.Ends[cause(why)]++
	a.say("job: attempt %d ends at %d rows: %s: %s; %s", a.number, a.handed(), p.Name, why, a.back())
	return true
}

// back says where the job goes on.
func (a *attempt) back() string {
	if a.fleet.stateless {
		return "on without states"
	}
	return fmt.Sprintf("back to checkpoint %d at %d rows", a.at.Number, a.at.rows())
}

// hopeless is an error if one attempt after another ended without a step although no fault ended it.
func (a *attempt) hopeless() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.overlap && a.from.before != nil { // there are older ones
		return nil
	}
	if killed := !slices.ContainsFunc(a.ranks,
		func(m member) bool { return m.ended && m.process.Wait() != nil }); killed || a.broke.IsZero() {
		a.vain = 0
		return nil
	}
	if a.vain++; a.vain < maxVain {
		return nil
	}
	return fmt.Errorf("%d attempts in a row ended without a step; the last line above says why", a.vain)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// cause is a short name of why a trainer ended.
func cause(why string) string {
	switch {
	case strings.HasPrefix(why, "signal: killed"):
		return "killed"
	case strings.Contains(why, "fenced"):
		return "fenced"
	case strings.Contains(why, "the states overlap"):
		return "refused"
	}
	return why
}

// hear takes in a message.
func (a *attempt) hear(m heard) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	member := &a.ranks[m.Rank]
	stepped := member.last.Seq > 0 && m.Step > member.last.Step
	member.last, member.waits = m, true
	if m.Returned > 0 {
		member.marks = append(member.marks, mark{returned: time.Unix(0, m.Returned), wait: m.Wait, records: m.Records})
	}
	if m.Named != nil {
		member.named = *m.Named
		member.named.records, member.named.step = m.Records, m.Step
	}
	if stepped {
		now := time.Now()
		a.figures.All = append(a.figures.All, m.Wait)
		if m.Wait >= notable {
			a.figures.Waits = append(a.figures.Waits, wait{rank: m.Rank, end: now, long: m.Wait})
		}
		if !a.broke.IsZero() {
			a.figures.Restarts = append(a.figures.Restarts, now.Sub(a.broke))
			a.broke = time.Time{}
		}
	}
	if n := a.handed(); n > a.high {
		a.high = n
		a.wake()
	}
	return a.release()
}

// handed is the number of rows that the job has by now. mu must be held.
func (a *attempt) handed() int64 {
	n := a.from.rows()
	for _, m := range a.ranks {
		n += m.last.Records
	}
	return n
}

// release answers those who wait, if they may go on. mu must be held.
func (a *attempt) release() error {
	together := !slices.ContainsFunc(a.ranks, func(m member) bool { return !m.waits })
	finished := together && !slices.ContainsFunc(a.ranks, func(m member) bool { return !m.last.Ended })
	switch {
	case a.stopping:
		return nil
	case together && (a.holding || finished):
		a.holding = false
		taken, err := a.fleet.stateless, error(nil)
		if !taken {
			taken, err = a.checkpoint()
		}
		if err != nil {
			return err
		}
		if taken && (finished || a.resize) {
			a.stopping = true
			a.answer(order{Stop: true})
			return nil
		}
	case a.holding:
		return nil
	}
	if a.handed() < a.gate && (together || !a.inStep() && !a.first) {
		a.first = false
		a.answer(order{Go: true})
	}
	return nil
}

// answer gives those who wait an order; those with no epoch left wait for Stop. A trainer that cannot be told has
// ended.
func (a *attempt) answer(o order) {
	for r := range a.ranks {
		m := &a.ranks[r]
		if m.waits && (o.Stop || !m.last.Ended) {
			m.waits, m.since = false, time.Now()
			_ = m.last.conn.Encode(o)
		}
	}
}

// tick asks for a checkpoint when it is time, and gives it up when a rank does not answer.
func (a *attempt) tick() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := time.Since(a.held)
	switch {
	case a.stopping || a.first:
	case a.holding && since > holdFor && !a.resize:
		a.holding, a.held = false, time.Now()
	case !a.holding && (since > checkpointEvery && !a.fleet.stateless || a.resize):
		a.holding, a.held = true, time.Now()
		a.interrupt()
	}
	return a.release()
}

// interrupt asks all ranks for a message that are in Next, which may wait for rows that others have. Ranks in step need
// no asking: each gets to the end of the step.
func (a *attempt) interrupt() {
	for _, m := range a.ranks {
		if !m.waits && !a.inStep() {
			_ = m.last.conn.Encode(order{Hold: m.last.Seq}) // a trainer that cannot be told has ended
		}
	}
}

// inStep reports whether no rank takes a step before all have taken the one before it.
func (a *attempt) inStep() bool { return a.fleet.lastBatch != "uneven" }

// checkpoint keeps what all ranks said last, unless some are in another epoch than others: nothing can be restored from
// such states. It reports whether it did. mu must be held.
func (a *attempt) checkpoint() (taken bool, err error) {
	a.held = time.Now()
	if same, err := a.sameEpoch(); err != nil || !same {
		return false, err
	}
	next := a.checkpointAt(func(m member) (uint32, int64) { return m.last.Step, m.last.Records })
	next.Number = a.at.Number + 1
	for _, m := range a.ranks {
		next.States = append(next.States, m.last.State)
	}
	if err := next.save(filepath.Join(a.fleet.dir, a.name+".checkpoint")); err != nil {
		return false, err
	}
	next.follow(a.at)
	a.at = next
	a.figures.Checkpoints++
	return true, nil
}

// checkpointAt has the rows that the attempt began with, and those that each rank got in it up to a place.
// mu must be held.
func (a *attempt) checkpointAt(place func(member) (step uint32, records int64)) *checkpoint {
	c := &checkpoint{Step: a.from.Step, Segments: slices.Clone(a.from.Segments)}
	for r, m := range a.ranks {
		step, records := place(m)
		c.Step = max(c.Step, step)
		if records > 0 {
			c.Segments = append(c.Segments, segment{Path: a.path(r) + ".rows", Rank: r, Records: records})
		}
	}
	return c
}

// sameEpoch reports whether the training loops of all ranks are in one epoch.
func (a *attempt) sameEpoch() (bool, error) {
	epochs := map[uint32]bool{}
	for _, m := range a.ranks {
		var s pb.State
		if err := proto.Unmarshal(m.last.State, &s); err != nil {
			return false, fmt.Errorf("chaos: state of rank %d: %w", m.last.Rank, err)
		}
		epochs[s.GetClosedEpochs()] = true
	}
	return len(epochs) == 1, nil
}

// complete reports whether all ranks had all epochs when they left.
func (a *attempt) complete() bool {
	return !slices.ContainsFunc(a.ranks, func(m member) bool { return !m.last.Ended })
}

// stuckFor is the longest time that a rank has been without a batch. mu must be held.
func (a *attempt) stuckFor() time.Duration {
	var longest time.Duration
	for _, m := range a.ranks {
		if !m.waits && !m.ended {
			longest = max(longest, time.Since(m.since))
		}
	}
	return longest
}

// describe says where the ranks are. mu must be held.
func (a *attempt) describe() string {
	text := fmt.Sprintf("attempt %d, checkpoint %d at %d rows, %d rows by now", a.number, a.at.Number, a.at.rows(),
		a.handed())
	for r, m := range a.ranks {
		where := "in Next"
		switch {
		case m.ended:
			where = "ended"
		case m.last.Seq == 0:
			where = "opening the session"
		case m.last.Ended:
			where = "through all epochs"
		case m.waits:
			where = "waits for the job"
		}
		text += fmt.Sprintf("\n  rank %d: step %d, %d rows, %s", r, m.last.Step, m.last.Records, where)
	}
	return text
}

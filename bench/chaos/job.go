package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/process"
)

// checkpoint is what the job can go back to: what all ranks said at one moment, in which none of them took a step.
type checkpoint struct {
	Number   int
	Step     uint32
	States   [][]byte
	Segments []segment
	// Named is the name of one that masters took; then it has no States.
	Named string
	// before is the one that was taken before, and so on, as far as they are kept.
	before *checkpoint
}

// kept is how many checkpoints a job keeps: those of a time that is longer than a lease and any fault, since a rank
// that cannot reach a master goes on for its lease, and others get its rows later.
const kept = 100

// follow makes c the newest of those kept.
func (c *checkpoint) follow(before *checkpoint) {
	c.before = before
	for n := 1; c != nil; n++ {
		if n == kept {
			c.before = nil
		}
		c = c.before
	}
}

func (c *checkpoint) rows() int64 {
	var n int64
	for _, s := range c.Segments {
		n += s.Records
	}
	return n
}

// wait is a pause that a trainer saw: the time that a Next took.
type wait struct {
	rank int
	end  time.Time
	long time.Duration
}

// job is the trainers' launcher and coordinator. run owns the attempts; what faults and the report ask stands behind
// mu.
type job struct {
	name  string // of its session
	fleet *fleet
	spec  string
	total int64
	say   func(format string, args ...any)

	socket   string
	messages chan heard

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, when what follows changes
	high     int64         // the most rows that were ever handed over
	gate     int64         // rows beyond which no step is taken yet
	finished bool
	trainers []*process.Process // by rank, of the present attempt
	resize   bool               // end the attempt at its next checkpoint
	world    int                // of the next attempt
	vain     int                // attempts in a row that ended by themselves without a step
	figures  figures
	present  *attempt // or nil
	named    *namedTaken
}

// figures are what the report says of the job.
type figures struct {
	Attempts, Checkpoints int
	Named, NamedRestores  int    // checkpoints that masters took, and that the job went on from
	Waits                 []wait // those of notable and more
	All                   []time.Duration
	// Overlaps counts restores that were refused: a rank that could not reach a master for longer than its lease had
	// handed over rows that others have, too.
	Overlaps int
	// Restarts are the times from a rank's end to the next batch of the job.
	Restarts []time.Duration
	// Ends says how ranks ended that no fault had ended.
	Ends map[string]int
}

// notable is the least pause that is set against the faults.
const notable = 50 * time.Millisecond

// heard is a message and the connection to answer on.
type heard struct {
	message
	conn *json.Encoder
}

func newJob(name string, f *fleet, spec string, world int, total int64, say func(string, ...any)) *job {
	return &job{
		name: name, fleet: f, spec: spec, total: total, say: say, socket: filepath.Join(f.dir, name+".sock"),
		messages: make(chan heard, 64),
		changed:  make(chan struct{}), gate: math.MaxInt64, world: world, figures: figures{Ends: map[string]int{}},
	}
}

// run runs the job to its end and returns what was handed over.
func (j *job) run(ctx context.Context) ([]segment, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", j.socket)
	if err != nil {
		return nil, fmt.Errorf("chaos: job: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		return listener.Close()
	})
	group.Go(func() error { return j.accept(ctx, listener) })
	if j.fleet.named {
		group.Go(func() error { return j.takeNamed(ctx) })
	}
	segments, err := j.attempts(ctx)
	cancel()
	if waited := group.Wait(); waited != nil { // that ended the attempts
		err = waited
	}
	return segments, err
}

func (j *job) attempts(ctx context.Context) ([]segment, error) {
	at := &checkpoint{}
	var broke time.Time
	for n, back := 1, 1; ; n++ {
		a := j.attempt(n, at, broke)
		done, err := a.run(ctx)
		if err != nil {
			return nil, err
		}
		at = a.at
		if j.fleet.stateless {
			if at, err = a.left(); err != nil {
				return nil, err
			}
		}
		if done {
			j.change(func() { j.finished = true })
			return at.Segments, nil
		}
		broke = time.Now()
		if !a.overlap {
			back = 1
			named, err := a.namedCheckpoint()
			if err != nil {
				return nil, err
			}
			if named != nil {
				at = named
				j.say("job: back to checkpoint %s at %d rows", at.Named, at.rows())
			}
			continue
		}
		for range back { // further each time
			if at.before != nil {
				at = at.before
			}
		}
		back *= 2
		j.change(func() { j.figures.Overlaps++ })
		j.say("job: checkpoint %d holds rows that a rank handed over when its lease had ended; back to checkpoint %d",
			a.at.Number, at.Number)
	}
}

// accept reads what trainers say until ctx ends.
func (j *job) accept(ctx context.Context, listener net.Listener) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("chaos: job: %w", err)
		}
		readers.Go(func() {
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			in, out := json.NewDecoder(conn), json.NewEncoder(conn)
			for {
				m := heard{conn: out}
				if in.Decode(&m.message) != nil { // the trainer's end, which its process tells
					return
				}
				select {
				case j.messages <- m:
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// change changes what stands behind mu, and wakes who waits for it.
func (j *job) change(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
	j.wake()
}

// wake wakes who waits for a change. mu must be held.
func (j *job) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// await waits until a number of rows was handed over, or the job has finished.
func (j *job) await(ctx context.Context, rows int64) error {
	for {
		j.mu.Lock()
		there, changed := j.high >= rows || j.finished, j.changed
		j.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// allow lets the job hand over rows up to a number.
func (j *job) allow(rows int64) { j.change(func() { j.gate = rows }) }

// nth is the place of a rank, counted from 1 and, beyond the world, from its begin; none while there are no ranks.
func (j *job) nth(number string) []string {
	all := j.names()
	n, err := strconv.Atoi(number)
	if err != nil || len(all) == 0 {
		return nil
	}
	return []string{all[(n-1)%len(all)]}
}

// names are the places of all ranks.
func (j *job) names() []string {
	var out []string
	for _, p := range j.ranks() {
		out = append(out, p.Name)
	}
	return out
}

// ranks are the processes of all ranks.
func (j *job) ranks() []*process.Process {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]*process.Process(nil), j.trainers...)
}

// next sets the world size of the next attempt, relative to the first's.
func (j *job) next(relative int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.fleet.stateless { // without states a session keeps its world
		j.world = max(1, j.fleet.trainers+relative)
	}
}

// endAttempt has the present attempt end in order, at a checkpoint.
func (j *job) endAttempt() { j.change(func() { j.resize = true }) }

// stuckFor says for how long some rank has waited for a batch, or for its session.
func (j *job) stuckFor() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.present == nil {
		return 0
	}
	return j.present.stuckFor()
}

// attempt prepares the next start of all ranks.
func (j *job) attempt(n int, at *checkpoint, broke time.Time) *attempt {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.figures.Attempts = n
	a := &attempt{
		job: j, number: n, from: at, at: at, broke: broke, ranks: make([]member, j.world), holding: true,
		first: true,
	}
	for r := range a.ranks {
		a.ranks[r].since = time.Now()
	}
	j.resize = false
	j.present = a
	return a
}

// save writes a checkpoint down, as a job does with its model.
func (c *checkpoint) save(path string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("chaos: checkpoint: %w", err)
	}
	return os.Rename(path+".new", path)
}

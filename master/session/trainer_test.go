package session

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/position"
)

// trainer is a simulated client. It follows the client's side of the protocol:
// it takes over the grants of the newest revision it saw, hands over rows of the open epoch only, and once it gave
// an interval back, keeps away from it until a newer revision grants it again.
type trainer struct {
	rank        uint32
	nonce       string
	generation  uint64 // 0: has not joined
	incarnation uint64
	closed      uint32 // epochs, by the master
	ended       uint32 // epochs, by its training loop; see loop for those in step
	from        uint32 // the first epoch that it reads: it left those before
	revision    uint64
	consumed    position.Set
	grants      []position.Interval
	released    position.Set

	base              position.Set
	baseVersion       uint64
	members, departed []uint32
	departedRows      []int64
	indexes           []BlockIndexes

	sent    int // Syncs
	cutAt   int // its lease ended after so many Syncs; it waits for the answer to a later one
	cut     bool
	dead    bool
	orphan  bool // its session was begun anew, and knows nothing of it
	leaving bool
	left    bool
	earlier int64 // rows of earlier incarnations
	rows    int64
	log     []position.Position // the rows, in order
	faults  *faults
	refused map[position.Position]bool // where workers refuse to go on; it does not try there again
	skipped uint32
	slow    *slow // nil: rows come at once
	begun   Steps
	loop    *loop   // nil: last batches are not padded
	came    []stale // its States when its loop came to the newest two places

	batches int64
	all     tally // rows handed over by this start, and those that its rank had reported before
	order   *Order
	part    *Part
}

// pieces is what the trainer may stream: its grants without what it consumed or gave back.
func (t *trainer) pieces() []position.Interval {
	var out []position.Interval
	for _, g := range t.grants {
		out = append(out, from(position.Set{g}.Subtract(t.consumed).Subtract(t.released),
			position.Position{Epoch: t.from})...)
	}
	return out
}

// joined takes over the answer to Join.
func (t *trainer) joined(r Reply) {
	t.generation, t.incarnation, t.consumed, t.begun, t.earlier = r.Generation, r.Incarnation, r.Consumed, r.Begun,
		r.Earlier.Rows
	if t.loop != nil {
		t.loop.at, t.loop.rank = Steps{Epoch: r.Begun.Epoch, Handed: r.Begun.Handed}, t.rank
		t.begun = t.loop.at
	}
	t.ended = r.Closed
	t.learn(r)
}

func (t *trainer) learn(r Reply) {
	t.closed, t.indexes = max(t.closed, r.Closed), r.Indexes
	switch {
	case t.loop == nil:
	case t.loop.drops:
		t.ended = t.closed
	default:
		t.ended = t.loop.at.Epoch
	}
	if r.BaseVersion > t.baseVersion {
		t.base, t.baseVersion, t.members, t.departed, t.departedRows = t.base.Union(r.Base), r.BaseVersion, r.Members,
			r.Departed, r.DepartedRows
		t.skipped = r.SkippedRowGroups
	}
	t.enter(t.ended)
}

// enter notes that the training loop is in an epoch, and has ended those before it.
func (t *trainer) enter(epoch uint32) {
	t.ended = epoch
	start := position.Position{Epoch: min(epoch, t.closed)}
	t.base, t.consumed = from(t.base, start), from(t.consumed, start)
}

// hand hands over up to n rows of one piece of the open epoch.
func (t *trainer) hand(d dataset, draw func(n int) int) []position.Position {
	if t.ended < t.closed {
		if draw(4) == 0 {
			return nil
		}
		t.enter(t.ended + 1)
	}
	var open []position.Interval
	for _, p := range t.pieces() {
		if p = t.readable(p, draw); p.From.Epoch == t.closed && !p.Empty() {
			open = append(open, p)
		}
	}
	if t.closed < t.from || len(open) == 0 || t.cut || t.dead || t.leaving {
		return nil
	}
	iv := open[draw(len(open))]
	iv.To = d.after(iv, draw(8), draw(2) == 0)
	if iv.Empty() {
		return nil
	}
	taken := position.Set{iv}
	t.consumed = t.consumed.Union(taken)
	return t.handedOver(d.rows(taken))
}

func (t *trainer) handedOver(rows []position.Position) []position.Position {
	t.rows += int64(len(rows))
	t.log = append(t.log, rows...)
	return rows
}

// request is a Sync under way.
type request struct {
	from *trainer
	seq  int
	sync Sync
}

func (t *trainer) request(draw func(n int) int) request {
	t.sent++
	for _, p := range t.pieces() {
		t.readable(p, draw)
	}
	t.slow.sync(t.pieces())
	r := request{from: t, seq: t.sent, sync: Sync{
		Rank: t.rank, Generation: t.generation, Incarnation: t.incarnation, Nonce: t.nonce,
		Consumed: t.consumed, Released: t.released, Leave: t.leaving,
		Counters: Counters{Rows: t.rows, Batches: t.batches}, Part: t.part, Revision: t.revision,
		From:      t.from,
		WantsMore: len(t.pieces()) < 1+draw(3), Streams: uint32(draw(3)), Steps: t.report(draw), Refused: t.refusals(),
	}}
	if t.idle(draw) {
		r.sync.WantsMore, r.sync.Idle = true, !t.leaving
	}
	if draw(2) == 0 {
		r.sync.BaseVersion = t.baseVersion
	}
	return r
}

// receive takes over the answer to a Sync.
func (t *trainer) receive(q request, r Reply, draw func(n int) int) {
	if t.dead || r.Generation != t.generation || r.Incarnation != t.incarnation {
		return
	}
	t.learn(r)
	if q.sync.Leave {
		t.left, t.dead = true, true
		return
	}
	if t.loop != nil {
		t.loop.learn(r)
	}
	t.obey(r.Order)
	if q.seq > t.cutAt {
		t.cut = false
	}
	if r.Revision < t.revision {
		return
	}
	t.revision = r.Revision
	if !r.Unchanged {
		t.grants = r.Grants
	}
	t.released = t.released.Intersect(r.Release)
	switch {
	case t.slow != nil:
		t.released = t.gives(r.Release, draw)
	case t.loop != nil && t.loop.even:
		making, _ := t.take(draw, t.closed)
		t.released = r.Release.Subtract(t.consumed).Subtract(making)
	default:
		for _, iv := range r.Release {
			if draw(2) == 0 {
				t.released = t.released.Union(position.Set{iv}.Subtract(t.consumed))
			}
		}
	}
	t.forgetRefused()
	if t.loop != nil {
		t.loop.through = r.Drained && q.sync.Idle && t.idle(draw)
	}
}

// gives is what it gives back of what is asked for: neither of the batch in the making, nor the window that it reads
// first.
func (t *trainer) gives(asked position.Set, draw func(n int) int) position.Set {
	making, _ := t.take(draw, t.closed)
	given := asked.Subtract(t.consumed).Subtract(making)
	left := within(position.NewSet(t.pieces()...), t.closed).Subtract(making)
	if len(left) == 0 || !given.Contains(left[0].From) {
		return given
	}
	front := position.Interval{From: left[0].From, To: windowOf(left[0].From)}
	front.To.Window++
	return given.Subtract(position.Set{front})
}

// idle reports whether nothing is left of the open epoch but for the batch in the making.
func (t *trainer) idle(draw func(n int) int) bool {
	if t.loop != nil {
		_, all := t.take(draw, t.loop.epoch(t.closed))
		return all
	}
	for _, p := range t.pieces() {
		if p.From.Epoch == t.closed {
			return false
		}
	}
	return true
}

// state is the trainer's checkpoint.
func (t *trainer) state(session string, world uint32) Checkpoint {
	c := Checkpoint{
		Version: checkpointVersion, Session: session, Generation: t.generation,
		Rank: t.rank, World: world, Closed: t.ended, MasterClosed: t.closed,
		Base: t.base, Consumed: t.consumed, BaseVersion: t.baseVersion,
		Members: t.members, Departed: t.departed, Rows: t.earlier +
			t.rows, DepartedRows: t.departedRows, Skipped: t.skipped,
		ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest, PlannerDigest: testID.PlannerDigest,
		Indexes: t.indexes,
	}
	if t.from > c.Closed {
		c.Closed = t.from
		c.Base, c.Consumed = from(c.Base, position.Position{Epoch: t.from}), from(c.Consumed,
			position.Position{Epoch: t.from})
	}
	if t.loop != nil {
		c.Closed, c.Handed, c.Remembers = t.loop.at.Epoch, t.loop.at.Handed, !t.loop.drops
		start := position.Position{Epoch: c.Closed}
		c.Base, c.Consumed = from(c.Base, start), from(c.Consumed, start)
	}
	return c
}

func (t *trainer) String() string {
	return fmt.Sprintf("rank %d, generation %d, incarnation %d", t.rank, t.generation, t.incarnation)
}

var testID = Identity{Session: "test", ProgramDigest: "program", DatasetDigest: "dataset", PlannerDigest: "planner"}

// joinCommand is the trainer's Join; every start of a rank has its own nonce.
func (t *trainer) joinCommand(world uint32) Join {
	return Join{Rank: t.rank, World: world, Nonce: t.nonce}
}

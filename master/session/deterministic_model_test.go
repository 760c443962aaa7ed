package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/master/plan"
)

// laneModel is a job in deterministic order, whose ranks go in step, die, and are restored; whose master changes, and
// whose calls get lost, late or double.
type laneModel struct {
	draw    func(n int) int
	d       dataset
	lanes   [][][]position.Position // by epoch and lane: the rows in order
	id      Identity
	s       *State
	head    []byte
	keys    map[uint32][]byte
	ranks   []*laneRank
	network []laneCall
	nonces  int
	execute executor
	handed  map[position.Position]int
	excused map[position.Position]int // may be repeated
	began   Steps                     // the generation
	leaves  bool                      // ranks leave epochs
	left    map[uint32]bool           // that some rank left
}

// laneRank is the newest start of a rank, which lives or has died.
type laneRank struct {
	rank                    uint32
	nonce                   string
	generation, incarnation uint64
	at, begun, reported     Steps
	told                    map[uint32]EpochSteps
	pieces                  []Piece
	starts                  []LaneStart
	revision                uint64
	from                    uint32 // it left the epochs before
	dead                    bool
}

type laneCall struct {
	from *laneRank
	sync Sync
}

// runLanes plays a job, and returns what went wrong.
func runLanes(draw func(n int) int, steps int, leaves bool, execute executor) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(modelError)
			if !ok {
				panic(r)
			}
			err = e.error
		}
	}()
	m := newLaneModel(draw, execute)
	m.leaves = leaves
	for range steps {
		m.act()
		m.checked()
	}
	m.finish()
	return m.verdict()
}

func newLaneModel(draw func(n int) int, execute executor) *laneModel {
	m := &laneModel{
		draw: draw, d: randomDataset(draw), execute: execute, handed: map[position.Position]int{},
		excused: map[position.Position]int{}, left: map[uint32]bool{},
	}
	m.id = testID
	m.id.Epochs, m.id.LastBatch = uint32(len(m.d)), []pb.LastBatch{pb.LastBatch_UNEVEN, pb.LastBatch_DROP}[draw(2)]
	m.id.FirstWorldSize = uint32(1 + draw(3))
	m.id.Lanes = m.id.FirstWorldSize * uint32(1+draw(2))
	m.id.GlobalBatch = uint64(m.id.Lanes) * uint64(1+draw(3))
	for e := range m.d {
		lanes, rows := make([][]position.Position, m.id.Lanes), make([]uint64, m.id.Lanes)
		for b := range m.d[e] {
			var shards []uint64
			var all [][]position.Position
			for i := range m.d[e][b] {
				shard := position.Position{Epoch: uint32(e), Block: uint32(b), Shard: uint32(i)}
				next := shard
				next.Shard++
				all = append(all, m.d.rows(position.Set{{From: shard, To: next}}))
				shards = append(shards, uint64(len(all[i])))
			}
			var pieces []plan.Piece
			pieces, rows = plan.Lanes(shards, rows, b == len(m.d[e])-1)
			for _, p := range pieces {
				lanes[p.Lane] = append(lanes[p.Lane], all[p.Shard][p.From:p.From+p.Rows]...)
			}
		}
		m.lanes = append(m.lanes, lanes)
	}
	m.open(m.id.FirstWorldSize)
	m.joinAll()
	return m
}

func (m *laneModel) fail(format string, args ...any) { panic(modelError{fmt.Errorf(format, args...)}) }

// open begins a session in an empty etcd.
func (m *laneModel) open(world uint32) {
	m.id.FirstWorldSize = world
	s, err := New(m.id)
	if err != nil {
		m.fail("%w", err)
	}
	m.s, m.head, m.keys = s, nil, map[uint32][]byte{}
	m.network, m.ranks = nil, make([]*laneRank, world)
}

func (m *laneModel) apply(c Command) (Reply, error) {
	r, ch, err := m.execute(m.s, c)
	if err != nil {
		return r, err
	}
	put := func(msg proto.Message) []byte {
		b, err := proto.Marshal(msg)
		if err != nil {
			m.fail("%w", err)
		}
		return b
	}
	if ch.Head {
		m.head = put(m.s.Head())
	}
	for _, k := range ch.Ranks {
		m.keys[k] = put(m.s.Rank(k))
	}
	return r, nil
}

func (m *laneModel) must(c Command) Reply {
	r, err := m.apply(c)
	if err != nil {
		m.fail("%T %+v: %w", c, c, err)
	}
	return r
}

// takeOver is a change of the leader, which knows what lies in etcd.
func (m *laneModel) takeOver() {
	if m.head == nil {
		return
	}
	head, ranks := &pb.SessionHead{}, map[uint32]*pb.SessionRank{}
	if err := proto.Unmarshal(m.head, head); err != nil {
		m.fail("%w", err)
	}
	for r, b := range m.keys {
		ranks[r] = &pb.SessionRank{}
		if err := proto.Unmarshal(b, ranks[r]); err != nil {
			m.fail("%w", err)
		}
	}
	s, err := Load(m.id, head, ranks, m.d.blocks(head, m.d.planned), nil)
	if err != nil {
		m.fail("load: %w", err)
	}
	m.s = s
	if err := summarized(s); err != nil {
		m.fail("%w", err)
	}
}

func (m *laneModel) checked() {
	if err := m.s.Check(); err != nil {
		m.fail("%w", err)
	}
}

func (m *laneModel) act() {
	if m.leaves && m.draw(12) == 0 {
		m.leave(m.ranks[m.draw(len(m.ranks))])
		return
	}
	switch k := m.ranks[m.draw(len(m.ranks))]; m.draw(12) {
	case 0, 1:
		m.plan()
	case 2, 3:
		m.send(k)
	case 4, 5, 6:
		m.deliver()
	case 7, 8, 9:
		m.hand(k)
	case 10:
		switch m.draw(4) {
		case 0:
			k.dead = true
			if m.draw(2) == 0 {
				m.must(Expire{Rank: k.rank, Incarnation: k.incarnation})
			}
		case 1:
			m.rejoin(k)
		case 2:
			m.takeOver()
		case 3:
			m.restore(k)
		}
	case 11:
		m.rejoin(k)
	}
}

func (m *laneModel) plan() {
	if epoch, index, ok := m.s.NeedsPlan(); ok {
		m.must(m.d.planned(epoch, index))
		if m.draw(4) == 0 {
			m.must(m.d.planned(epoch, index))
		}
	}
}

func (m *laneModel) nonce() string {
	m.nonces++
	return fmt.Sprint(m.nonces)
}

func (m *laneModel) started(r uint32, nonce string, reply Reply) *laneRank {
	if got, want := m.s.ranks[r].begunStep, m.stepsBetween(m.began, reply.Begun); got != uint64(want) &&
		len(m.left) == 0 {
		m.fail("rank %d begins at %+v and counts %d steps, not %d", r, reply.Begun, got, want)
	}
	return &laneRank{
		rank: r, nonce: nonce, generation: reply.Generation, incarnation: reply.Incarnation,
		at: Steps{Epoch: reply.Begun.Epoch, Handed: reply.Begun.Handed}, begun: reply.Begun, reported: reply.Begun,
		told: map[uint32]EpochSteps{}, starts: reply.Starts,
	}
}

func (m *laneModel) joinAll() {
	for r := range m.ranks {
		nonce := m.nonce()
		m.ranks[r] = m.started(uint32(r), nonce, m.must(Join{Rank: uint32(r), World: m.s.World(), Nonce: nonce}))
	}
}

// rejoin starts a dead rank again. What it handed over and did not report may repeat.
func (m *laneModel) rejoin(k *laneRank) {
	if !k.dead {
		return
	}
	nonce := m.nonce()
	next := m.started(k.rank, nonce, m.must(Join{Rank: k.rank, World: m.s.World(), Nonce: nonce}))
	if m.stepsBetween(k.at, next.at) > 0 {
		m.fail("rank %d begins at %+v, and had handed over up to %+v", k.rank, next.at, k.at)
	}
	if len(m.left) == 0 &&
		!slices.ContainsFunc(m.ranks, func(u *laneRank) bool { return m.stepsBetween(next.at, m.mayWaitAt(u)) == 0 }) {
		m.fail("rank %d begins at %+v, and all ranks have told of more", k.rank, next.at)
	}
	for _, row := range m.between(k.rank, next.at, k.at) {
		m.excused[row]++
	}
	m.ranks[k.rank] = next
}

// mayWaitAt is where a rank began, if it may wait there for others, and else where it said that it is.
func (m *laneModel) mayWaitAt(k *laneRank) Steps {
	if m.stepsBetween(k.begun, k.reported) <= firstBatches {
		return k.begun
	}
	return k.reported
}

// steps is how many an epoch has.
func (m *laneModel) steps(epoch uint32) uint64 {
	if epoch >= m.id.Epochs {
		return 0
	}
	share := int(m.id.share())
	least, most := len(m.lanes[epoch][0]), 0
	for _, l := range m.lanes[epoch] {
		least, most = min(least, len(l)), max(most, len(l))
	}
	if m.id.LastBatch == pb.LastBatch_DROP {
		return uint64(least / share)
	}
	return uint64((most + share - 1) / share)
}

// dropped is how many rows of an epoch are in no step.
func (m *laneModel) dropped(epoch uint32) (rows uint64) {
	if epoch >= m.id.Epochs {
		return 0
	}
	for _, l := range m.lanes[epoch] {
		rows += uint64(len(l)) - min(uint64(len(l)), m.steps(epoch)*m.id.share())
	}
	return rows
}

// batch is what a rank has to hand over in a step.
func (m *laneModel) batch(r uint32, n Steps) (rows []position.Position) {
	share := m.id.share()
	for lane := r * m.id.Lanes / m.s.World(); lane < (r+1)*m.id.Lanes/m.s.World(); lane++ {
		all := m.lanes[n.Epoch][lane]
		from, to := min(n.Handed*share, uint64(len(all))), min((n.Handed+1)*share, uint64(len(all)))
		rows = append(rows, all[from:to]...)
	}
	return rows
}

// between lists the rows of a rank from one place to another.
func (m *laneModel) between(r uint32, from, to Steps) (rows []position.Position) {
	m.eachStep(from, to, func(n Steps) { rows = append(rows, m.batch(r, n)...) })
	return rows
}

func (m *laneModel) stepsBetween(from, to Steps) (n int) {
	m.eachStep(from, to, func(Steps) { n++ })
	return n
}

func (m *laneModel) eachStep(from, to Steps, f func(Steps)) {
	for at := from; at.less(to) && at.Epoch < m.id.Epochs; {
		if at.Handed >= m.steps(at.Epoch) {
			at = Steps{Epoch: at.Epoch + 1}
			continue
		}
		f(at)
		at.Handed++
	}
}

func (m *laneModel) send(k *laneRank) {
	if !k.dead && len(m.network) < 8 {
		m.network = append(m.network, laneCall{k, Sync{
			Rank: k.rank, Generation: k.generation, Incarnation: k.incarnation, Nonce: k.nonce, Revision: k.revision,
			Steps: &Steps{Epoch: k.at.Epoch, Handed: k.at.Handed}, From: k.from,
		}})
	}
}

func (m *laneModel) deliver() {
	if len(m.network) == 0 {
		return
	}
	i := m.draw(len(m.network))
	q := m.network[i]
	if m.draw(3) > 0 {
		m.network = slices.Delete(m.network, i, i+1)
	}
	reply, err := m.apply(q.sync)
	switch {
	case err != nil && m.ranks[q.from.rank] == q.from:
		m.fail("rank %d: %w", q.from.rank, err)
	case err == nil && m.ranks[q.from.rank] != q.from:
		m.fail("an earlier start of rank %d was heard", q.from.rank)
	case err == nil && q.from.reported.less(*q.sync.Steps):
		q.from.reported = *q.sync.Steps
	}
	if err != nil || q.from.dead || m.draw(4) == 0 {
		return
	}
	k := q.from
	for _, e := range reply.Steps {
		k.told[e.Epoch] = e
	}
	if reply.Unchanged || reply.Revision < k.revision {
		return
	}
	k.revision, k.pieces, k.starts = reply.Revision, reply.Pieces, append(k.starts, reply.Starts...)
}

// hand has a rank hand over its next batch, if it was told that there is one and all the others have the one before.
func (m *laneModel) hand(k *laneRank) {
	for _, other := range m.ranks {
		if k.dead || other.at.less(k.at) {
			return
		}
	}
	told := k.told[k.at.Epoch]
	if told.Final && told.Steps != m.steps(k.at.Epoch) || told.Steps > m.steps(k.at.Epoch) {
		m.fail("rank %d is told %+v; epoch %d has %d steps", k.rank, told, k.at.Epoch, m.steps(k.at.Epoch))
	}
	if dropped := m.dropped(k.at.Epoch); told.Final && told.Dropped != dropped {
		m.fail("rank %d is told that %d rows of epoch %d are dropped, not %d", k.rank, told.Dropped, k.at.Epoch,
			dropped)
	}
	switch {
	case told.Final && k.at.Handed >= told.Steps:
		k.at = Steps{Epoch: k.at.Epoch + 1}
	case k.at.Handed < told.Steps:
		if !m.ready(k) {
			return
		}
		rows := m.batch(k.rank, k.at)
		if got := m.read(k); !slices.Equal(got, rows) {
			m.fail("rank %d at %+v has %v, not %v", k.rank, k.at, got, rows)
		}
		for _, row := range rows {
			m.handed[row]++
		}
		k.at.Handed++
	}
}

// leave has a rank, or all of them where they are at one place, leave its epoch.
func (m *laneModel) leave(k *laneRank) {
	all := []*laneRank{k}
	if !slices.ContainsFunc(m.ranks, func(u *laneRank) bool { return u.dead || u.at != k.at }) && m.draw(2) == 0 {
		all = m.ranks
	}
	for _, k := range all {
		if !k.dead && k.at.Epoch < m.id.Epochs && k.at.Epoch <= m.s.closed+1 {
			m.left[k.at.Epoch] = true
			k.from, k.at = k.at.Epoch+1, Steps{Epoch: k.at.Epoch + 1}
		}
	}
}

// ready reports whether a rank's grants are as new as what it was told: an answer that came late may have told it.
func (m *laneModel) ready(k *laneRank) bool {
	return k.revision >= m.s.revision(m.s.ranks[k.rank])
}

// read is what a rank's grants have for its next batch.
func (m *laneModel) read(k *laneRank) (rows []position.Position) {
	share := m.id.share()
	for lane := range m.id.Lanes {
		for _, p := range k.pieces {
			if p.Lane != lane || p.From.Epoch != k.at.Epoch {
				continue
			}
			all := m.d.rows(position.Set{p.Interval})
			if uint64(len(all)) != p.Rows {
				m.fail("the grant %+v has %d rows", p, len(all))
			}
			for i, row := range all {
				if n := p.First + uint64(i); n >= k.at.Handed*share && n < (k.at.Handed+1)*share {
					rows = append(rows, row)
				}
			}
		}
	}
	return rows
}

// restore begins again from the state of one rank, with any number of ranks, maybe in another session.
func (m *laneModel) restore(k *laneRank) {
	c := Checkpoint{
		Version: 1, Session: m.id.Session, Generation: k.generation, Rank: k.rank, World: m.s.World(),
		Closed: k.at.Epoch, Handed: k.at.Handed,
		ProgramDigest: m.id.ProgramDigest, DatasetDigest: m.id.DatasetDigest, PlannerDigest: m.id.PlannerDigest,
		GlobalBatch: m.id.GlobalBatch,
	}
	for _, l := range k.starts {
		past := slices.ContainsFunc(l.Rows, func(n uint64) bool { return n > c.Handed*m.id.share() })
		if l.Epoch == c.Closed && !past && l.Block >= c.Start.Block {
			c.Start = l
		}
	}
	var worlds []uint32
	for w := uint32(1); w <= m.id.Lanes; w++ {
		if m.id.Lanes%w == 0 {
			worlds = append(worlds, w)
		}
	}
	world := worlds[m.draw(len(worlds))]
	before := k.at
	m.began = before
	if m.draw(2) == 0 {
		m.open(world)
	}
	m.network, m.ranks = nil, make([]*laneRank, world)
	nonces := make([]string, world)
	for i := range nonces {
		nonces[i] = m.nonce()
	}
	for range 4 {
		for i, nonce := range nonces {
			join := Join{Rank: uint32(i), World: world, Nonce: nonce, Restoring: true}
			if i == 0 {
				join.Restore = []Checkpoint{CheckpointFromProto(c.Proto())}
			}
			if reply := m.must(join); reply.Kind == pb.JoinKind_RESTORED {
				m.ranks[i] = m.started(uint32(i), nonce, reply)
			}
		}
	}
	m.handed, m.excused = map[position.Position]int{}, map[position.Position]int{}
	for r, k := range m.ranks {
		if k == nil || k.at != (Steps{Epoch: before.Epoch, Handed: before.Handed}) {
			m.fail("rank %d begins at %+v, restored from %+v", r, k, before)
		}
		for _, row := range m.between(uint32(r), Steps{}, before) {
			m.handed[row]++
		}
	}
}

// finish has all go well until the job is done.
func (m *laneModel) finish() {
	done := func(k *laneRank) bool { return k.at.Epoch >= m.id.Epochs }
	for range 20000 {
		all := true
		for _, k := range m.ranks {
			m.rejoin(k)
			k = m.ranks[k.rank]
			m.send(k)
			m.deliver()
			m.plan()
			m.hand(k)
			all = all && done(k)
		}
		m.checked()
		if all && m.s.Finished() {
			return
		}
	}
	m.fail("the job does not end: ranks at %+v, closed %d, frontier %v", m.ranks[0].at, m.s.closed, m.s.frontier)
}

func (m *laneModel) verdict() error {
	for e := range m.lanes {
		for _, lane := range m.lanes[e] {
			for i, row := range lane {
				n, want := m.handed[row], 1
				if m.id.LastBatch == pb.LastBatch_DROP && uint64(i) >= m.steps(uint32(e))*m.id.share() {
					want = 0
				}
				if m.left[uint32(e)] && n == 0 {
					continue
				}
				if n < want || n > want+m.excused[row] {
					return fmt.Errorf("row %v was handed over %d times, not %d; %d are excused",
						row, n, want, m.excused[row])
				}
			}
		}
	}
	return nil
}

func TestLanesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
		if err := runLanes(draw, 300, draw(2) == 0, (*State).Apply); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLanesModelFindsBugs shows that the model can fail.
func TestLanesModelFindsBugs(t *testing.T) {
	findsBugs(t, 3000, map[string]executor{
		"a restore forgets what lies before its block": behind(func(s *State, c Command, _ *Reply) {
			if _, ok := c.(Join); ok && s.frontier.Block > 0 && len(s.blocks.list) == 0 && len(s.blocks.epochs) == 1 {
				s.blocks.epochs[0].lanes = make([]uint64, s.id.Lanes)
			}
		}),
		"an epoch closes when one rank is through": behind(func(s *State, c Command, _ *Reply) {
			if steps, final := (deterministic{s}).laneSteps(s.closed); final && !s.Finished() {
				for _, k := range s.ranks {
					if k != nil && k.over(s.closed, steps) {
						s.closed++
						s.blocks.forget(s.closed)
						return
					}
				}
			}
		}),
		"blocks are forgotten when the first rank is past them": behind(func(s *State, _ Command, _ *Reply) {
			for _, k := range s.ranks {
				s.blocks.list = slices.DeleteFunc(s.blocks.list,
					func(b block) bool { return !deterministic{s}.reaches(b, s.at(k)) && b.end() != s.frontier })
			}
		}),
		"steps are final too soon": behind(func(_ *State, _ Command, r *Reply) {
			for i := range r.Steps {
				r.Steps[i].Final = r.Steps[i].Steps > 0
			}
		}),
		"what a rank reported is not written": func(s *State, c Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(c)
			if _, ok := c.(Sync); ok {
				ch.Ranks = nil
			}
			return r, ch, err
		},
		"an old block is planned again": func(s *State, c Command) (Reply, Changes, error) {
			p, ok := c.(Planned)
			if b, found := s.blocks.find(position.Position{Epoch: p.Epoch, Block: p.Block}); ok && found {
				s.blocks.epoch(p.Epoch).lanes = b.lay(deterministic{s}.laneRows(p.Epoch)).after
			}
			return s.Apply(c)
		},
		"grants are left out of a reply, as if they had not changed": behind(func(_ *State, c Command, r *Reply) {
			if q, ok := c.(Sync); ok && len(r.Pieces) > 0 && q.Revision > 0 {
				r.Unchanged, r.Pieces, r.Starts = true, nil, nil
			}
		}),
	}, func(seed uint64, execute executor) error {
		return runLanes(rand.New(rand.NewPCG(seed, 0)).IntN, 200, false, execute)
	})
}

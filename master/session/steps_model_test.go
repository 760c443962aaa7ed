package session

import (
	"cmp"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// loop is the training loop of a simulated trainer whose last batches are padded or dropped. It calls for the next
// batch only when all trainers of the job have the one before.
type loop struct {
	d         dataset
	batchSize int
	at        Steps             // Epoch and Handed
	told      map[uint32]uint64 // steps of epochs
	closed    uint32            // epochs of which all steps were told
	through   bool              // nothing of the open epoch is to come
	drops     bool
	even      bool            // shares are; but for the batch in the making all is given back that is asked for
	final     map[uint32]bool // whether told is, where last batches are dropped
	rank      uint32
	ended     func(rank uint32, at Steps)
}

func (m *model) newLoop() *loop {
	if m.batchSize == 0 {
		return nil
	}
	return &loop{
		d: m.d, batchSize: m.batchSize, told: map[uint32]uint64{}, ended: m.loopEnded, drops: m.drop != nil,
		final: map[uint32]bool{}, even: m.drop == nil && !m.id.Selects,
	}
}

func (m *model) beginPadding(batchSize int) {
	m.batchSize, m.id.LastBatch, m.id.BatchSize = batchSize, pb.LastBatch_PAD, uint64(batchSize)
}

// loopEnded checks that all training loops end an epoch after the same number of batches.
func (m *model) loopEnded(rank uint32, n Steps) {
	if m.drop != nil && m.drop.cameBack[m.s.generation] {
		return
	}
	m.checkSteps(n)
	at := epochEnd{life: m.lives, generation: m.s.generation, epoch: n.Epoch}
	if m.ends[at] == nil {
		m.ends[at] = map[uint32]uint64{}
	}
	m.ends[at][rank] = n.Handed
	for other, handed := range m.ends[at] {
		if handed != n.Handed {
			m.fail("epoch %d ended for rank %d after %d batches, and for rank %d after %d",
				n.Epoch, rank, n.Handed, other, handed)
		}
	}
}

// epochEnd is an epoch's, in a life of etcd.
type epochEnd struct {
	life       int
	generation uint64
	epoch      uint32
}

// back forgets where a rank ended epochs to which its new start goes back.
func (m *model) back(rank uint32, begun Steps) {
	for at, ranks := range m.ends {
		if at.life == m.lives && at.generation == m.s.generation && at.epoch >= begun.Epoch {
			delete(ranks, rank)
		}
	}
}

// hand lets a trainer hand over rows, unless it waits for others.
func (m *model) hand(t *trainer) {
	if t.loop == nil {
		rows := t.hand(m.d, m.draw)
		m.handed.add(rows)
		m.batchOf(t, rows, len(rows) > 0)
	} else if m.inStep(t) {
		m.handBatch(t)
	}
}

func (m *model) handBatch(t *trainer) {
	before := t.loop.at
	rows := t.batch(m.draw)
	m.handed.add(rows)
	m.batchOf(t, rows, t.loop.at.Epoch == before.Epoch && t.loop.at.Handed > before.Handed)
	if t.loop.at != before {
		t.came = append(t.came[max(0, len(t.came)-1):], m.come(t))
	}
	m.countAlike(t)
}

// countAlike checks that training loops at one place of an epoch count the same step, by which named checkpoints are
// taken. A loop that left padding out at the end of a closed epoch counts it as soon as the session hears that it left:
// until then an order may name too late a batch to it, and is void from then on (checkTogether).
func (m *model) countAlike(t *trainer) {
	step := func(t *trainer) uint64 { return m.s.ranks[t.rank].begunStep + uint64(t.batches) }
	untold := func(t *trainer) bool { return t.from > m.s.ranks[t.rank].steps.Epoch }
	for _, u := range m.trainers {
		if u == nil || u.dead || u.left || u.generation != m.s.generation || t.generation != m.s.generation ||
			u.loop.at != t.loop.at || untold(u) || untold(t) {
			continue
		}
		if step(u) != step(t) && !m.isApart() && (m.drop == nil || !m.drop.cameBack[m.s.generation]) {
			m.fail("%v and %v are at %+v, and count %d and %d steps", t, u, t.loop.at, step(t), step(u))
		}
	}
}

// inStep reports whether no running trainer is behind.
func (m *model) inStep(t *trainer) bool {
	for _, u := range m.trainers {
		if u != nil && !u.dead && !u.leaving && u.generation == t.generation && u.loop.at.compare(t.loop.at) < 0 {
			return false
		}
	}
	return true
}

func (n Steps) compare(o Steps) int {
	return cmp.Or(cmp.Compare(n.Epoch, o.Epoch), cmp.Compare(n.Handed, o.Handed))
}

// trained reports whether all training loops have ended all epochs.
func (m *model) trained() bool {
	for r, t := range m.trainers {
		if m.away[uint32(r)] {
			continue
		}
		if t == nil || t.dead || t.loop != nil && t.loop.at.Epoch < m.id.Epochs {
			return false
		}
	}
	return true
}

// batch is a call for the next batch: it returns the rows of a real one, and none of padding or if there is to wait.
func (t *trainer) batch(draw func(n int) int) []position.Position {
	l := t.loop
	if t.dead || t.leaving || !l.drops && l.at.Epoch > t.closed {
		return nil
	}
	if l.drops {
		return t.fullBatch(draw)
	}
	if l.at.Epoch < t.closed {
		if l.at.Epoch < l.closed {
			l.end()
		}
		return nil
	}
	if t.cut || draw(4) == 3 { // no lease, or rows that have not come yet
		return nil
	}
	taken, all := t.take(draw, t.closed)
	rows := l.d.rows(taken)
	last := all && l.through
	if len(rows) == l.batchSize || last {
		t.consumed = t.consumed.Union(taken)
		t.handedOver(rows)
	} else {
		return nil
	}
	if len(rows) > 0 || l.at.Handed < l.told[l.at.Epoch] {
		l.at.Handed++
	}
	return rows
}

// end pads a closed epoch, or goes on to the next.
func (l *loop) end() {
	if l.at.Handed < l.told[l.at.Epoch] {
		l.at.Handed++
		return
	}
	l.ended(l.rank, l.at)
	l.at = Steps{Epoch: l.at.Epoch + 1}
}

// take is what the trainer's next batch is made of, and whether nothing else is left of the open epoch.
func (t *trainer) take(draw func(n int) int, epoch uint32) (taken position.Set, all bool) {
	all = true
	for _, p := range t.pieces() {
		if p.From.Epoch != epoch {
			continue
		}
		sent := t.readable(p, draw)
		all = all && sent.To == p.To
		if sent.Empty() {
			continue
		}
		p = sent
		to := t.loop.d.after(p, t.loop.batchSize-len(t.loop.d.rows(taken)), true)
		all = all && to == p.To
		if p.From.Less(to) {
			taken = taken.Union(position.Set{{From: p.From, To: to}})
		}
	}
	return taken, all
}

// report is what a Sync says of the loop, if some of the rows that it holds have come.
func (t *trainer) report(draw func(n int) int) *Steps {
	if t.loop == nil {
		return &Steps{Epoch: t.ended}
	}
	n := t.loop.at
	n.Ready = n.Handed
	if !t.loop.drops && n.Epoch > t.closed {
		return &Steps{Epoch: t.closed}
	}
	if n.Epoch == t.closed && !t.loop.drops {
		received := 0
		for _, p := range t.pieces() {
			if p.From.Epoch == t.closed {
				received += len(t.loop.d.rows(position.Set{p}))
			}
		}
		received = draw(received + 1)
		n.Ready += uint64((received + t.loop.batchSize - 1) / t.loop.batchSize)
	}
	return &n
}

// learn takes over the answer to a Sync.
func (l *loop) learn(r Reply) {
	for _, e := range r.Steps {
		l.told[e.Epoch] = max(l.told[e.Epoch], e.Steps)
		l.final[e.Epoch] = l.final[e.Epoch] || e.Final
	}
	l.closed = max(l.closed, r.Closed)
}

// restartAll kills all trainers at some step, or has them leave, and starts them again: they go on in step.
func (m *model) restartAll() {
	if m.drop != nil {
		m.drop.restarted, m.ends = true, map[epochEnd]map[uint32]uint64{} // they may have other batches than before
	}
	m.network = nil
	m.together = true
	defer func() { m.together = false }()
	leave := m.draw(2) == 0
	for _, t := range m.trainers {
		if t == nil {
			continue
		}
		if m.drop != nil && (t.left || t.leaving) {
			m.drop.cameBack[m.s.generation] = true
		}
		if leave && !t.dead && t.generation > 0 {
			t.leaving = true
			m.call(t.request(m.draw), false)
		}
		t.dead = true
	}
	if m.drop != nil && m.endedFarAhead() {
		m.drop.cameBack[m.s.generation] = true
	}
	var first *trainer
	for range m.trainers {
		var waiting []uint32
		for r, t := range m.trainers {
			if t == nil || t.dead {
				waiting = append(waiting, uint32(r))
			}
		}
		r := waiting[m.draw(len(waiting))]
		m.start(r)
		t := m.trainers[r]
		if first == nil {
			first = t
		}
		// One that never joined before makes the steps first that the others made while they waited for it.
		late := first.incarnation == 1 && first.loop.at == t.begun
		if t.begun != first.begun && !first.passes(t.begun) && !late && !m.isApart() &&
			(m.drop == nil || !m.drop.cameBack[m.s.generation]) {
			m.fail("%v goes on at %+v, and %v, started with it, at %+v", t, t.begun, first, first.begun)
		}
		for range m.draw(firstBatches + 1) { // which need no other rank
			m.call(first.request(m.draw), false)
			if first.batches < firstBatches {
				m.handBatch(first)
			}
			m.call(first.request(m.draw), false)
		}
	}
}

// endedFarAhead reports whether a training loop has ended while another is farther from its end than loops that wait
// for each other are, as far as the session knows: one that was killed goes on from what it had reported. One that has
// ended has no reason to come back, so that the session gives its share to others.
func (m *model) endedFarAhead() bool {
	ended, far := false, false
	for _, k := range m.s.ranks {
		switch {
		case k == nil:
		case k.steps.Epoch == m.id.Epochs:
			ended = true
		default:
			told := k.toldOf(k.steps.Epoch)
			far = far || k.steps.Epoch+1 < m.id.Epochs || !told.Final || k.steps.Handed+firstBatches < told.Steps
		}
	}
	return ended && far
}

// passes reports whether the trainer comes to a place from where it began without a batch: the epochs between have no
// step for it.
func (t *trainer) passes(place Steps) bool {
	at := t.begun
	for at.compare(place) < 0 && (t.loop.final[at.Epoch] || at.Epoch < t.loop.closed) &&
		t.loop.told[at.Epoch] == at.Handed {
		at = Steps{Epoch: at.Epoch + 1}
	}
	return at == place
}

// ending is the one that pads, or the one that does not.
func ending(pads bool) pb.LastBatch {
	if pads {
		return pb.LastBatch_PAD
	}
	return pb.LastBatch_UNEVEN
}

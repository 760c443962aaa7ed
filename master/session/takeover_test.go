package session

import (
	"iter"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// readTogether has ranks read an epoch in step, and returns how many rows each got, in how many steps. Windows have as
// many rows as planned, and some of them as outputs. Rank r joins in round r*late. The rows of a window come once a rank
// has made so many Syncs while it reads it.
func readTogether(
	t *testing.T, id Identity, late, syncs int, outputs dataset, planned Planned,
) (rows []int, steps uint64) {
	t.Helper()
	id.Session, id.Epochs = testID.Session, 1
	m := newModel(func(int) int { return 0 }, outputs, nil)
	m.id, m.batchSize = id, int(id.BatchSize)
	var err error
	if m.s, err = New(id); err != nil {
		t.Fatal(err)
	}
	must(t, m.s, planned)
	m.trainers = make([]*trainer, id.FirstWorldSize)
	rows = make([]int, id.FirstWorldSize)
	for round := 0; !m.s.Finished(); round++ {
		if round > 10_000 {
			t.Fatalf("the epoch does not end: %v, returned %v", rows, m.s.returned)
		}
		for r := range m.trainers {
			if r*late > round {
				continue
			}
			tr := m.trainers[r]
			if tr == nil {
				tr = &trainer{rank: uint32(r), nonce: "n", loop: m.newLoop()}
				if syncs > 0 {
					tr.slow = &slow{d: outputs, syncs: syncs}
				}
				tr.joined(must(t, m.s, tr.joinCommand(id.FirstWorldSize)))
				m.trainers[r] = tr
				if id.LastBatch != pb.LastBatch_PAD { // loops end after any number of batches
					tr.loop.ended = func(uint32, Steps) {}
				}
			}
			q := tr.request(m.draw)
			tr.receive(q, must(t, m.s, q.sync), m.draw)
			behind := func(o *trainer) bool {
				done := o != nil && o.loop.through && o.idle(m.draw)
				return o != nil && !done && o.loop.at.compare(tr.loop.at) < 0
			}
			if !slices.ContainsFunc(m.trainers, behind) {
				rows[r] += len(tr.batch(m.draw))
				steps = max(steps, tr.loop.at.Handed)
			}
		}
	}
	return rows, steps
}

// Where rows are left out, ranks come to the end of an epoch within a window of each other.
func TestIdleRanksTakeOver(t *testing.T) {
	const window, batch = 100, 8
	shapes := map[string][]int{ // windows by shard
		"a shard":       {40},
		"seven shards":  {10, 10, 10, 10, 10, 10, 10},
		"a small file":  {3},
		"uneven shards": {1, 60, 2, 5},
	}
	for name, shape := range shapes {
		outputs, all, largest := dataset{{nil}}, 0, 0
		planned := Planned{Blocks: 1, Shards: uint32(len(shape))}
		for shard, windows := range shape {
			var of []int
			for w := range windows {
				n := (shard*31 + w*17) % 60 // of window rows
				of, all, largest = append(of, n), all+n, max(largest, n)
			}
			outputs[0][0] = append(outputs[0][0], of)
			planned.Outputs = append(planned.Outputs, slices.Repeat([]uint32{window}, windows))
		}
		check := func(world uint32, late, syncs int, pad bool) {
			id := Identity{FirstWorldSize: world, BatchSize: batch, Selects: true, LastBatch: ending(pad)}
			rows, steps := readTogether(t, id, late, syncs, outputs, planned)
			t.Logf("%s, %d ranks, %d late, %d Syncs a window, pad %v: %v rows, %d steps", name, world, late, syncs, pad, rows,
				steps)
			ideal := (all + int(world)*batch - 1) / (int(world) * batch)
			if bound := uint64(ideal + 1 + (largest+batch-1)/batch); pad && steps > bound {
				t.Errorf("%s, %d ranks, %d late: %d steps for %d rows, want at most %d",
					name, world, late, steps, all, bound)
			}
			if most, least := slices.Max(rows), slices.Min(rows); late == 0 && most-least > largest+batch {
				t.Errorf("%s, %d ranks, pad %v: %v rows; a window has at most %d", name, world, pad, rows, largest)
			}
		}
		for _, world := range []uint32{2, 3, 8} {
			for _, late := range []int{0, 2} {
				check(world, late, 0, false)
				check(world, late, 0, true)
			}
			check(world, 0, 5, false)
			check(world, 0, 5, true)
		}
	}
}

// slow is a trainer's workers, who take their time for a window. What it does not hold any more they do not go on with.
type slow struct {
	d     dataset
	syncs int // of the trainer, that a window takes
	made  map[position.Position]int
}

// sync is one of a trainer that reads these pieces, each window by window.
func (s *slow) sync(pieces []position.Interval) {
	if s == nil {
		return
	}
	made := map[position.Position]int{}
	for _, p := range pieces {
		for w := range s.windows(p) {
			if made[w] = s.made[w] + 1; made[w] <= s.syncs {
				break
			}
		}
	}
	s.made = made
}

// readable is the part of a piece that has come.
func (s *slow) readable(p position.Interval) position.Interval {
	for w := range s.windows(p) {
		if s.made[w] > s.syncs {
			continue
		}
		if p.From.Less(w) {
			return position.Interval{From: p.From, To: w}
		}
		return position.Interval{From: p.From, To: p.From}
	}
	return p
}

// windows are those of a piece.
func (s *slow) windows(p position.Interval) iter.Seq[position.Position] {
	return func(yield func(position.Position) bool) {
		w := windowOf(p.From)
		for ; int(w.Window) < len(s.d.windows(w)) && w.Less(p.To); w.Window++ {
			if !yield(w) {
				return
			}
		}
	}
}

func windowOf(p position.Position) position.Position {
	p.K = 0
	return p
}

package session

import (
	"fmt"
	"maps"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// dataset is what the trainers of the model read: rows of windows of shards of blocks of epochs.
type dataset [][][][]int

func randomDataset(draw func(n int) int) dataset {
	d := make(dataset, 1+draw(3))
	for e := range d {
		d[e] = make([][][]int, 1+draw(4))
		for b := range d[e] {
			d[e][b] = make([][]int, draw(6))
			for s := range d[e][b] {
				for range draw(4) {
					d[e][b][s] = append(d[e][b][s], draw(5))
				}
			}
		}
	}
	return d
}

func (d dataset) planned(epoch, index uint32) Planned {
	p := Planned{Epoch: epoch, Block: index, Blocks: uint32(len(d[epoch])), Shards: uint32(len(d[epoch][index]))}
	p.Indexes = fmt.Sprint(p)
	for _, windows := range d[epoch][index] {
		var outputs []uint32 // nil if there are none, as when they are read back
		for _, rows := range windows {
			p.Rows += int64(rows)
			outputs = append(outputs, uint32(rows))
		}
		p.Outputs = append(p.Outputs, outputs)
	}
	return p
}

// uncounted has a plan say of each window how many rows it has in the file, where nobody counted what is made of them:
// fewer, as many or more.
func uncounted(p Planned) Planned {
	p.Rows = 0
	for s, windows := range p.Outputs {
		for w := range windows {
			windows[w] = 1 + (p.Epoch+3*p.Block+5*uint32(s)+7*uint32(w))%4
			p.Rows += int64(windows[w])
		}
	}
	return p
}

// planned is what the model's master says of a block.
func (m *model) planned(epoch, index uint32) Planned {
	p := m.d.planned(epoch, index)
	if m.id.Selects && m.id.LastBatch != pb.LastBatch_DROP {
		return uncounted(p)
	}
	return p
}

// blocks are those that a head names, as they lie in etcd.
func (dataset) blocks(head *pb.SessionHead, planned func(epoch, index uint32) Planned) []*pb.Block {
	var out []*pb.Block
	for _, b := range head.GetBlocks() {
		m := &pb.Block{Epoch: b.GetEpoch(), Index: b.GetIndex()}
		for _, outputs := range planned(b.GetEpoch(), b.GetIndex()).Outputs {
			m.Shards = append(m.Shards, &pb.Shard{Extents: []*pb.Extent{{Outputs: outputs}}})
		}
		out = append(out, m)
	}
	return out
}

// rows lists the rows of a set: each row is the position before it.
func (d dataset) rows(set position.Set) []position.Position {
	var out []position.Position
	for e := range d {
		for b := range d[e] {
			for s := range d[e][b] {
				for w, rows := range d[e][b][s] {
					for k := range rows {
						p := position.Position{
							Epoch: uint32(e), Block: uint32(b), Shard: uint32(s), Window: uint32(w),
							K: uint64(k),
						}
						if set.Contains(p) {
							out = append(out, p)
						}
					}
				}
			}
		}
	}
	return out
}

func (d dataset) all() position.Set {
	return position.Set{{To: position.Position{Epoch: uint32(len(d))}}}
}

// windows is what a worker that opens a shard finds.
func (d dataset) windows(p position.Position) []int {
	if int(p.Epoch) >= len(d) || int(p.Block) >= len(d[p.Epoch]) || int(p.Shard) >= len(d[p.Epoch][p.Block]) {
		panic(modelError{fmt.Errorf("there is no shard at %v", p)})
	}
	return d[p.Epoch][p.Block][p.Shard]
}

// after is the place n rows further in an interval of one shard. As a worker, it may or may not go to the next window
// when one ends.
func (d dataset) after(iv position.Interval, n int, lazy bool) position.Position {
	windows := d.windows(iv.From)
	for p := iv.From; ; {
		if int(p.Window) >= len(windows) || !p.Less(iv.To) {
			return iv.To
		}
		left := windows[p.Window] - int(p.K)
		if n < left || n == left && lazy {
			p.K += uint64(n)
			if !p.Less(iv.To) {
				return iv.To
			}
			return p
		}
		n -= max(left, 0)
		p = position.Position{Epoch: p.Epoch, Block: p.Block, Shard: p.Shard, Window: p.Window + 1}
		if n == 0 && int(p.Window) < len(windows) && p.Less(iv.To) {
			return p
		}
	}
}

// tally counts how often each row was handed over.
type tally map[position.Position]int

func (t tally) add(rows []position.Position) {
	for _, r := range rows {
		t[r]++
	}
}

func (t tally) clone() tally { return maps.Clone(t) }

package session

import (
	"maps"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Positions in a block mean the same rows only as long as its files have the same indexes. So States tell by which ones
// unfinished blocks were cut, and a block that is planned again is compared with that. What the digests are made of is
// the master's affair.

const (
	// maxIndexesBytes bounds what a State tells of indexes, where each block takes its digests and blockIndexesBytes.
	// It is no less than a session's head has room for in etcd, so that each State that was handed out is admitted.
	maxIndexesBytes   = 5 << 18
	blockIndexesBytes = 4
)

// BlockIndexes says by which indexes a block was cut. See pb.BlockIndexes.
type BlockIndexes struct {
	Epoch, Block uint32
	Digests      string
}

func (b BlockIndexes) start() position.Position {
	return position.Position{Epoch: b.Epoch, Block: b.Block}
}

func (b BlockIndexes) compare(o BlockIndexes) int { return b.start().Compare(o.start()) }

// IndexesOf are the digests of a block's indexes, as they were when it was planned, or as a State tells that was
// restored; "": they are not known, or it has none.
func (s *State) IndexesOf(epoch, index uint32) string {
	b, _ := findIndexes(s.indexes, position.Position{Epoch: epoch, Block: index})
	return b.Digests
}

func findIndexes(all []BlockIndexes, start position.Position) (b BlockIndexes, found bool) {
	i, found := slices.BinarySearchFunc(all, start, func(b BlockIndexes, p position.Position) int {
		return b.start().Compare(p)
	})
	if found {
		b = all[i]
	}
	return b, found
}

// admitIndexes checks what a state says of indexes.
func (p Checkpoint) admitIndexes() error {
	n := 0
	for _, b := range p.Indexes {
		n += blockIndexesBytes + len(b.Digests)
	}
	if n > maxIndexesBytes {
		return refused("the state of rank %d tells of the indexes of %d blocks, at more length than any client does",
			p.Rank, len(p.Indexes))
	}
	return nil
}

// mergeIndexes joins what states say of indexes. Those of one job never differ.
func mergeIndexes(states []Checkpoint) ([]BlockIndexes, error) {
	told := map[position.Position]BlockIndexes{}
	for _, p := range states {
		for _, b := range p.Indexes {
			if before, ok := told[b.start()]; ok && before.Digests != b.Digests {
				return nil, refused("the state of rank %d was taken with other indexes of the files of block %d of "+
					"epoch %d than another rank's: they are not of one job", p.Rank, b.Block, b.Epoch)
			}
			told[b.start()] = b
		}
	}
	return slices.SortedFunc(maps.Values(told), BlockIndexes.compare), nil
}

// noteIndexes notes by which indexes a block was planned.
func (s *State) noteIndexes(b BlockIndexes) {
	s.indexes = s.Indexes()
	if i, found := slices.BinarySearchFunc(s.indexes, b, BlockIndexes.compare); !found && b.Digests != "" {
		s.indexes = slices.Insert(s.indexes, i, b)
	}
}

// rewindIndexes has blocks be compared with what states tell. Those that were planned by others, or by none that are
// known, are planned again.
func (s *State) rewindIndexes(m merged) {
	s.blocks.list = slices.DeleteFunc(s.blocks.list, func(b block) bool {
		told, ok := findIndexes(m.indexes, b.start())
		return ok && told.Digests != s.IndexesOf(b.epoch, b.index)
	})
	known := slices.Clone(m.indexes)
	for _, b := range s.indexes {
		if _, told := findIndexes(m.indexes, b.start()); !told {
			known = append(known, b)
		}
	}
	slices.SortFunc(known, BlockIndexes.compare)
	s.indexes = known
}

// unfinished reports whether some of a block is not consumed, or may be so.
func (s *State) unfinished(b BlockIndexes) bool {
	if _, planned := s.blocks.find(b.start()); planned || b.Epoch < s.closed {
		return planned
	}
	end := position.Position{Epoch: b.Epoch, Block: b.Block + 1}
	return s.frontier.Less(end) || len(s.returned.Intersect(position.Set{{From: b.start(), To: end}})) > 0
}

// Indexes are those of the blocks that are not consumed.
func (s *State) Indexes() []BlockIndexes {
	return slices.DeleteFunc(slices.Clone(s.indexes), func(b BlockIndexes) bool { return !s.unfinished(b) })
}

// BlockIndexesProto returns indexes as they cross the wire.
func BlockIndexesProto(all []BlockIndexes) []*pb.BlockIndexes {
	var out []*pb.BlockIndexes
	for _, b := range all {
		out = append(out, &pb.BlockIndexes{Epoch: b.Epoch, Block: b.Block, Digests: []byte(b.Digests)})
	}
	return out
}

// BlockIndexesFromProto reads them.
func BlockIndexesFromProto(ms []*pb.BlockIndexes) []BlockIndexes {
	var out []BlockIndexes
	for _, m := range ms {
		out = append(out, BlockIndexes{m.GetEpoch(), m.GetBlock(), string(m.GetDigests())})
	}
	slices.SortFunc(out, BlockIndexes.compare)
	return out
}

package parquet

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// fewChunks are kept, whatever is asked for: a footer of so many is soon read, and takes little.
const fewChunks = 8 << 10

// want says of which columns a footer keeps the chunks. Thousands of columns in a hundred row groups make more chunks
// than a cache of footers holds, and a session reads some of them.
type want struct {
	all     bool
	sources []*pb.Source
	before  *Footer // what this one has is kept, too; nil: there is none
	few     int     // so many chunks are kept, whatever is asked for
}

// wantOf is what a file is described for.
func wantOf(in *format.Input) want {
	w := want{all: in.All, sources: in.Sources, few: fewChunks}
	if before, ok := in.Before.(*File); ok {
		w.before = before.Footer
	}
	return w
}

// leaves says of each leaf where its chunk is kept in each of so many row groups, or -1, and how many are. It returns
// nil if all are.
func (w *want) leaves(b *columnBuilder, groups int) (slots []int32, kept int) {
	if w.all || groups*len(b.leaves) <= w.few {
		return nil, len(b.leaves)
	}
	slots = make([]int32, len(b.leaves))
	before := w.before != nil && len(w.before.Leaves) == len(slots) // else the file changed
	for i := range slots {
		slots[i] = -1
		if before && w.before.slot(i) >= 0 {
			slots[i] = 0
		}
	}
	names, ids := make(map[string]bool, len(w.sources)), map[int32]bool{}
	for _, s := range w.sources {
		for _, path := range format.StoredPaths(s) {
			names[spec.ColumnName(path, s.GetField())] = true
		}
		ids[s.GetId()] = s.GetId() != 0
	}
	for i := range b.columns {
		if !names[b.columns[i].Name] && !ids[b.ids[i]] {
			continue
		}
		for leaf := range b.spans[i].leaves(&b.columns[i]) {
			slots[leaf] = 0
		}
	}
	for i := range slots {
		if slots[i] >= 0 {
			slots[i] = int32(kept)
			kept++
		}
	}
	return slots, kept
}

// slot is where the chunk of a leaf is kept in each row group; -1: nowhere.
func (f *Footer) slot(leaf int) int {
	if f.slots == nil {
		return leaf
	}
	return int(f.slots[leaf])
}

// ChunkOf returns the chunk of a leaf that is kept.
func (f *Footer) ChunkOf(rowGroup, leaf int) *Chunk {
	return &f.RowGroups[rowGroup].Chunks[f.slot(leaf)]
}

// keeps reports whether the chunks of a column are kept.
func (f *Footer) keeps(column int) bool {
	for leaf := range f.leaves(column) {
		if f.slot(leaf) < 0 {
			return false
		}
	}
	return true
}

// Knows reports whether sources can be bound: the chunks of those that the file has are kept.
func (f *Footer) Knows(sources []*pb.Source) bool {
	if f.slots == nil {
		return true
	}
	for _, s := range sources {
		if i, ok := f.ColumnOf(s); ok && !f.keeps(i) {
			return false
		}
	}
	return true
}

// known fails if the chunks of a column are not kept.
func (f *Footer) known(column int) error {
	if f.keeps(column) {
		return nil
	}
	return fmt.Errorf("column %s: the file was described for other columns: describe it for this one, too",
		f.Schema.Columns[column].Name)
}

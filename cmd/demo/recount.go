package demo

import (
	"fmt"

	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/worker/excluded"
	"github.com/penstock-ml/penstock/worker/vector"
)

// file is one of the dataset's.
type file struct {
	uri         string
	rows, first int64    // how many it has, and the number of the first one in the dataset
	kept        []uint64 // a bit for each row that its table has not deleted; nil: it has deleted none
}

// exclude takes rows out that a table has deleted.
func (f *file) exclude(gone excluded.Set) {
	if len(gone) > 0 {
		f.kept = make([]uint64, vector.Words(int(f.rows)))
		gone.Choose(f.kept, 0, int(f.rows))
	}
}

// has reports whether there is a row of a number.
func (f *file) has(row int64) bool {
	return row >= 0 && row < f.rows && (f.kept == nil || f.kept[row>>6]>>(row&63)&1 == 1)
}

// written tells the values that the demo wrote, of the columns that its spec leaves as they are. That of others' data
// is nil.
type written struct {
	generator *dataset.Generator
	columns   []dataset.Column
	kept      []int // of columns
}

func newWritten() *written {
	w := &written{columns: dataset.CriteoColumns()}
	w.generator = dataset.NewGenerator(w.columns)
	for i, c := range w.columns {
		if keeps(c.Name) {
			w.kept = append(w.kept, i)
		}
	}
	return w
}

// names are those of the columns, in the order of the table.
func (w *written) names() (out []string) {
	if w == nil {
		return nil
	}
	for _, i := range w.kept {
		out = append(out, w.columns[i].Name)
	}
	return out
}

// add adds the values of a row of the dataset to its checksum. What was written as null arrives as 0, or as an empty
// list.
func (w *written) add(h *hasher, row int) {
	if w == nil {
		return
	}
	var ids [64]int64 // more than lists have
	for _, i := range w.kept {
		switch w.columns[i].Kind {
		case dataset.Label:
			h.label(w.generator.Label(i, row))
		case dataset.Dense:
			v, _ := w.generator.Number(i, row)
			h.number(v)
		case dataset.Sparse:
			list, _ := w.generator.AppendIDs(ids[:0], i, row)
			h.ids(list)
		}
	}
}

// count is what a recount finds.
type count struct {
	// Rows that the dataset has, and rows that trainers were handed.
	expected, delivered int64
	// Rows that nobody got; deliveries of a row beyond its first; of other values than were written; of rows that there
	// are not.
	missing, doubled, altered, unexpected int64
	// Sums modulo 2^64 of the rows' checksums, which do not depend on the order.
	checksumExpected, checksumDelivered uint64
	examples                            []string // of each fault the first few rows
}

func (c count) ok() bool {
	return c.missing|c.doubled|c.altered|c.unexpected == 0 &&
		c.expected == c.delivered && c.checksumExpected == c.checksumDelivered
}

// examplesPerFault bounds count.examples.
const examplesPerFault = 5

// recount goes through ledgers row by row.
type recount struct {
	files   []file
	written *written
	hasher  *hasher
	seen    [][]bool // of each file, each row
	count
}

func newRecount(files []file, w *written) *recount {
	r := &recount{files: files, written: w, hasher: newHasher()}
	for _, f := range files {
		r.seen = append(r.seen, make([]bool, f.rows))
		for row := range f.rows {
			if f.has(row) {
				r.expected++
			}
		}
	}
	return r
}

// take counts a row that was handed over.
func (r *recount) take(x record) {
	r.delivered++
	r.checksumDelivered += x.checksum
	if x.file < 0 || int(x.file) >= len(r.files) || !r.files[x.file].has(x.row) {
		r.fault(&r.unexpected, "unexpected", x.file, x.row)
		return
	}
	want := r.checksum(x.file, x.row)
	if want != x.checksum {
		r.fault(&r.altered, "altered", x.file, x.row)
	}
	if r.seen[x.file][x.row] {
		r.fault(&r.doubled, "doubled", x.file, x.row)
		return
	}
	r.seen[x.file][x.row] = true
	r.checksumExpected += want
}

// checksum is what a row should have.
func (r *recount) checksum(file int32, row int64) uint64 {
	r.hasher.begin(file, row)
	r.written.add(r.hasher, int(r.files[file].first+row))
	return r.hasher.sum()
}

// finish finds what is missing.
func (r *recount) finish() count {
	for i, seen := range r.seen {
		for row, there := range seen {
			if !there && r.files[i].has(int64(row)) {
				r.checksumExpected += r.checksum(int32(i), int64(row))
				r.fault(&r.missing, "missing", int32(i), int64(row))
			}
		}
	}
	return r.count
}

func (r *recount) fault(n *int64, what string, file int32, row int64) {
	if *n++; *n > examplesPerFault {
		return
	}
	name := fmt.Sprintf("file number %d (of %d)", file, len(r.files))
	if file >= 0 && int(file) < len(r.files) {
		name = r.files[file].uri
	}
	r.examples = append(r.examples, fmt.Sprintf("%s: %s row %d", what, name, row))
}

package reference

import (
	"errors"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// entry is a value of a leaf with its levels. Its definition level says whether it is null.
type entry struct {
	in       *values
	at       int32
	rep, def uint8
}

// entriesAhead is how many entries of a leaf are read at a time.
const entriesAhead = 1024

// leafReader reads a leaf of a row group row by row.
type leafReader struct {
	leaf  leaf
	pages *pageReader
	page  *page // the present one; before the first an empty one
	// How many of the page's entries, and of its values that are not null, were read.
	taken, present int
	// entries[from:to] are the row's; later ones belong to the next ones.
	entries  []entry
	from, to int
}

// row is the present row: of a scalar one entry, of a list its elements, or one entry that stands for there being none.
func (r *leafReader) row() []entry { return r.entries[r.from:r.to] }

func (r *leafReader) name(f *parquet.File) string {
	return strings.Join(f.Metadata().RowGroups[0].Columns[r.leaf.index].MetaData.PathInSchema, ".")
}

// open goes to the begin of a row group.
func (r *leafReader) open(f *parquet.File, rowGroup int) {
	r.pages = newPageReader(r.leaf, f, &f.Metadata().RowGroups[rowGroup].Columns[r.leaf.index].MetaData)
	r.page, r.taken, r.present = &page{}, 0, 0
	r.entries, r.from, r.to = r.entries[:0], 0, 0
}

// advance goes to the next row: an entry of repetition level 0 and those above it that follow.
func (r *leafReader) advance() error {
	r.from = r.to
	for {
		if r.to == len(r.entries) {
			err := r.more()
			if errors.Is(err, io.EOF) && r.to > r.from {
				return nil
			}
			if errors.Is(err, io.EOF) {
				return errors.New("it has fewer rows than its row group")
			}
			if err != nil {
				return err
			}
		}
		switch begins := r.entries[r.to].rep == 0; {
		case begins && r.to > r.from:
			return nil
		case !begins && r.to == r.from:
			return errors.New("it begins inside a row")
		}
		r.to++
	}
}

// end checks that all entries were read.
func (r *leafReader) end() error {
	if r.to == len(r.entries) {
		err := r.more()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("it has more rows than its row group")
}

// more reads what follows entries, after dropping what precedes the present row. It returns io.EOF at the end.
func (r *leafReader) more() error {
	kept := copy(r.entries, r.entries[r.from:])
	r.entries, r.from, r.to = r.entries[:kept], 0, r.to-r.from
	if kept == cap(r.entries) {
		r.entries = append(make([]entry, 0, 2*kept), r.entries...)
	}
	for r.taken == r.page.count {
		page, err := r.pages.next()
		if err != nil {
			return err
		}
		r.page, r.taken, r.present = page, 0, 0
	}
	for len(r.entries) < cap(r.entries) && r.taken < r.page.count {
		r.entries = append(r.entries, r.take())
	}
	return nil
}

// take reads the page's next entry.
func (r *leafReader) take() entry {
	e := entry{in: r.page.values}
	if r.page.reps != nil {
		e.rep = r.page.reps[r.taken]
	}
	if r.page.defs != nil {
		e.def = r.page.defs[r.taken]
	}
	r.taken++
	if int(e.def) < r.leaf.valueDef {
		return e
	}
	if e.at = int32(r.present); r.page.indices != nil {
		e.at = r.page.indices[r.present]
	}
	r.present++
	return e
}

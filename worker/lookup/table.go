// Package lookup holds side tables in memory, and finds their rows by key. Package tables, beside it, loads them; the
// kernels of transform look values up in them. A Table does not change, and may be used by any number of goroutines; a
// Builder belongs to one.
package lookup

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Rows are known by numbers that ascend as they lie in the file: that of a row's piece, and its place there.
const (
	pieceBits = 16
	// PieceRows is how many rows a piece has at most.
	PieceRows = 1 << pieceBits
	maxPieces = math.MaxInt32 >> pieceBits
)

// Absent is in place of a row's number where there is no row.
const Absent = int32(-1)

// Place is where the values of a row are.
func Place(row int32) (piece, at int32) { return row >> pieceBits, row & (PieceRows - 1) }

// Table is a side table.
type Table struct {
	index   index
	history *history // nil: rows count at any time
	columns []Column // behind the keys, and the column that says from when on a row counts
}

// Column is one column of a table.
type Column struct {
	Type   spec.Type
	Pieces []*vector.Vector
}

// Columns are those that values may be taken of.
func (t *Table) Columns() []Column { return t.columns }

// AsOf reports whether rows count from a time on.
func (t *Table) AsOf() bool { return t.history != nil }

// Find writes to dst the row of the key that each value of the vectors is, or that values of several are together. Of a
// table whose rows count from a time on these are no rows: At makes some of them.
func (t *Table) Find(dst []int32, keys []*vector.Vector) { t.index.find(dst, keys) }

// At writes in place of what Find found the newest rows that count at until, and not before from.
func (t *Table) At(found []int32, from, until []int64) {
	for i, group := range found {
		if group != Absent {
			found[i] = t.history.newest(group, from[i], until[i])
		}
	}
}

// index finds what keys stand for.
type index interface {
	find(dst []int32, keys []*vector.Vector)
	// put has a key stand for a value, unless it does for another one already, which it returns; else Absent.
	put(keys []*vector.Vector, at int, value int32) (had int32)
}

// Builder makes a table of its pieces.
type Builder struct {
	about  *pb.Table
	take   func(bytes int64) error
	pieces [][]*vector.Vector // by column
	starts []int64            // the first row of each piece in the file
	rows   int64
}

// NewBuilder returns one of a table. take is asked for memory before that is allocated; it is given back as negative
// bytes.
func NewBuilder(about *pb.Table, take func(bytes int64) error) *Builder {
	return &Builder{about: about, take: take, pieces: make([][]*vector.Vector, len(about.GetColumns()))}
}

// Add adds rows of all columns, which begin at a row of the file: PieceRows at most. It keeps nothing of the vectors.
func (b *Builder) Add(first int64, columns []*vector.Vector) error {
	if len(b.starts) == maxPieces {
		return fmt.Errorf("it has more than %d rows, or row groups: write it with fewer and larger ones", b.rows)
	}
	b.starts = append(b.starts, first)
	b.rows += int64(columns[0].Rows)
	for i, v := range columns {
		if err := b.take(sizeOf(v)); err != nil {
			return err
		}
		b.pieces[i] = append(b.pieces[i], copyOf(v))
	}
	return nil
}

// keys is how many columns tell rows apart.
func (b *Builder) keys() int { return int(b.about.GetKeys()) }

// Table makes the table. Its error is about what the rows hold, or take's.
func (b *Builder) Table() (*Table, error) {
	t := &Table{}
	var err error
	if b.about.GetAsOf() {
		t.index, t.history, err = b.asOf()
	} else {
		t.index, err = b.byKey()
	}
	if err != nil {
		return nil, err
	}
	at := b.keys()
	if b.about.GetAsOf() {
		if err := b.drop(at); err != nil { // the history has it
			return nil, err
		}
		at++
	}
	for i := at; i < len(b.pieces); i++ {
		t.columns = append(t.columns, Column{
			Type: spec.TypeFromProto(b.about.GetColumns()[i].GetType()), Pieces: b.pieces[i],
		})
	}
	return t, nil
}

// drop gives up a column that is in use no more.
func (b *Builder) drop(column int) error {
	var bytes int64
	for _, v := range b.pieces[column] {
		bytes += sizeOf(v)
	}
	b.pieces[column] = nil
	return b.take(-bytes)
}

// byKey is the index from keys to rows.
func (b *Builder) byKey() (index, error) {
	x, err := b.newIndex(nil)
	if err != nil {
		return nil, err
	}
	err = b.each(func(keys []*vector.Vector, piece, at int) error {
		row := rowAt(piece, at)
		had := x.put(keys, at, row)
		if had == Absent || b.about.GetFirst() {
			return nil
		}
		return fmt.Errorf("%s is in row %d and again in row %d: say duplicates: first to take the first, as_of if "+
			"each row counts from a time on, or write a table of one row for each key",
			b.show(keys, at), b.rowOfFile(had), b.rowOfFile(row))
	})
	if err != nil {
		return nil, err
	}
	if _, ok := x.(*texts); !ok { // which compares with them
		return x, b.drop(0)
	}
	return x, nil
}

// each calls f for each row whose keys are not null.
func (b *Builder) each(f func(keys []*vector.Vector, piece, at int) error) error {
	keys := make([]*vector.Vector, b.keys())
	for piece := range b.starts {
		for i := range keys {
			keys[i] = b.pieces[i][piece]
		}
		for at := range keys[0].Rows {
			if anyNull(keys, at) {
				continue
			}
			if err := f(keys, piece, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func rowAt(piece, at int) int32 { return int32(piece<<pieceBits | at) }

func (b *Builder) rowOfFile(row int32) int64 {
	piece, at := Place(row)
	return b.starts[piece] + int64(at)
}

// show writes a key for messages: "item_id 17".
func (b *Builder) show(keys []*vector.Vector, at int) string {
	text := "the key"
	for i, v := range keys {
		name := b.about.GetColumns()[i].GetName()
		if v.Type.Kind == pb.Kind_BINARY {
			text += fmt.Sprintf(" %s %.60q", name, textOf(v, at))
		} else {
			text += fmt.Sprintf(" %s %d", name, intOf(v, at))
		}
	}
	return text
}

func anyNull(vectors []*vector.Vector, at int) bool {
	for _, v := range vectors {
		if v.IsNull(at) {
			return true
		}
	}
	return false
}

// intOf is value j of a vector of ints.
func intOf(v *vector.Vector, j int) int64 {
	if v.Type.Kind == pb.Kind_INT32 {
		return int64(v.I32[j])
	}
	return v.I64[j]
}

// textOf is value j of a vector of texts.
func textOf(v *vector.Vector, j int) []byte { return v.Data[v.Ends[j]:v.Ends[j+1]] }

package convert

import (
	"context"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Rows are shuffled by sorting them by a number that is drawn for each, which a seed and the row's place among all of
// the inputs' rows decide.

// drawn is a source whose records have these numbers as a last column.
type drawn struct {
	source
	with *arrow.Schema
	seed uint64
	rows uint64 // so far
}

func newDrawn(src source, seed int64) *drawn {
	fields := append(src.schema().Fields(), arrow.Field{Type: arrow.PrimitiveTypes.Uint64})
	return &drawn{source: src, with: arrow.NewSchema(fields, nil), seed: mix(uint64(seed))}
}

func (d *drawn) schema() *arrow.Schema { return d.with }

func (d *drawn) next(ctx context.Context, limit int64) (arrow.Record, error) {
	rec, err := d.source.next(ctx, limit)
	if err != nil {
		return nil, err
	}
	b := array.NewUint64Builder(memory.NewGoAllocator())
	b.Reserve(int(rec.NumRows()))
	for range rec.NumRows() {
		b.UnsafeAppend(mix(d.seed + d.rows)) // no two rows draw the same
		d.rows++
	}
	return array.NewRecord(d.with, append(rec.Columns(), b.NewArray()), rec.NumRows()), nil
}

// mix is the step of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), a
// permutation of all numbers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// undrawn is a source without what was drawn.
type undrawn struct {
	source
	as *arrow.Schema
}

func (u undrawn) schema() *arrow.Schema { return u.as }

func (u undrawn) next(ctx context.Context, limit int64) (arrow.Record, error) {
	rec, err := u.source.next(ctx, limit)
	if err != nil {
		return nil, err
	}
	return array.NewRecord(u.as, rec.Columns()[:u.as.NumFields()], rec.NumRows()), nil
}

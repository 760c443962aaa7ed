package transform

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// BenchmarkLookup looks ids up in tables of so many rows, in no order, and takes a float of each: ids that lie near each
// other, ids all over, texts, and ids as of a time.
func BenchmarkLookup(b *testing.B) {
	const window = 4096
	r := rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{1e4, 1e6, 1e7} {
		for _, kind := range []string{"near", "all over", "texts", "as of"} {
			if kind == "texts" && rows > 1e6 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", kind, rows), func(b *testing.B) {
				key := func(i int) int64 { return int64(i) }
				if kind == "all over" {
					key = func(i int) int64 { return int64(mix(uint64(i))) }
				}
				rows := benchTable(b, kind, rows, key)
				var ids []int64
				for range 256 * window {
					ids = append(ids, key(r.IntN(rows.n)))
				}
				out := &vector.Vector{Type: spec.Type{Kind: pb.Kind_FLOAT32}, Rows: window}
				found := &vector.Vector{Type: spec.Type{Kind: pb.Kind_INT32}, Rows: window}
				at := 0
				for b.Loop() {
					in := rows.inputs(kind, ids[at:at+window])
					if err := rows.find.Run(found, in); err != nil {
						b.Fatal(err)
					}
					if err := rows.take.Run(out, []*vector.Vector{found}); err != nil {
						b.Fatal(err)
					}
					at = (at + window) % len(ids)
				}
				perElement(b, window)
			})
		}
	}
}

// benched is a table with the kernels that look values up in it.
type benched struct {
	n          int
	find, take Kernel
	texts      *vector.Vector
	times      []int64
}

func benchTable(b *testing.B, kind string, rows int, key func(i int) int64) *benched {
	b.Helper()
	about := &pb.Table{Keys: 1, AsOf: kind == "as of", Columns: []*pb.Source{
		{Name: "id", Type: &pb.Type{Kind: pb.Kind_INT64}},
		{Name: "since", Type: &pb.Type{Kind: pb.Kind_INT64}},
		{Name: "price", Type: &pb.Type{Kind: pb.Kind_FLOAT32}},
	}}
	if kind == "texts" {
		about.Columns[0].Type.Kind = pb.Kind_BINARY
	}
	builder := lookup.NewBuilder(about, func(int64) error { return nil })
	for from := 0; from < rows; from += lookup.PieceRows {
		n := min(lookup.PieceRows, rows-from)
		keys, since := make([]int64, n), make([]int64, n)
		for i := range n {
			if keys[i] = key(from + i); about.GetAsOf() {
				keys[i], since[i] = key((from+i)/8*8), int64((from+i)%8)
			}
		}
		columns := []*vector.Vector{
			{Type: scalar(pb.Kind_INT64), Rows: n, I64: keys},
			{Type: scalar(pb.Kind_INT64), Rows: n, I64: since},
			{Type: scalar(pb.Kind_FLOAT32), Rows: n, F32: make([]float32, n)},
		}
		if kind == "texts" {
			columns[0] = textKeys(keys)
		}
		if err := builder.Add(int64(from), columns); err != nil {
			b.Fatal(err)
		}
	}
	table, err := builder.Table()
	if err != nil {
		b.Fatal(err)
	}
	find := &rowFinder{table: table, keys: 1}
	if about.GetAsOf() {
		find.times = &times{times: 1, per: 1, maxAge: -1}
	}
	columns := table.Columns()
	take := newValues(scalar(pb.Kind_FLOAT32), false, float32(0))
	take.pieces(columns[len(columns)-1].Pieces)
	return &benched{n: rows, find: find, take: take, times: make([]int64, 4096)}
}

func textKeys(keys []int64) *vector.Vector {
	v := &vector.Vector{Type: scalar(pb.Kind_BINARY), Rows: len(keys), Ends: []int32{0}}
	for _, key := range keys {
		v.Data = fmt.Appendf(v.Data, "item-%08d", key)
		v.Ends = append(v.Ends, int32(len(v.Data)))
	}
	return v
}

// inputs are ids as the table's keys are.
func (t *benched) inputs(kind string, ids []int64) []*vector.Vector {
	v := &vector.Vector{Type: scalar(pb.Kind_INT64), Rows: len(ids), I64: ids}
	switch kind {
	case "texts":
		if t.texts == nil { // the same ones each time: to write them takes longer than to find them
			t.texts = textKeys(ids)
		}
		return []*vector.Vector{t.texts}
	case "as of":
		for i := range ids {
			ids[i] &^= 7
			t.times[i] = int64(i & 7)
		}
		return []*vector.Vector{v, {Type: scalar(pb.Kind_INT64), Rows: len(ids), I64: t.times}}
	}
	return []*vector.Vector{v}
}

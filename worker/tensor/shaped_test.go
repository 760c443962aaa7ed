package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

var numbers = []pb.Kind{
	pb.Kind_BOOL, pb.Kind_INT8, pb.Kind_INT16, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_UINT8, pb.Kind_UINT16,
	pb.Kind_UINT32, pb.Kind_FLOAT16, pb.Kind_FLOAT32, pb.Kind_FLOAT64,
}

// node is a value, or a list of what is below it.
type node struct {
	null  bool
	bits  uint64
	below []node
}

// values are those of a row of a shape, a null list being as many as it should have. It reports false of a row that has
// another shape.
func (n node) values(shape []int32) (out []node, ok bool) {
	under := 1
	for _, d := range shape {
		under *= int(d)
	}
	switch {
	case n.null:
		return slices.Repeat([]node{n}, under), true
	case len(shape) == 0:
		return []node{n}, true
	case len(n.below) != int(shape[0]):
		return nil, false
	}
	for _, child := range n.below {
		values, ok := child.values(shape[1:])
		if !ok {
			return nil, false
		}
		out = append(out, values...)
	}
	return out, true
}

// anyNode draws one with lists of these lengths, but for some if it may stray, and with nulls if there may be some.
func anyNode(t *rapid.T, lengths []*rapid.Generator[int], bits *rapid.Generator[uint64], nulls bool) node {
	switch {
	case nulls && rapid.IntRange(0, 7).Draw(t, "chance") == 0:
		return node{null: true}
	case len(lengths) == 0:
		return node{bits: bits.Draw(t, "bits")}
	}
	n := node{below: make([]node, lengths[0].Draw(t, "length"))}
	for i := range n.below {
		n.below[i] = anyNode(t, lengths[1:], bits, nulls)
	}
	return n
}

// bitsOfKind draws the bits of values; those of int64 have as many as one width or another takes.
func bitsOfKind(t *rapid.T, kind pb.Kind) *rapid.Generator[uint64] {
	most := uint64(math.MaxUint64) >> (64 - 8*spec.Width(kind))
	switch kind {
	case pb.Kind_BOOL:
		most = 1
	case pb.Kind_INT64:
		most >>= rapid.SampledFrom([]int{57, 50, 41, 32, 0}).Draw(t, "small")
	}
	return rapid.Uint64Range(0, most)
}

// vectorOf has the rows, of a kind in so many levels of lists.
func vectorOf(t *rapid.T, rows []node, kind pb.Kind, levels int) *vector.Vector {
	v := &vector.Vector{Rows: len(rows), Type: spec.Type{Kind: kind, List: levels > 0}}
	v.Valid = validOf(rows)
	for level := range levels {
		offsets, below := []int32{0}, []node{}
		for _, n := range rows {
			below = append(below, n.below...)
			offsets = append(offsets, int32(len(below)))
		}
		if level == 0 {
			v.Offsets = offsets
		} else {
			v.Nested = append(v.Nested, vector.Level{Offsets: offsets, Valid: validOf(rows)})
		}
		rows = below
	}
	if levels > 0 {
		v.Type.Nested, v.ElemValid = uint32(levels-1), validOf(rows)
	}
	narrow := kind == pb.Kind_INT64 && rapid.Bool().Draw(t, "in 32 bits")
	for _, n := range rows {
		narrow = narrow && n.bits < 1<<32
		v.Bool, v.I32, v.I64 = append(v.Bool, n.bits == 1), append(v.I32, int32(n.bits)), append(v.I64, int64(n.bits))
		v.F32, v.F64 = append(v.F32, math.Float32frombits(uint32(n.bits))), append(v.F64, math.Float64frombits(n.bits))
		v.Small = append(v.Small, binary.LittleEndian.AppendUint64(nil, n.bits)[:spec.Width(kind)]...)
	}
	if narrow {
		v.U32 = make([]uint32, len(rows))
		for i, n := range rows {
			v.U32[i] = uint32(n.bits)
		}
		v.I64 = nil
	}
	return v
}

func validOf(nodes []node) []uint64 {
	if !slices.ContainsFunc(nodes, func(n node) bool { return n.null }) {
		return nil
	}
	words := make([]uint64, vector.Words(len(nodes)))
	for i, n := range nodes {
		if !n.null {
			words[i>>6] |= 1 << (i & 63)
		}
	}
	return words
}

// lay lays some rows of a vector out in some order, and returns which, and the buffers.
func lay(t *rapid.T, o *pb.Output, v *vector.Vector) (rows []int, buffers [][]byte, err error) {
	b, err := NewBuilder(program(o, []*vector.Vector{v}), 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Narrow(rapid.SampledFrom([]Widths{AsArrow, Unpacked, Packed}).Draw(t, "widths"))
	w := &Window{Slots: []*vector.Vector{v}, Rows: v.Rows, File: &pb.File{Uri: "mem://f"}, FirstRow: 100}
	if rapid.Bool().Draw(t, "shuffled") {
		w.Order = rapid.SliceOfN(rapid.Int32Range(0, int32(v.Rows-1)), 1, 20).Draw(t, "order")
	}
	from := rapid.IntRange(0, w.Len()-1).Draw(t, "from")
	p := b.Cut(w, from, rapid.IntRange(1, w.Len()-from).Draw(t, "rows"), math.MaxInt64)
	for i := p.From; i < p.To; i++ {
		rows = append(rows, w.Source(i))
	}
	batch, err := b.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Build(batch, w, p); err != nil {
		return rows, nil, err
	}
	if p.Bytes < batch.Bytes {
		t.Fatalf("%d bytes were announced, %d came", p.Bytes, batch.Bytes)
	}
	return rows, slices.DeleteFunc(batch.Buffers, func(b []byte) bool { return b == nil }), nil
}

// bitsIn are the n values of a buffer, which may be narrow.
func bitsIn(buffer []byte, n int) []uint64 {
	out, width := make([]uint64, n), len(buffer)/n
	for i := range out {
		var wide [8]byte
		copy(wide[:], buffer[i*width:(i+1)*width])
		out[i] = binary.LittleEndian.Uint64(wide[:])
	}
	return out
}

// fillFor draws what stands for nulls of a kind, and its bits; it may be nothing.
func fillFor(t *rapid.T, kind pb.Kind) (*pb.Value, uint64) {
	switch pick := rapid.IntRange(0, 2).Draw(t, "fill"); {
	case pick == 0:
		return nil, 0
	case kind == pb.Kind_BOOL:
		return &pb.Value{Kind: &pb.Value_Bool{Bool: true}}, 1
	case kind == pb.Kind_FLOAT16:
		return &pb.Value{Kind: &pb.Value_Float{Float: -1.5}}, 0xbe00
	case kind == pb.Kind_FLOAT32:
		return &pb.Value{Kind: &pb.Value_Float{Float: -1.5}}, 0xbfc00000
	case kind == pb.Kind_FLOAT64:
		return &pb.Value{Kind: &pb.Value_Float{Float: -1.5}}, 0xbff8000000000000
	case pick == 1:
		return &pb.Value{Kind: &pb.Value_Int{Int: 7}}, 7
	}
	mask := uint64(math.MaxUint64) >> (64 - 8*spec.Width(kind))
	return &pb.Value{Kind: &pb.Value_Int{Int: -1}}, mask
}

// A tensor has each row's values in its shape, whatever they lie in, and the default where something is null; rows that
// have none of either are named.
func TestTensorsHaveTheRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(numbers).Draw(t, "kind")
		o, levels := tensorOf(pb.Layout_TENSOR, kind, 0), rapid.IntRange(0, 3).Draw(t, "levels")
		stray := rapid.IntRange(0, 4).Draw(t, "stray") == 0
		var lengths []*rapid.Generator[int]
		for range levels {
			n := rapid.IntRange(1, 3).Draw(t, "size")
			o.Shape = append(o.Shape, int32(n))
			most := n
			if stray {
				most++
			}
			lengths = append(lengths, rapid.IntRange(n, most))
		}
		bits, nulls := bitsOfKind(t, kind), rapid.Bool().Draw(t, "nulls")
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) node {
			return anyNode(t, lengths, bits, nulls)
		}), 1, 20).Draw(t, "values")
		v, shape := vectorOf(t, rows, kind, levels), o.GetShape()
		if levels == 1 { // in any shape that has as many values
			o.Shape = append([]int32{1}, shape...)
		}
		var fill uint64
		o.Fill, fill = fillFor(t, kind)

		laid, buffers, err := lay(t, o, v)
		var want []uint64
		for _, row := range laid {
			values, ok := rows[row].values(shape)
			lacks := o.GetFill() == nil && slices.ContainsFunc(values, func(n node) bool { return n.null })
			if !ok || lacks {
				if says := fmt.Sprintf("mem://f row %d ", 100+row); err == nil || !strings.Contains(err.Error(), says) {
					t.Fatalf("row %d: got %v, want %q", row, err, says)
				}
				return
			}
			for _, n := range values {
				if n.null {
					n.bits = fill
				}
				want = append(want, n.bits)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := bitsIn(buffers[0], len(want)); !slices.Equal(got, want) {
			t.Fatalf("%v %v: got %x, want %x", v.Type, o.GetShape(), got, want)
		}
	})
}

// A padded tensor has the first or the last values of each row, and what it is filled with on one side of them.
func TestPaddedHasTheRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(numbers).Draw(t, "kind")
		length := rapid.IntRange(1, 5).Draw(t, "length")
		o := withShape(tensorOf(pb.Layout_PADDED, kind, 0), int32(length))
		o.Left, o.First = rapid.Bool().Draw(t, "left"), rapid.Bool().Draw(t, "first")
		o.Nulls = rapid.Bool().Draw(t, "keep nulls")
		bits, nulls := bitsOfKind(t, kind), rapid.Bool().Draw(t, "nulls")
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) node {
			return anyNode(t, []*rapid.Generator[int]{rapid.IntRange(0, 9)}, bits, nulls)
		}), 1, 20).Draw(t, "values")
		v := vectorOf(t, rows, kind, 1)
		var fill uint64
		o.Fill, fill = fillFor(t, kind)

		laid, buffers, err := lay(t, o, v)
		if err != nil {
			t.Fatal(err)
		}
		var want, lengths []uint64
		for _, row := range laid {
			var values []uint64
			for _, n := range rows[row].below {
				switch {
				case n.null && o.GetNulls():
					values = append(values, fill)
				case !n.null:
					values = append(values, n.bits)
				}
			}
			if more := len(values) - length; more > 0 && o.GetFirst() {
				values = values[:length]
			} else if more > 0 {
				values = values[more:]
			}
			padding := slices.Repeat([]uint64{fill}, length-len(values))
			lengths = append(lengths, uint64(len(values)))
			if o.GetLeft() {
				want = append(append(want, padding...), values...)
			} else {
				want = append(append(want, values...), padding...)
			}
		}
		if got := bitsIn(buffers[0], len(want)); !slices.Equal(got, want) {
			t.Fatalf("%v: got %x, want %x", o, got, want)
		}
		if got := bitsIn(buffers[1], len(laid)); !slices.Equal(got, lengths) {
			t.Fatalf("lengths %d, want %d", got, lengths)
		}
	})
}

// Byte strings are the values of their rows.
func TestTensorsOfByteStrings(t *testing.T) {
	v := vec(pb.Kind_BINARY, false, true)
	o := withShape(tensorOf(pb.Layout_TENSOR, pb.Kind_BFLOAT16, 0), 1)
	o.Fill = &pb.Value{Kind: &pb.Value_Float{Float: 1}}
	checkLayout(t, o, []*vector.Vector{v}, split("[24929] [16256] [25443] [25700]"))
	o = withShape(tensorOf(pb.Layout_TENSOR, pb.Kind_BOOL, 0), 2)
	checkLayout(t, o, []*vector.Vector{vec(pb.Kind_BINARY, false, false)}, split("[1 1] [1 1] [1 1] [1 1]"))
}

// Null elements of sparse features may stay, as a value, with their weights.
func TestNullsThatStay(t *testing.T) {
	kept := func(o *pb.Output, fill *pb.Value) *pb.Output {
		o.Nulls, o.Fill = true, fill
		return o
	}
	ids := vec(pb.Kind_INT64, true, true)
	checkLayout(t, kept(tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0), &pb.Value{Kind: &pb.Value_Int{Int: -1}}),
		[]*vector.Vector{ids}, split("[20 21] [] [] [22 -1 1099511627776]"))
	checkLayout(t, kept(tensorOf(pb.Layout_SPARSE, pb.Kind_FLOAT32, 0), &pb.Value{
		Kind: &pb.Value_Float{Float: math.NaN()},
	}), []*vector.Vector{vec(pb.Kind_FLOAT64, true, true)}, split("[-0.5 -1.5] [] [] [-2.5 NaN -4.5]"))
	checkLayout(t, kept(weighted(tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0)), &pb.Value{Kind: &pb.Value_Int{}}),
		[]*vector.Vector{ids, vec(pb.Kind_FLOAT32, true, false)},
		split("{[20 21] [0.5 1.5]} {[] []} {[] []} {[22 0 1099511627776] [2.5 3.5 4.5]}"))
}

package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// widened are the values of a narrow buffer.
func widened(buffer []byte, n int) []int64 {
	values := make([]int64, n)
	for i := range values {
		var wide [8]byte
		copy(wide[:], buffer[i*(len(buffer)/n):(i+1)*(len(buffer)/n)])
		values[i] = int64(binary.LittleEndian.Uint64(wide[:]))
	}
	return values
}

// TestNarrow builds lists, scalars and labels of each width, in any order, with nulls and without, narrow and as Arrow
// has them: the values are the same, and take no more bytes than they must.
func TestNarrow(t *testing.T) {
	const rows = 100
	r := rand.New(rand.NewPCG(1, 2))
	order := make([]int32, 0, rows)
	for _, row := range r.Perm(rows)[:60] {
		order = append(order, int32(row))
	}
	for largest, width := range map[int64]int{
		1<<8 - 1: 1, 1 << 8: 2, 1<<16 - 1: 2, 1 << 16: 3, 1<<24 - 1: 3, 1 << 24: 4, 1<<32 - 1: 4, 1 << 32: 8, -1: 8,
		1<<31 - 1: 4, -1 << 31: 8,
	} {
		for _, kind := range []pb.Kind{pb.Kind_INT64, pb.Kind_INT32} {
			if kind == pb.Kind_INT32 && int64(int32(largest)) != largest {
				continue
			}
			for _, order := range [][]int32{nil, order} {
				for _, lists := range []int{0, 1, 3} {
					for _, nulls := range []bool{false, true} {
						v := someInts(r, kind, rows, lists, nulls, largest)
						name := fmt.Sprintf("%d, %v, shuffled %v, lists of %d, nulls %v",
							largest, kind, order != nil, lists, nulls)
						checkNarrow(t, name, tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0), v, order, width)
						if kind == pb.Kind_INT64 && width < 8 {
							checkU32(t, name, tensorOf(pb.Layout_SPARSE, kind, 0), v, order)
						}
						if kind == pb.Kind_INT64 && lists == 0 && !nulls {
							checkNarrow(t, "label "+name, tensorOf(pb.Layout_LABEL, kind, 0), v, order, width)
							if width < 8 {
								checkU32(t, "label "+name, tensorOf(pb.Layout_LABEL, kind, 0), v, order)
							}
						}
					}
				}
			}
		}
	}
}

// someInts has one value that is the largest, which is not null.
func someInts(r *rand.Rand, kind pb.Kind, rows, lists int, nulls bool, largest int64) *vector.Vector {
	v := &vector.Vector{Rows: rows}
	v.Type.Kind = kind
	valid := &v.Valid
	if lists > 0 {
		v.Type.List, valid = true, &v.ElemValid
		v.Offsets = []int32{0}
		for i := range rows {
			n := lists
			if lists > 1 && i != rows/2 {
				n = r.IntN(2 * lists)
			}
			v.Offsets = append(v.Offsets, v.Offsets[i]+int32(n))
		}
	}
	n := v.Len()
	at := n / 2
	if lists > 0 {
		at = int(v.Offsets[rows/2])
	}
	for i := range n {
		x := largest
		if i != at && x > 0 {
			x = r.Int64N(x + 1)
		}
		v.I64, v.I32 = append(v.I64, x), append(v.I32, int32(x))
	}
	if kind == pb.Kind_INT64 {
		v.I32 = nil
	} else {
		v.I64 = nil
	}
	if nulls {
		for range vector.Words(n) {
			*valid = append(*valid, r.Uint64())
		}
		(*valid)[at>>6] |= 1 << (at & 63)
	}
	return v
}

// TestWidthOfManyValues has a wide value after many that are less so.
func TestWidthOfManyValues(t *testing.T) {
	for _, most := range []uint32{0, 1 << 8, 1 << 16} {
		for last, width := range map[uint32]int{0: 1, 1 << 8: 2, 1 << 16: 3, 1 << 24: 4, 1 << 31: 4} {
			values := slices.Repeat([]uint32{most}, 5_000)
			values[len(values)-1] = last
			want := max(width, map[uint32]int{0: 1, 1 << 8: 2, 1 << 16: 3}[most])
			narrow := &vector.Vector{Type: spec.Type{Kind: pb.Kind_INT64}, Rows: len(values), U32: values}
			for widths, want := range map[Widths]int{AsArrow: 8, Unpacked: 4, Packed: want} {
				if got := widthOf(narrow, widths); got != want {
					t.Errorf("%d values of %d, then %d: got %d bytes, want %d", len(values)-1, most, last, got, want)
				}
			}
		}
	}
}

// checkU32: of values that lie in 32 bits the same batches are built as of int64 values, but for the width of unpacked
// ones.
func checkU32(t *testing.T, name string, o *pb.Output, v *vector.Vector, order []int32) {
	t.Helper()
	low := *v
	for _, x := range v.I64 {
		low.U32 = append(low.U32, uint32(x))
	}
	low.I64 = nil
	for _, widths := range []Widths{AsArrow, Unpacked, Packed} {
		var batches [2]*Batch
		for i, v := range []*vector.Vector{v, &low} {
			w := &Window{Slots: []*vector.Vector{v}, Rows: v.Rows, Order: order, File: &pb.File{}}
			b, err := NewBuilder(program(o, w.Slots), 1)
			if err != nil {
				t.Fatal(err)
			}
			b.Narrow(widths)
			if batches[i], err = b.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.Build(batches[i], w, b.Cut(w, 3, w.Len()-8, math.MaxInt64)); err != nil {
				t.Fatal(name, err)
			}
		}
		if widths == Unpacked { // to other widths
			for _, b := range batches {
				last := len(b.Buffers) - 1
				b.Buffers[last] = bytesOf(widened(b.Buffers[last], int(b.Nodes[len(b.Nodes)-1].Length)))
			}
		}
		if !slices.EqualFunc(batches[0].Buffers, batches[1].Buffers, slices.Equal[[]byte]) {
			t.Errorf("%s, widths %d: of values of 32 bits\n%v\nwas built, of others\n%v",
				name, widths, batches[1].Buffers, batches[0].Buffers)
		}
	}
}

func checkNarrow(t *testing.T, name string, o *pb.Output, v *vector.Vector, order []int32, width int) {
	t.Helper()
	w := &Window{Slots: []*vector.Vector{v}, Rows: v.Rows, Order: order, File: &pb.File{}}
	build := func(widths Widths) *Batch {
		b, err := NewBuilder(program(o, w.Slots), 1)
		if err != nil {
			t.Fatal(err)
		}
		b.Narrow(widths)
		batch, err := b.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := b.Cut(w, 0, w.Len(), math.MaxInt64)
		if err := b.Build(batch, w, p); err != nil {
			t.Fatal(name, err)
		}
		if p.Bytes < batch.Bytes {
			t.Errorf("%s: %d bytes were announced, %d came", name, p.Bytes, batch.Bytes)
		}
		return batch
	}
	wide := build(AsArrow)
	last := len(wide.Buffers) - 1
	n := int(wide.Nodes[len(wide.Nodes)-1].Length)
	unpacked := width
	if width == 3 {
		unpacked = 4
	}
	for widths, width := range map[Widths]int{Unpacked: unpacked, Packed: width} {
		narrow := build(widths)
		if !slices.Equal(wide.Nodes, narrow.Nodes) || last == 3 && !slices.Equal(wide.Buffers[1], narrow.Buffers[1]) {
			t.Errorf("%s: other lengths or offsets", name)
		}
		if got := len(narrow.Buffers[last]); got != n*width {
			t.Errorf("%s: %d values take %d bytes, want %d each", name, n, got, width)
		} else if !slices.Equal(widened(narrow.Buffers[last], n), widened(wide.Buffers[last], n)) {
			t.Errorf("%s: other values", name)
		}
	}
}

// FuzzNarrow compares both loops with each other, and sees that they write nothing else.
func FuzzNarrow(f *testing.F) {
	for n := range 40 {
		data := make([]byte, 4*n+3)
		for i := range data {
			data[i] = byte(255 - 7*i)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkLoops[uint8, int64](t, data, 1)
		checkLoops[uint16, int64](t, data, 2)
		checkLoops[uint32, int64](t, data, 4)
		checkLoops[uint8, uint32](t, data, 1)
		checkLoops[uint16, uint32](t, data, 2)
		checkLoops[uint16, int32](t, data, 2)
		checkPacked(t, data)
		checkBits[int64](t, data)
		checkBits[uint32](t, data)
		checkBits[int32](t, data)
	})
}

// checkPacked unpacks bytes, three by three, and expects to find them packed again, in the same memory and in other.
func checkPacked(t *testing.T, data []byte) {
	n := len(data) / 3
	for name, pack := range map[string]func(dst, values []uint32){
		"simd": func(dst, values []uint32) { packed(dst, values) }, "plain": func(dst,
			values []uint32,
		) {
			packPlain(dst, values, 0)
		},
	} {
		values, other := make([]uint32, n+1), make([]uint32, n+1)
		values[n], other[n] = 7, 7
		for i, x := range widened(data[:3*n], n) {
			values[i] = uint32(x)
		}
		for _, dst := range [][]uint32{other, values} {
			pack(dst[:n:n], values[:n:n])
			if got := bytesOf(dst)[:3*n]; !slices.Equal(got, data[:3*n]) || dst[n] != 7 {
				t.Fatalf("%s: got %v and then %d, want %v", name, got, dst[n], data[:3*n])
			}
		}
	}
}

// checkBits compares the bits of values with those of each of them.
func checkBits[T int32 | int64 | uint32](t *testing.T, data []byte) {
	var want T
	size := int(unsafe.Sizeof(want))
	values := make([]T, len(data)/size)
	copy(bytesOf(values), data)
	for _, x := range values {
		want |= x
	}
	if got := bitsOf(values, 1<<63); got != uint64(want) && min(got, uint64(want)) < 1<<63 {
		t.Fatalf("%T: got %x, want %x", values, got, want)
	}
}

// checkLoops narrows the values that bytes are.
func checkLoops[D unsigned, S int64 | uint32 | int32](t *testing.T, data []byte, width int) {
	n := len(data) / width
	src := make([]S, n)
	for i, x := range widened(data[:n*width], n) {
		src[i] = S(x)
	}
	got, plain := make([]D, n+1), make([]D, n+1)
	got[n], plain[n] = 7, 7
	narrow(got[:n], src)
	narrowPlain(plain[:n], src)
	for i, x := range src {
		if S(got[i]) != x || S(plain[i]) != x {
			t.Fatalf("%T of %T, value %d of %d, %d: got %d, plain %d", got[i], x, i, n, x, got[i], plain[i])
		}
	}
	if got[n] != 7 || plain[n] != 7 {
		t.Fatalf("more than %d values were written", n)
	}
}

// BenchmarkNarrow narrows values in the caches, with and without SIMD, and finds what bits they have, in nanoseconds a
// value.
func BenchmarkNarrow(b *testing.B) {
	src := make([]int64, 4096)
	values := make([]uint32, len(src))
	benchNarrow[uint8](b, src)
	benchNarrow[uint16](b, src)
	benchNarrow[uint32](b, src)
	benchNarrow[uint16](b, values)
	for name, f := range map[string]func(){
		"bits/int64": func() { bitsOf(src, 1<<32) }, "bits/uint32": func() { bitsOf(values, 1<<24) },
		"packed/simd": func() { packed(values, values) }, "packed/plain": func() { packPlain(values, values, 0) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(src)), "ns/element")
		})
	}
}

func benchNarrow[D unsigned, S int64 | uint32](b *testing.B, src []S) {
	dst := make([]D, len(src))
	for name, loop := range map[string]func([]D, []S){"simd": narrow[D, S], "plain": narrowPlain[D, S]} {
		b.Run(fmt.Sprintf("%T of %T/%s", dst[0], src[0], name), func(b *testing.B) {
			for b.Loop() {
				loop(dst, src)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(src)), "ns/element")
		})
	}
}

package python

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// fuzzed are the results that FuzzTake takes.
func fuzzed(t testing.TB) []result {
	types := []spec.Type{
		{Kind: pb.Kind_INT64},
		{Kind: pb.Kind_BOOL},
		{Kind: pb.Kind_BINARY},
		{Kind: pb.Kind_FLOAT16, List: true, Nested: 1},
		{Kind: pb.Kind_BINARY, List: true},
	}
	results := make([]result, len(types))
	for i, typ := range types {
		if err := crosses(typ); err != nil {
			t.Fatal(err)
		}
		results[i].typ = typ
	}
	return results
}

// What lies at nulls is nobody's business: it may be of rows that a function must not see.
func TestNullsAreZeroInProcesses(t *testing.T) {
	null := []uint64{0b10} // the first of two
	scalar := func(k pb.Kind) spec.Type { return spec.Type{Kind: k} }
	columns := []*vector.Vector{
		{Type: scalar(pb.Kind_BOOL), Rows: 2, Valid: null, Bool: []bool{true, false}},
		{Type: scalar(pb.Kind_INT32), Rows: 2, Valid: null, I32: []int32{7, 0}},
		{Type: scalar(pb.Kind_INT64), Rows: 2, Valid: null, I64: []int64{7, 0}},
		{Type: scalar(pb.Kind_FLOAT32), Rows: 2, Valid: null, F32: []float32{7, 0}},
		{Type: scalar(pb.Kind_FLOAT64), Rows: 2, Valid: null, F64: []float64{7, 0}},
		{Type: scalar(pb.Kind_UINT16), Rows: 2, Valid: null, Small: []byte{7, 7, 0, 0}},
		{Type: scalar(pb.Kind_BINARY), Rows: 2, Valid: null, Data: []byte("garbage"), Ends: []int32{0, 7, 7}},
		{
			Type: spec.Type{Kind: pb.Kind_INT64, List: true}, Rows: 1, Offsets: []int32{0, 2}, I64: []int64{7, 0},
			ElemValid: null,
		},
	}
	for _, v := range columns {
		lay := layer{to: make([]byte, room(v))}
		lay.column(v)
		for i, b := range lay.to {
			bitmap, offsets := b == 0b10 && i%align == 0, v.Type.List && i >= 4 && b == 2
			if b != 0 && !bitmap && !offsets {
				t.Errorf("%v: byte %d of what a process sees is %d", v.Type, i, b)
			}
		}
	}
}

// Whatever a process says of its results, and writes there, they are refused or are vectors that may be read, in no
// more memory than was allowed.
func FuzzTake(f *testing.F) {
	places := func(at ...int64) (out []byte) {
		for _, x := range at {
			out = binary.LittleEndian.AppendUint64(out, uint64(x))
		}
		return out
	}
	good := places(
		-1, 0, 0, 16, // int64
		0, 1, 64, 1, // bool
		-1, 0, 128, 12, 192, 3, // binary
		-1, 0, 128, 12, -1, 0, 128, 12, -1, 0, 192, 4, // list<list<float16>> of which the lists are empty, but one
		-1, 0, 256, 12, -1, 0, 256, 4, 0, 0, // list<binary> of empty ones
	)
	segment := make([]byte, 512)
	copy(segment[128:], places(1<<32)) // ends 0, 1
	binary.LittleEndian.PutUint32(segment[136:], 3)
	f.Add(2, good, segment)
	f.Add(0, places(0, 0), []byte{})
	f.Add(5, places(-1, 0, math.MaxInt64-7, 40, -1, 0, 0, math.MinInt64), segment)
	f.Add(1<<31-1, places(-1, 0, 0, 1<<62), segment)
	f.Fuzz(func(t *testing.T, rows int, said, segment []byte) {
		if rows < 0 || rows > math.MaxInt32 {
			return
		}
		at := make([]int64, len(said)/8)
		for i := range at {
			at[i] = int64(binary.LittleEndian.Uint64(said[8*i:]))
		}
		results := fuzzed(t)
		out := make([]*vector.Vector, len(results))
		for i := range out {
			out[i] = &vector.Vector{}
		}
		allowed := int64(0)
		err := take(results, out, rows, segment, at, func(bytes int64) error {
			allowed = bytes
			return nil
		})
		var has int64
		for i := range results {
			has += held(&results[i])
		}
		if has > allowed {
			t.Errorf("%d bytes, of which %d were allowed", has, allowed)
		}
		if err != nil {
			return
		}
		for _, v := range out {
			for row := range rows {
				show(v, row)
			}
		}
	})
}

// held is how many bytes a result's memory has.
func held(m *result) int64 {
	n := 8*cap(m.valid) + cap(m.bools) + 4*(cap(m.i32)+cap(m.f32)+cap(m.ends)) + 8*(cap(m.i64)+cap(m.f64)) + cap(m.bytes)
	for _, l := range m.levels {
		n += 8*cap(l.valid) + 4*cap(l.offsets)
	}
	return int64(n)
}

// Results that lie as they should are taken, others are refused in words.
func TestTakeChecks(t *testing.T) {
	lists := spec.Type{Kind: pb.Kind_INT32, List: true}
	segment := make([]byte, 256)
	for i, x := range []uint32{0, 2, 2, 3} {
		binary.LittleEndian.PutUint32(segment[4*i:], x)
	}
	segment[64] = 0b101 // row 1 is null, and empty
	segment[128] = 7
	for name, c := range map[string]struct {
		rows   int
		places []int64
		change func()
		want   string
	}{
		"good":               {3, []int64{64, 1, 0, 16, -1, 0, 128, 12}, func() {}, ""},
		"fewer places":       {3, []int64{64, 1, 0, 16, -1, 0}, func() {}, "6 places where there should be 8"},
		"a short bitmap":     {9, []int64{64, 1, 0, 40, -1, 0, 128, 12}, func() {}, "of 1 bytes where there should be 2"},
		"too many offsets":   {2, []int64{64, 1, 0, 16, -1, 0, 128, 12}, func() {}, "of 16 bytes where there should be 12"},
		"outside":            {3, []int64{64, 1, 192, 80, -1, 0, 128, 12}, func() {}, "a buffer of 80 bytes at 192 of 256"},
		"more than there is": {3, []int64{64, 1, 0, 16, -1, 0, 128, 1 << 33}, func() {}, "buffers have more than 256 bytes"},
		"no multiple of 64":  {3, []int64{64, 1, 0, 16, -1, 0, 132, 12}, func() {}, "a buffer of 12 bytes at 132"},
		"too few values":     {3, []int64{64, 1, 0, 16, -1, 0, 128, 8}, func() {}, "of 8 bytes where there should be 12"},
		"falling":            {3, []int64{64, 1, 0, 16, -1, 0, 128, 12}, func() { segment[4] = 3 }, "offset 2 is 2, behind 3"},
		"from the middle":    {3, []int64{64, 1, 0, 16, -1, 0, 128, 12}, func() { segment[0] = 1 }, "offset 0 is 1"},
		"null, not empty":    {3, []int64{64, 1, 0, 16, -1, 0, 128, 12}, func() { segment[64] = 0b110 }, "the null list 0 has 2 elements"},
	} {
		before := append([]byte(nil), segment...)
		c.change()
		out := &vector.Vector{Type: lists}
		err := take([]result{{typ: lists}}, []*vector.Vector{out}, c.rows, segment, c.places, nil)
		copy(segment, before)
		switch {
		case c.want == "" && (err != nil || show(out, 0) != "2:7,0," || show(out, 1) != "null" || show(out, 2) != "1:0,"):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.Is(err, errPlaces) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Rows that are not those of parents are refused in words; what is taken is the worker's own.
func TestTakeChecksParents(t *testing.T) {
	const filter, flatMap = pb.FunctionKind_FILTER, pb.FunctionKind_FLAT_MAP
	segment := make([]byte, 128)
	for name, c := range map[string]struct {
		kind    pb.FunctionKind
		rows    []int32
		results int
		places  []int64
		want    string
	}{
		"a filter":            {filter, []int32{0, 2}, 2, []int64{0, 8}, ""},
		"none":                {filter, nil, 0, []int64{0, 0}, ""},
		"a flat_map":          {flatMap, []int32{0, 0, 2, 2, 2, 2}, 6, []int64{0, 24}, ""},
		"a row twice":         {filter, []int32{1, 1}, 2, []int64{0, 8}, "row 1 is of row 1 of 3, behind one of row 1"},
		"falling":             {flatMap, []int32{1, 0}, 2, []int64{0, 8}, "row 1 is of row 0 of 3, behind one of row 1"},
		"before the first":    {flatMap, []int32{-1}, 1, []int64{0, 4}, "row 0 is of row -1 of 3"},
		"behind the last":     {flatMap, []int32{3}, 1, []int64{0, 4}, "row 0 is of row 3 of 3"},
		"more than there are": {filter, []int32{0, 1, 2, 2}, 4, []int64{0, 16}, "4 rows of 3"},
		"more than the bound": {flatMap, []int32{0, 0, 0, 0, 0, 0, 0}, 7, []int64{0, 28}, "7 rows of 3"},
		"fewer than none":     {flatMap, nil, -1, []int64{0, 0}, "-1 rows of 3"},
		"no places":           {flatMap, nil, 0, nil, "0 rows of 3, with 1 places"},
		"too few":             {flatMap, []int32{0}, 2, []int64{0, 4}, "4 bytes for the parents of 2 rows"},
		"outside":             {flatMap, nil, 2, []int64{128, 8}, "of 8 bytes at 128 of 128"},
	} {
		for i, row := range c.rows {
			binary.LittleEndian.PutUint32(segment[4*i:], uint32(row))
		}
		p := parents{kind: c.kind, most: 2}
		rows, places, err := p.take(3, c.results, segment, append(c.places, 7), nil)
		clear(segment)
		switch {
		case c.want == "" && (err != nil || rows == nil || !slices.Equal(rows, c.rows) || !slices.Equal(places, []int64{7})):
			t.Errorf("%s: %v, %v, %v", name, rows, places, err)
		case c.want != "" && (!errors.Is(err, errPlaces) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Whatever a process says of parents, they are refused, or rise from one of the rows to another, in no more memory than
// was allowed.
func FuzzTakeParents(f *testing.F) {
	f.Add(3, 2, true, int64(0), int64(8), []byte{0, 0, 0, 0, 2, 0, 0, 0})
	f.Add(3, 3, false, int64(64), int64(12), make([]byte, 128))
	f.Add(0, 0, false, int64(-1), int64(0), []byte{})
	f.Add(1<<31-1, 1<<40, false, int64(0), int64(1<<42), []byte{1})
	f.Fuzz(func(t *testing.T, n, results int, chooses bool, at, size int64, segment []byte) {
		if n < 0 || n > math.MaxInt32 {
			return
		}
		p := parents{kind: pb.FunctionKind_FLAT_MAP, most: 4}
		if chooses {
			p.kind = pb.FunctionKind_FILTER
		}
		allowed := int64(0)
		rows, _, err := p.take(n, results, segment, []int64{at, size}, func(bytes int64) error {
			allowed = bytes
			return nil
		})
		if has := 4 * int64(cap(p.rows)); has > allowed {
			t.Errorf("%d bytes, of which %d were allowed", has, allowed)
		}
		if err != nil {
			return
		}
		if len(rows) != results || !slices.IsSorted(rows) || results > 0 && (rows[0] < 0 || int(rows[results-1]) >= n) ||
			chooses && len(slices.Compact(slices.Clone(rows))) != results {
			t.Errorf("%d of %d rows: %v", results, n, rows)
		}
	})
}

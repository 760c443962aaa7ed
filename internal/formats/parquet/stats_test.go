package parquet

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

var le = binary.LittleEndian

func i32(v int32) []byte   { return le.AppendUint32(nil, uint32(v)) }
func i64(v int64) []byte   { return le.AppendUint64(nil, uint64(v)) }
func f32(v float32) []byte { return le.AppendUint32(nil, math.Float32bits(v)) }
func f64(v float64) []byte { return le.AppendUint64(nil, math.Float64bits(v)) }

func TestStats(t *testing.T) {
	nan, minusZero := float32(math.NaN()), float32(math.Copysign(0, -1))
	intLeaf := Leaf{Physical: Int32, Kind: pb.Kind_INT32}
	floatLeaf := Leaf{Physical: Float, Kind: pb.Kind_FLOAT32}
	text := Leaf{Physical: ByteArray, Kind: pb.Kind_BINARY}
	u32 := Leaf{Physical: Int32, Kind: pb.Kind_INT64, Logical: Logical{Unsigned: true}}
	u64 := Leaf{Physical: Int64, Kind: pb.Kind_INT64, Logical: Logical{Unsigned: true}}
	half := Leaf{Physical: FixedLenByteArray, TypeLength: 2, Kind: pb.Kind_FLOAT32, Logical: Logical{Float16: true}}
	long := strings.Repeat("z", maxBound+1)
	for name, tc := range map[string]struct {
		leaf     Leaf
		order    bool
		raw      rawStats
		min, max []byte
	}{
		"int":      {intLeaf, true, rawStats{min: i32(-1), max: i32(5)}, i32(-1), i32(5)},
		"int, old": {intLeaf, false, rawStats{oldMin: i32(-1), oldMax: i32(5)}, i32(-1), i32(5)},
		"int, new and old": {
			intLeaf, true,
			rawStats{min: i32(0), max: i32(1), oldMin: i32(0), oldMax: i32(1)},
			i32(0), i32(1),
		},
		"int without order": {intLeaf, false, rawStats{min: i32(-1), max: i32(5)}, i32(-1), i32(5)},
		"one side":          {intLeaf, true, rawStats{min: i32(-1)}, i32(-1), nil},
		"wrong way round":   {intLeaf, true, rawStats{min: i32(5), max: i32(-1)}, nil, nil},
		"wrong width":       {intLeaf, true, rawStats{min: i64(5), max: i64(6)}, nil, nil},
		"float":             {floatLeaf, true, rawStats{min: f32(-1), max: f32(2)}, f32(-1), f32(2)},
		"float zeros":       {floatLeaf, true, rawStats{min: f32(0), max: f32(minusZero)}, f32(minusZero), f32(0)},
		"float NaN":         {floatLeaf, true, rawStats{min: f32(nan), max: f32(1)}, nil, nil},
		"float NaN above":   {floatLeaf, true, rawStats{min: f32(1), max: f32(nan)}, nil, nil},
		"text": {
			text, true,
			rawStats{min: []byte(""), max: []byte("z\xff")},
			[]byte(""),
			[]byte("z\xff"),
		},
		"text, left out":     {text, true, rawStats{min: []byte(""), max: []byte("")}, []byte(""), nil},
		"text, old":          {text, true, rawStats{oldMin: []byte("a"), oldMax: []byte("b")}, nil, nil},
		"text without order": {text, false, rawStats{min: []byte("a"), max: []byte("b")}, nil, nil},
		"text, long":         {text, true, rawStats{min: []byte(long), max: []byte(long)}, []byte(long[1:]), nil},
		"uint32":             {u32, true, rawStats{min: i32(1), max: i32(-1)}, i64(1), i64(math.MaxUint32)},
		"uint32, old":        {u32, false, rawStats{oldMin: i32(-1), oldMax: i32(1)}, nil, nil},
		"uint64":             {u64, true, rawStats{min: i64(1), max: i64(7)}, i64(1), i64(7)},
		"uint64, above 2^63": {u64, true, rawStats{min: i64(1), max: i64(-1)}, nil, nil},
		"float16":            {half, true, rawStats{min: []byte{0, 0xc0}, max: []byte{0, 0x3c}}, f32(-2), f32(1)},
		"float16, subnormal": {
			half, true,
			rawStats{min: []byte{1, 0}, max: []byte{0xff, 0x7b}},
			f32(0x1p-24),
			f32(65504),
		},
		"float16, NaN": {half, true, rawStats{min: []byte{1, 0x7c}, max: []byte{0, 0x3c}}, nil, nil},
		"int96": {
			Leaf{Physical: Int96, Kind: pb.Kind_INT64},
			true,
			rawStats{min: make([]byte, 12), max: make([]byte, 12)},
			nil, nil,
		},
		"unsupported column": {
			Leaf{Column: -1, Physical: Int32},
			true,
			rawStats{min: i32(1), max: i32(5)},
			nil,
			nil,
		},
		"bool": {
			Leaf{Physical: Boolean, Kind: pb.Kind_BOOL},
			true,
			rawStats{min: []byte{0}, max: []byte{1}},
			[]byte{0},
			[]byte{1},
		},
		"double, order unknown": {
			Leaf{Physical: Double, Kind: pb.Kind_FLOAT64},
			false,
			rawStats{min: f64(1), max: f64(2)},
			f64(1), f64(2),
		},
	} {
		p := &parser{orders: []bool{tc.order}}
		p.leaves, p.types = []Leaf{tc.leaf}, []*node{{}}
		p.markOrders()
		got := p.stats(0, 10, tc.raw)
		if !bytes.Equal(got.Min, tc.min) || !bytes.Equal(got.Max, tc.max) ||
			(got.Min == nil) != (tc.min == nil) || (got.Max == nil) != (tc.max == nil) {
			t.Errorf("%s: %x to %x, want %x to %x", name, got.Min, got.Max, tc.min, tc.max)
		}
	}
}

func TestStatsOfDecimals(t *testing.T) {
	for name, tc := range map[string]struct {
		physical Physical
		length   int
		min, max []byte
		lo, hi   float64 // exact
	}{
		"int32": {Int32, 0, i32(-12345), i32(99), -123.45, 0.99},
		"int64": {Int64, 0, i64(-1), i64(1e15), -0.01, 1e13},
		"fixed": {FixedLenByteArray, 3, []byte{0xff, 0xff, 0x00}, []byte{0x01, 0, 0}, -2.56, 655.36},
		"bytes": {ByteArray, 0, []byte{0x80}, []byte{0x7f}, -1.28, 1.27},
	} {
		p := &parser{orders: []bool{true}}
		p.leaves = []Leaf{{
			Physical: tc.physical, TypeLength: tc.length, Kind: pb.Kind_FLOAT64,
			Logical: Logical{Decimal: true, Scale: 2},
		}}
		p.types = []*node{{}}
		got := p.stats(0, 10, rawStats{min: tc.min, max: tc.max})
		if got.Min == nil || got.Max == nil {
			t.Errorf("%s: no bounds", name)
			continue
		}
		lo, hi := math.Float64frombits(le.Uint64(got.Min)), math.Float64frombits(le.Uint64(got.Max))
		if lo > tc.lo || lo < tc.lo-1e-9*math.Abs(tc.lo) || hi < tc.hi || hi > tc.hi+1e-9*math.Abs(tc.hi) {
			t.Errorf("%s: %v to %v, want a little more than %v to %v", name, lo, hi, tc.lo, tc.hi)
		}
	}
}

func TestStatsNulls(t *testing.T) {
	for raw, want := range map[int64]int64{0: 0, 10: 10, 11: -1, -5: -1} {
		p := &parser{}
		p.leaves, p.types = []Leaf{{Physical: Int32, MaxDef: 1}}, []*node{{}}
		if got := p.stats(0, 10, rawStats{nulls: raw}).Nulls; got != want {
			t.Errorf("%d nulls of 10 values: %d, want %d", raw, got, want)
		}
	}
}

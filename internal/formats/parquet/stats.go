package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// maxBound is the longest BINARY bound that is kept.
const maxBound = 1 << 10

// rawStats are statistics as a file has them.
type rawStats struct {
	min, max       []byte  // min_value and max_value
	oldMin, oldMax []byte  // compared as signed, whatever the type
	nulls          int64   // -1: unknown
	distinct       int64   // -1: unknown
	levels         []int64 // how many values have each definition level; nil: unknown
}

// unknownStats are those of a file that has none.
func unknownStats() rawStats { return rawStats{nulls: -1, distinct: -1} }

// read reads a Statistics.
func (s *rawStats) read(r *thrift.Reader) {
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.Binary:
			s.oldMax = r.Bytes()
		case 2<<4 | thrift.Binary:
			s.oldMin = r.Bytes()
		case 3<<4 | thrift.I64:
			s.nulls = r.Int64()
		case 4<<4 | thrift.I64:
			s.distinct = r.Int64()
		case 5<<4 | thrift.Binary:
			s.max = r.Bytes()
		case 6<<4 | thrift.Binary:
			s.min = r.Bytes()
		default:
			r.Skip(f)
		}
	}
}

// stats returns what can be trusted of a chunk's statistics.
func (p *parser) stats(leaf int, values int64, raw rawStats) Stats {
	return statsOf(&p.leaves[leaf], values, raw, &p.arena)
}

// markOrders finds the leaves whose bounds cannot be trusted since nobody says how they were compared.
func (p *parser) markOrders() {
	for i := range p.leaves {
		l := &p.leaves[i]
		ordered := i < len(p.orders) && p.orders[i]
		l.unordered = !ordered && !signed(l)
		l.unbounded = l.Physical == Int96 || p.types[i].converted == convertedInterval ||
			l.Kind == pb.Kind_KIND_UNSPECIFIED
	}
}

// statsOf returns what can be trusted of statistics of so many values.
func statsOf(l *Leaf, values int64, raw rawStats, a *arena) Stats {
	if why := raw.contradiction(l, values); why != "" {
		return Stats{Nulls: -1, Contradiction: why}
	}
	s := Stats{Nulls: max(-1, raw.nulls)}
	lo, hi := raw.bounds(l)
	if l.Column < 0 || l.unbounded || l.unordered {
		return s
	}
	var room [2][8]byte
	lo, okLo := bound(room[0][:0], lo, l, false)
	hi, okHi := bound(room[1][:0], hi, l, true)
	switch {
	case !okLo || !okHi:
		return s
	case lo != nil && hi != nil && compare(l.Kind, lo, hi) > 0:
		return Stats{Nulls: -1, Contradiction: "its minimum is above its maximum"}
	}
	s.Min, s.Max = a.copy(lo), a.copy(hi)
	return s
}

// signed reports whether all writers, the oldest too, compare such values in the one obvious way.
func signed(l *Leaf) bool {
	switch l.Physical {
	case Int32, Int64:
		return !l.Logical.Unsigned
	case Boolean, Float, Double:
		return true
	}
	return false
}

// bound turns the bound v of a chunk into one of its leaf's Kind, which it may append to room; nil stays nil. It
// reports whether the chunk's bounds can be trusted at all.
func bound(room, v []byte, l *Leaf, upper bool) ([]byte, bool) {
	if v == nil {
		return nil, true
	}
	if l.Physical != ByteArray && len(v) != l.width() {
		return nil, false
	}
	le := binary.LittleEndian
	switch {
	case l.Logical.Decimal:
		return decimalBound(room, v, l, upper)
	case l.Logical.Float16:
		return floatBound(room, float64(format.Float16(le.Uint16(v))), pb.Kind_FLOAT32, upper)
	case l.Physical == Int32 && l.Logical.Unsigned:
		return le.AppendUint64(room, uint64(le.Uint32(v))), true
	case l.Physical == Int64 && l.Logical.Unsigned:
		return v, int64(le.Uint64(v)) >= 0 // else bit patterns are not in order
	case l.Physical == Float:
		return floatBound(room, float64(math.Float32frombits(le.Uint32(v))), l.Kind, upper)
	case l.Physical == Double:
		return floatBound(room, math.Float64frombits(le.Uint64(v)), l.Kind, upper)
	case upper && l.Kind == pb.Kind_BINARY && len(v) == 0:
		return nil, true // also what writers put where they leave a bound out
	case l.Kind == pb.Kind_BINARY && len(v) > maxBound:
		if upper {
			return nil, true
		}
		return v[:maxBound], true
	}
	return v, true
}

// width is the number of bytes of a value in PLAIN encoding; a Boolean's, which has one bit there, is 1.
func (l *Leaf) width() int {
	switch l.Physical {
	case Boolean:
		return 1
	case Int32, Float:
		return 4
	case FixedLenByteArray:
		return l.TypeLength
	}
	return 8
}

// floatBound writes a bound; zeros are taken for either zero.
func floatBound(room []byte, v float64, kind pb.Kind, upper bool) ([]byte, bool) {
	if v == 0 {
		v = math.Copysign(0, -1)
		if upper {
			v = 0
		}
	}
	if kind == pb.Kind_FLOAT32 {
		return binary.LittleEndian.AppendUint32(room, math.Float32bits(float32(v))), v == v
	}
	return binary.LittleEndian.AppendUint64(room, math.Float64bits(v)), v == v
}

// decimalBound writes a decimal's bound as FLOAT64, a little wider than it is, so that how values are rounded
// makes no difference.
func decimalBound(room, v []byte, l *Leaf, upper bool) ([]byte, bool) {
	var unscaled float64
	switch {
	case l.Physical == Int32:
		unscaled = float64(int32(binary.LittleEndian.Uint32(v)))
	case l.Physical == Int64:
		unscaled = float64(int64(binary.LittleEndian.Uint64(v)))
	case len(v) == 0 || len(v) > 16:
		return nil, false
	default:
		i := new(big.Int).SetBytes(v)
		if v[0]&0x80 != 0 {
			i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
		}
		unscaled, _ = new(big.Float).SetInt(i).Float64()
	}
	x := unscaled / math.Pow10(l.Logical.Scale)
	slack := math.Abs(x) * 0x1p-48
	if !upper {
		slack = -slack
	}
	return floatBound(room, x+slack, pb.Kind_FLOAT64, upper)
}

// compare orders two bounds.
func compare(k pb.Kind, a, b []byte) int {
	le := binary.LittleEndian
	switch k {
	case pb.Kind_INT32:
		return cmp.Compare(int32(le.Uint32(a)), int32(le.Uint32(b)))
	case pb.Kind_INT64:
		return cmp.Compare(int64(le.Uint64(a)), int64(le.Uint64(b)))
	case pb.Kind_FLOAT32:
		return cmp.Compare(math.Float32frombits(le.Uint32(a)), math.Float32frombits(le.Uint32(b)))
	case pb.Kind_FLOAT64:
		return cmp.Compare(math.Float64frombits(le.Uint64(a)), math.Float64frombits(le.Uint64(b)))
	}
	return bytes.Compare(a, b)
}

// arena holds many small byte strings in few allocations.
type arena struct {
	block []byte
	total int64
}

func (a *arena) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(a.block)-len(a.block) < len(b) || a.block == nil {
		size := max(4<<10, len(b))
		a.block = make([]byte, 0, size)
		a.total += int64(size)
	}
	from := len(a.block)
	a.block = append(a.block, b...)
	return a.block[from:len(a.block):len(a.block)]
}

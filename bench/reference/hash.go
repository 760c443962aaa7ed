package reference

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// Field is one output of a row, as it counts for the row's content.
type Field struct {
	Name   string
	Layout pb.Layout
	// Kind of the elements: of labels, tensors and padded ones their own, of sparse values INT64 or FLOAT32.
	Kind pb.Kind
	// Columns of the dense block, in order.
	Columns []string
	// Weighted sparse values come each with a float32 weight.
	Weighted bool
	// Shape of an image, or of a tensor's row; of a padded one its length.
	Shape []int32
	// Padded rows are filled with Value, a number or bool, on the left or the right.
	Value string
	Left  bool
}

// sortFields brings fields into the order in which a row's content is hashed.
func sortFields(fields []Field) {
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
}

// Hasher digests one row's content after another. Each row starts with Reset and then adds every output, in order of
// their names:
//
//	dense    Float32 for each column
//	sparse   Len, then for each element Int or Float32, and with weights its Float32 after it
//	label    Int (bools are 0 and 1), Float32 or Float64
//	bytes    Bytes
//	image    Bytes
//	tensor   Int, Float32 or Float64 for each value: Float32 of the shorter floats, too
//	padded   Len, then as a tensor
//
// Names, layouts and kinds of the outputs are part of each row's content too.
type Hasher struct{ seed, state uint64 }

// NewHasher returns a Hasher of rows that have the given outputs. The order of fields does not matter, except that of
// the dense columns.
func NewHasher(fields []Field) *Hasher {
	fields = slices.Clone(fields)
	sortFields(fields)
	var h Hasher
	for _, f := range fields {
		h.Bytes([]byte(f.Name))
		h.Int(int64(f.Layout))
		h.Int(int64(f.Kind))
		h.Len(len(f.Columns))
		for _, c := range f.Columns {
			h.Bytes([]byte(c))
		}
		h.Len(len(f.Shape))
		for _, d := range f.Shape {
			h.Int(int64(d))
		}
		if f.Weighted {
			h.Int(1)
		}
		if f.Layout == pb.Layout_PADDED {
			h.Bytes([]byte(f.Value))
			h.Int(boolInt(f.Left))
		}
	}
	return &Hasher{seed: h.Sum()}
}

// The round is that of XXH64 over 8-byte words.
const (
	prime1 = 0x9e3779b185ebca87
	prime2 = 0xc2b2ae3d27d4eb4f
	prime3 = 0x165667b19e3779f9
	prime4 = 0x85ebca77c2b2ae63
)

// Reset begins a row.
func (h *Hasher) Reset() { h.state = h.seed }

// Int adds an integer.
func (h *Hasher) Int(x int64) { h.word(uint64(x)) }

// Len adds the number of elements that follow.
func (h *Hasher) Len(n int) { h.word(uint64(n)) }

// Float32 adds a float's bits; all NaNs are alike.
func (h *Hasher) Float32(x float32) {
	if x != x {
		x = float32(math.NaN())
	}
	h.word(uint64(math.Float32bits(x)))
}

// Float64 adds a float's bits; all NaNs are alike.
func (h *Hasher) Float64(x float64) {
	if x != x {
		x = math.NaN()
	}
	h.word(math.Float64bits(x))
}

// Bytes adds a byte string and its length.
func (h *Hasher) Bytes(b []byte) {
	h.Len(len(b))
	for ; len(b) >= 8; b = b[8:] {
		h.word(binary.LittleEndian.Uint64(b))
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		h.word(binary.LittleEndian.Uint64(last[:]))
	}
}

// Values adds those of a cell, of a kind.
func (h *Hasher) Values(c *cell, k pb.Kind) {
	for _, n := range c.ints {
		h.Int(n)
	}
	for _, x := range c.floats {
		if k == pb.Kind_FLOAT64 {
			h.Float64(x)
		} else {
			h.Float32(float32(x))
		}
	}
}

// Sum is the hash of the row so far.
func (h *Hasher) Sum() uint64 { return avalanche(h.state) }

func (h *Hasher) word(x uint64) {
	k := bits.RotateLeft64(x*prime2, 31) * prime1
	h.state = bits.RotateLeft64(h.state^k, 27)*prime1 + prime4
}

func avalanche(x uint64) uint64 {
	x = (x ^ x>>33) * prime2
	x = (x ^ x>>29) * prime3
	return x ^ x>>32
}

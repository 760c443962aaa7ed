package lookup

import (
	"hash/maphash"
	"math/bits"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// newIndex returns an empty index for all rows of the table. What it finds are rows, or, if rowOf is not nil, what it
// has a row of.
func (b *Builder) newIndex(rowOf *[]int32) (index, error) {
	if b.keys() > 1 || b.about.GetColumns()[0].GetType().GetKind() == pb.Kind_BINARY {
		return b.newTexts(rowOf)
	}
	least, most, n := b.span()
	if n == 0 {
		return &ids{slots: []idSlot{{value: Absent}}, shift: 63}, nil
	}
	if width := uint64(most) - uint64(least); width < denseTimes*uint64(n) {
		if err := b.take(4 * int64(width+1)); err != nil {
			return nil, err
		}
		x := &dense{first: least, values: make([]int32, width+1)}
		for i := range x.values {
			x.values[i] = Absent
		}
		return x, nil
	}
	size := slotsFor(n)
	if err := b.take(int64(size) * int64(unsafe.Sizeof(idSlot{}))); err != nil {
		return nil, err
	}
	x := &ids{slots: make([]idSlot, size), shift: shiftOf(size)}
	for i := range x.slots {
		x.slots[i].value = Absent
	}
	return x, nil
}

// denseTimes is how many times as many ids as there are keys may lie between the least and the most, to be found by
// their distance alone. That takes no more memory than a hash table.
const denseTimes = 6

// slotsFor is how many slots a hash table of so many keys has: a power of two, of which two thirds are used at most.
func slotsFor(keys int64) int { return 1 << bits.Len64(uint64(keys+keys/2)) }

func shiftOf(slots int) uint { return uint(64 - bits.Len(uint(slots-1))) }

// span is the least and the most of the one key of ints, and how many there are.
func (b *Builder) span() (least, most, n int64) {
	_ = b.each(func(keys []*vector.Vector, _, at int) error {
		key := intOf(keys[0], at)
		if n == 0 {
			least, most = key, key
		}
		least, most = min(least, key), max(most, key)
		n++
		return nil
	})
	return least, most, n
}

// dense finds ids by their distance from the least.
type dense struct {
	first  int64
	values []int32
}

func (x *dense) put(keys []*vector.Vector, at int, value int32) (had int32) {
	place := &x.values[uint64(intOf(keys[0], at))-uint64(x.first)]
	if *place != Absent {
		return *place
	}
	*place = value
	return Absent
}

func (x *dense) find(dst []int32, keys []*vector.Vector) {
	if v := keys[0]; v.Type.Kind == pb.Kind_INT32 {
		findDense(dst, v.I32, x)
	} else {
		findDense(dst, v.I64, x)
	}
}

func findDense[T int32 | int64](dst []int32, keys []T, x *dense) {
	keys = keys[:len(dst)]
	for i, key := range keys {
		value := Absent
		if at := uint64(int64(key)) - uint64(x.first); at < uint64(len(x.values)) {
			value = x.values[at]
		}
		dst[i] = value
	}
}

// ids finds ids in an open hash table.
type ids struct {
	slots []idSlot
	shift uint
}

type idSlot struct {
	key   int64
	value int32 // Absent: the slot is free
}

const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio

func (x *ids) put(keys []*vector.Vector, at int, value int32) (had int32) {
	key := intOf(keys[0], at)
	for h := uint64(key) * golden >> (x.shift & 63); ; h++ {
		switch s := &x.slots[h&uint64(len(x.slots)-1)]; {
		case s.value == Absent:
			*s = idSlot{key, value}
			return Absent
		case s.key == key:
			return s.value
		}
	}
}

func (x *ids) find(dst []int32, keys []*vector.Vector) {
	if v := keys[0]; v.Type.Kind == pb.Kind_INT32 {
		findIDs(dst, v.I32, x)
	} else {
		findIDs(dst, v.I64, x)
	}
}

func findIDs[T int32 | int64](dst []int32, keys []T, x *ids) {
	keys = keys[:len(dst)]
	mask := uint64(len(x.slots) - 1)
	for i, key := range keys {
		h := uint64(int64(key)) * golden >> (x.shift & 63)
		s := &x.slots[h&mask]
		for s.key != int64(key) && s.value != Absent {
			h++
			s = &x.slots[h&mask]
		}
		dst[i] = s.value
		if s.key != int64(key) {
			dst[i] = Absent
		}
	}
}

// texts finds texts, and keys of several columns, by their hash. A slot has half of that, and a value.
type texts struct {
	seed  maphash.Seed // by process: what is found does not depend on it
	slots []textSlot
	shift uint
	keys  [][]*vector.Vector // the columns' pieces, by key
	rowOf *[]int32           // the row that has the key of a value; nil: that is the value
}

type textSlot struct {
	hash  uint32
	value int32 // Absent: the slot is free
}

func (b *Builder) newTexts(rowOf *[]int32) (index, error) {
	size := slotsFor(max(1, b.rows))
	if err := b.take(int64(size) * int64(unsafe.Sizeof(textSlot{}))); err != nil {
		return nil, err
	}
	x := &texts{
		seed: maphash.MakeSeed(), slots: make([]textSlot, size), shift: shiftOf(size), keys: b.pieces[:b.keys()],
		rowOf: rowOf,
	}
	for i := range x.slots {
		x.slots[i].value = Absent
	}
	return x, nil
}

func (x *texts) put(keys []*vector.Vector, at int, value int32) (had int32) {
	hash := x.hash(keys, at)
	s := x.slot(hash, keys, at)
	if s.value != Absent {
		return s.value
	}
	*s = textSlot{uint32(hash), value}
	return Absent
}

func (x *texts) find(dst []int32, keys []*vector.Vector) {
	for i := range dst {
		dst[i] = x.slot(x.hash(keys, i), keys, i).value
	}
}

// slot is that of a key, or the free one where it would be.
func (x *texts) slot(hash uint64, keys []*vector.Vector, at int) *textSlot {
	for h := hash >> (x.shift & 63); ; h++ {
		s := &x.slots[h&uint64(len(x.slots)-1)]
		if s.value == Absent || s.hash == uint32(hash) && x.same(keys, at, s.value) {
			return s
		}
	}
}

func (x *texts) hash(keys []*vector.Vector, at int) uint64 {
	var hash uint64
	for _, v := range keys {
		if v.Type.Kind == pb.Kind_BINARY {
			hash ^= maphash.Bytes(x.seed, textOf(v, at))
		} else {
			hash ^= uint64(intOf(v, at))
		}
		high, low := bits.Mul64(hash^golden, golden)
		hash = high ^ low
	}
	return hash
}

// same reports whether a key is the one that a value is of.
func (x *texts) same(keys []*vector.Vector, at int, value int32) bool {
	if x.rowOf != nil {
		value = (*x.rowOf)[value]
	}
	piece, place := Place(value)
	for i, v := range keys {
		have := x.keys[i][piece]
		if v.Type.Kind == pb.Kind_BINARY {
			if string(textOf(v, at)) != string(textOf(have, int(place))) {
				return false
			}
		} else if intOf(v, at) != intOf(have, int(place)) {
			return false
		}
	}
	return true
}

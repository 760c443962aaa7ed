package convert

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/spec"
)

// keyTable numbers keys of maps.
type keyTable struct {
	ints  map[int64]int32  // of uint64s, the same bits
	texts map[string]int32 // of text and bytes; nil: keys are integers
	// dense are the numbers of integers from least on, plus one, if the keys lie close enough.
	least int64
	dense []int32

	unsigned bool // keys are uint64
}

// maxDense is how many integers lie between those of a dense table.
const maxDense = 1 << 16

// newKeyTable returns a table of keys of a type, which is empty.
func newKeyTable(t arrow.DataType) *keyTable {
	if widthOf(t) > 0 && t.ID() != arrow.FIXED_SIZE_BINARY {
		return &keyTable{ints: map[int64]int32{}, unsigned: t.ID() == arrow.UINT64}
	}
	return &keyTable{texts: map[string]int32{}}
}

func (t *keyTable) len() int { return len(t.ints) + len(t.texts) }

// addText adds a key as a spec has it.
func (t *keyTable) addText(key string) {
	n := int32(t.len())
	if t.texts != nil {
		t.texts[key] = n
	} else if i, err := spec.IntKey(key); err == nil { // which spec has checked
		t.ints[i] = n
	}
}

// has reports whether a key is there, as a spec has it.
func (t *keyTable) has(key string) bool {
	if t.texts != nil {
		_, ok := t.texts[key]
		return ok
	}
	i, err := spec.IntKey(key)
	_, ok := t.ints[i]
	return err == nil && ok
}

// compare puts integers in their order.
func (t *keyTable) compare(a, b int64) int {
	if t.unsigned {
		return cmp.Compare(uint64(a), uint64(b))
	}
	return cmp.Compare(a, b)
}

// intText is a key that is an integer as a spec has it.
func intText(key int64, unsigned bool) string {
	if unsigned {
		return strconv.FormatUint(uint64(key), 10)
	}
	return strconv.FormatInt(key, 10)
}

// close says that all keys are there.
func (t *keyTable) close() {
	if len(t.ints) == 0 {
		return
	}
	var most int64
	first := true
	for i := range t.ints {
		if first {
			t.least, most, first = i, i, false
		}
		t.least, most = min(t.least, i), max(most, i)
	}
	if uint64(most-t.least) >= maxDense {
		return
	}
	t.dense = make([]int32, most-t.least+1)
	for i, n := range t.ints {
		t.dense[i-t.least] = n + 1
	}
}

// find writes the numbers of keys from a row on; -1 stands for those that are not in the table, and nulls.
func (t *keyTable) find(keys arrow.Array, from int, numbers []int32) {
	if t.texts != nil {
		for i := range numbers {
			numbers[i] = -1
			if keys.IsNull(from + i) {
				continue
			}
			if n, ok := t.texts[string(bytesOf(keys, from+i))]; ok {
				numbers[i] = n
			}
		}
		return
	}
	ints := intsOf(keys, from, len(numbers))
	for i, key := range ints {
		numbers[i] = -1
		if at := uint64(key - t.least); t.dense != nil && at < uint64(len(t.dense)) {
			numbers[i] = t.dense[at] - 1
		} else if t.dense == nil {
			if n, ok := t.ints[key]; ok {
				numbers[i] = n
			}
		}
	}
	for i := range numbers {
		if keys.NullN() > 0 && keys.IsNull(from+i) {
			numbers[i] = -1
		}
	}
}

// bytesOf is a text, or bytes.
func bytesOf(a arrow.Array, i int) []byte {
	if a, ok := a.(*array.FixedSizeBinary); ok {
		return a.Value(i)
	}
	return textOf(a.(array.BinaryLike), i)
}

// intsOf are n integers from a row on, whatever their width.
func intsOf(a arrow.Array, from, n int) []int64 {
	width := widthOf(a.DataType())
	raw := fixed(a, width, from, n)
	out := make([]int64, n)
	unsigned := slices.Contains([]arrow.Type{arrow.UINT8, arrow.UINT16, arrow.UINT32}, a.DataType().ID())
	for i := range out {
		out[i] = intOf(raw[i*width:], width, unsigned)
	}
	return out
}

func intOf(raw []byte, width int, unsigned bool) int64 {
	var bits uint64
	switch width {
	case 1:
		bits = uint64(raw[0])
	case 2:
		bits = uint64(binary.LittleEndian.Uint16(raw))
	case 4:
		bits = uint64(binary.LittleEndian.Uint32(raw))
	default:
		return int64(binary.LittleEndian.Uint64(raw))
	}
	if unsigned {
		return int64(bits)
	}
	shift := 64 - 8*width
	return int64(bits<<shift) >> shift
}

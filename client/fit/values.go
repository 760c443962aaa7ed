package fit

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Values are values of a column, in the one slice of its kind: of a list column its elements.
type Values struct {
	Bools    []bool
	Int32s   []int32
	Int64s   []int64
	Float32s []float32
	Float64s []float64
	// Texts: value i is Data[Offsets[i]:Offsets[i+1]].
	Data    []byte
	Offsets []int32
	// Packed: each of the texts is a list of texts, as spec.PackText makes it.
	Packed bool
	// Valid says which values are not null, as Arrow does: bit ValidFrom+i is set. nil: all.
	Valid     []byte
	ValidFrom int
	// Nulls is how many more nulls there are, which have no place among the values.
	Nulls int
}

func (v *Values) null(i int) bool {
	i += v.ValidFrom
	return v.Valid != nil && v.Valid[i>>3]>>(i&7)&1 == 0
}

// carries is the kind of the values that are there, and how many.
func (v *Values) carries() (kind pb.Kind, n int) {
	switch {
	case v.Bools != nil:
		return pb.Kind_BOOL, len(v.Bools)
	case v.Int32s != nil:
		return pb.Kind_INT32, len(v.Int32s)
	case v.Int64s != nil:
		return pb.Kind_INT64, len(v.Int64s)
	case v.Float32s != nil:
		return pb.Kind_FLOAT32, len(v.Float32s)
	case v.Float64s != nil:
		return pb.Kind_FLOAT64, len(v.Float64s)
	case len(v.Offsets) > 0:
		return pb.Kind_BINARY, len(v.Offsets) - 1
	}
	return pb.Kind_KIND_UNSPECIFIED, 0
}

// tally counts what needs no set.
type tally struct {
	Values   uint64 `json:"values"`
	Nulls    uint64 `json:"nulls"`
	Negative uint64 `json:"negative,omitempty"` // of sets in the order of uint64s
	NaNs     uint64 `json:"nans"`
	Infinite uint64 `json:"infinite"`
	// Keys of the least and of the greatest value, if there are any.
	Min uint64 `json:"min,string"`
	Max uint64 `json:"max,string"`
}

func (t *tally) saw(key uint64) {
	if t.Values == 0 {
		t.Min, t.Max = key, key
	}
	t.Values++
	t.Min, t.Max = min(t.Min, key), max(t.Max, key)
}

// add counts values. All of it is exact, or a sum of counts.
func (c *column) add(v *Values) error {
	c.tally.Nulls += uint64(v.Nulls)
	kind, n := v.carries()
	if n == 0 {
		return nil
	}
	if kind == pb.Kind_INT64 && c.Kind == pb.Kind_INT32 {
		kind = pb.Kind_INT32 // as batches have them
	}
	if kind != c.Kind {
		return fmt.Errorf("column %s: values of kind %s came, and %s was declared", c.Name, spec.KindName(kind),
			spec.KindName(c.Kind))
	}
	if v.Valid != nil && (v.ValidFrom < 0 || len(v.Valid)*8-v.ValidFrom < n) {
		return fmt.Errorf("column %s: %d values came with a bitmap of %d bytes", c.Name, n, len(v.Valid))
	}
	switch {
	case v.Bools != nil:
		return c.addBools(v)
	case v.Int32s != nil:
		return addInts(c, v.Int32s, v)
	case v.Int64s != nil:
		return addInts(c, v.Int64s, v)
	case v.Float32s != nil:
		return addFloats(c, v.Float32s, v)
	case v.Float64s != nil:
		return addFloats(c, v.Float64s, v)
	}
	if v.Packed {
		return c.addPacked(v)
	}
	return c.addTexts(v)
}

func (c *column) addBools(v *Values) error {
	ints := make([]int32, len(v.Bools))
	for i, b := range v.Bools {
		if b {
			ints[i] = 1
		}
	}
	return addInts(c, ints, v)
}

func addInts[T int32 | int64](c *column, values []T, v *Values) error {
	for i, x := range values {
		if v.null(i) {
			c.tally.Nulls++
			continue
		}
		if c.exact != nil {
			c.exact.addInt(int64(x))
		}
		if err := c.saw(intKey(int64(x))); err != nil {
			return err
		}
	}
	return c.flush()
}

func addFloats[T float32 | float64](c *column, values []T, v *Values) error {
	for i, y := range values {
		x := float64(y)
		switch {
		case v.null(i):
			c.tally.Nulls++
			continue
		case x != x:
			c.tally.NaNs++
			continue
		case math.IsInf(x, 0):
			c.tally.Infinite++
		case c.exact != nil:
			c.exact.addFloat(x)
		}
		if err := c.saw(floatKey(x)); err != nil {
			return err
		}
	}
	return c.flush()
}

// saw takes the key of a value.
func (c *column) saw(key uint64) error {
	c.tally.saw(key)
	if c.set == nil {
		return nil
	}
	if c.flip != 0 && key < signBit {
		c.tally.Negative++
	}
	if c.keys = append(c.keys, key^c.flip); len(c.keys) < cap(c.keys) {
		return nil
	}
	return c.flush()
}

func (c *column) flush() error {
	if c.set == nil || len(c.keys) == 0 {
		return nil
	}
	err := c.set.addKeys(c.keys)
	c.keys = c.keys[:0]
	return err
}

func (c *column) addTexts(v *Values) error {
	for i, to := range v.Offsets[1:] {
		if v.null(i) {
			c.tally.Nulls++
		} else {
			c.tally.Values++
		}
		if err := c.checkOffsets(v, i); err != nil {
			return err
		}
		if err := c.checkText(int(to - v.Offsets[i])); err != nil {
			return err
		}
	}
	if c.set == nil {
		return nil
	}
	return c.set.addTexts(v.Data, v.Offsets, v.null)
}

func (c *column) checkOffsets(v *Values, i int) error {
	if from, to := v.Offsets[i], v.Offsets[i+1]; from < 0 || to < from || int(to) > len(v.Data) {
		return fmt.Errorf("column %s: text %d came with the offsets %d to %d in %d bytes", c.Name, i, from, to,
			len(v.Data))
	}
	return nil
}

func (c *column) checkText(size int) error {
	if size > maxText {
		return fmt.Errorf("column %s: a text has %d bytes, and at most %d are counted: shorten it first, or hash it",
			c.Name, size, maxText)
	}
	return nil
}

// Texts are counted once so many of them, or bytes, were unpacked.
const (
	unpackedTexts = 4096
	unpackedBytes = 1 << 20
)

// addPacked counts the elements of lists of texts.
func (c *column) addPacked(v *Values) error {
	texts := Values{Offsets: make([]int32, 1, unpackedTexts+1)}
	count := func() error {
		err := c.addTexts(&texts)
		texts.Data, texts.Offsets = texts.Data[:0], texts.Offsets[:1]
		return err
	}
	for i, to := range v.Offsets[1:] {
		if err := c.checkOffsets(v, i); err != nil {
			return err
		}
		if v.null(i) {
			continue
		}
		for row := v.Data[v.Offsets[i]:to]; len(row) > 0; {
			text, rest, err := spec.UnpackText(row)
			if err != nil {
				return fmt.Errorf("column %s: row %d of a batch: %w: run workers of this release", c.Name, i, err)
			}
			if err := c.checkText(len(text)); err != nil {
				return err
			}
			row = rest
			texts.Data = append(texts.Data, text...)
			texts.Offsets = append(texts.Offsets, int32(len(texts.Data)))
			if len(texts.Offsets) > unpackedTexts || len(texts.Data) >= unpackedBytes {
				if err := count(); err != nil {
					return err
				}
			}
		}
	}
	return count()
}

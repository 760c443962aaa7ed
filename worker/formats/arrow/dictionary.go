package arrow

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// dictionaryKey tells the dictionaries of a file apart, each by the kind of its values.
type dictionaryKey struct {
	id   int64
	kind pb.Kind
}

// dictionary holds values that columns have codes of. It is decoded once a file.
type dictionary struct {
	array *arrow.Array
	kind  pb.Kind
	out   vector.Vector
	read  bool
}

// readDictionaries decodes those of a file's dictionaries that were not before. The chunks are all that they consist
// of.
func (d *Decoder) readDictionaries(chunks []decode.Source) error {
	for _, id := range d.bound.Dictionaries() {
		parts := d.bound.Parts(id)
		first := chunks
		for _, p := range parts {
			chunks = chunks[len(p.Buffers):]
		}
		for key, dict := range d.dictionaries {
			if key.id != id || dict.read {
				continue
			}
			if err := d.readDictionary(dict, parts, first); err != nil {
				return fmt.Errorf("dictionary %d: %w", id, err)
			}
		}
	}
	return nil
}

// readDictionary decodes the parts of a dictionary, one behind the other.
func (d *Decoder) readDictionary(dict *dictionary, parts []*arrow.Batch, chunks []decode.Source) error {
	rows := int64(0)
	for _, p := range parts {
		rows += p.Rows
	}
	if rows > math.MaxInt32 {
		return fmt.Errorf("it has %d values; at most %d can be read", rows, math.MaxInt32)
	}
	own := make([]*buffer, dict.array.Own())
	for i := range own {
		own[i] = &buffer{memory: &d.memory, codecs: &d.codecs}
	}
	v, err := d.newValues(dict.array, dict.kind, own)
	if err != nil {
		return err
	}
	if err := v.reserve(int(rows)); err != nil {
		return err
	}
	valid := make([]uint64, vector.Words(int(rows)))
	setBits(valid, int(rows))
	at := 0
	for _, p := range parts {
		for i, b := range own {
			b.reset(chunks[i], p.Buffers[i].Length, p.Codec)
		}
		chunks = chunks[len(p.Buffers):]
		n := int(p.Rows)
		if err := v.read(at, []run{{0, n}}); err != nil {
			return err
		}
		if len(own) > 0 && own[0].length > 0 {
			bits, _, err := own[0].bits([]run{{0, n}})
			if err != nil {
				return err
			}
			andBits(valid, at, bits, 0, n)
		}
		at += n
	}
	dict.out.Rows, dict.out.Type.Kind = at, dict.kind
	if !allSet(valid, at) {
		dict.out.Valid = valid
	}
	if err := v.show(&dict.out, at); err != nil {
		return err
	}
	for _, b := range own { // what they were decompressed into is not looked at again
		d.memory.Give(int64(cap(b.data)))
		b.data = nil
	}
	dict.read = true
	return nil
}

// coded is an array of codes of a dictionary.
type coded struct {
	memory *decode.Allowance
	codes  *numbers[int64]
	dict   *dictionary

	at    []int32 // of the dictionary's values; -1 for null
	valid []uint64
	out   vector.Vector
}

func (d *Decoder) newCoded(a *arrow.Array, kind pb.Kind, codes *buffer) (values, error) {
	index := int64s(a.Index)
	if index.convert == nil {
		return nil, fmt.Errorf("codes of type %s cannot be read", a.Index)
	}
	key := dictionaryKey{a.ID, kind}
	if d.dictionaries[key] == nil {
		d.dictionaries[key] = &dictionary{array: &arrow.Array{Type: a.Type, Kind: a.Kind}, kind: kind}
	}
	numbers := &numbers[int64]{conversion: index, memory: &d.memory, bytes: codes}
	c := &coded{memory: &d.memory, codes: numbers, dict: d.dictionaries[key]}
	c.out.Type.Kind = kind
	return c, nil
}

func (c *coded) reserve(n int) (err error) {
	if err := c.codes.reserve(n); err != nil {
		return err
	}
	c.at, err = decode.Grow(c.memory, c.at[:0], n)
	return err
}

func (c *coded) read(at int, runs []run) error { return c.codes.read(at, runs) }

// show looks the codes up. Those of nulls mean nothing, and values of the dictionary may be null.
func (c *coded) show(v *vector.Vector, n int) error {
	dict := &c.dict.out
	c.valid = vector.Grow(c.valid, vector.Words(n))
	setBits(c.valid, n)
	for i, code := range c.codes.out[:n] {
		switch {
		case v.ElemIsNull(i):
			c.at[i] = -1
		case code < 0 || code >= int64(dict.Rows):
			return fmt.Errorf("value %d has code %d of a dictionary of %d: the file is damaged", i, code, dict.Rows)
		case dict.IsNull(int(code)):
			c.at[i] = -1
		default:
			c.at[i] = int32(code)
			continue
		}
		c.valid[i>>6] &^= 1 << (i & 63)
	}
	if dict.Valid != nil {
		if v.Type.List {
			v.ElemValid = c.valid
		} else {
			v.Valid = c.valid
		}
	}
	if err := decode.Gather(c.memory, &c.out, dict, c.at[:n]); err != nil {
		return err
	}
	o := &c.out
	v.Bool, v.I32, v.I64, v.F32, v.F64, v.Data, v.Ends = o.Bool, o.I32, o.I64, o.F32, o.F64, o.Data, o.Ends
	v.Small = o.Small
	return nil
}

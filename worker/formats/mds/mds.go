// Package mds finds the values in samples of Mosaic's MDS, as internal/formats/mds describes them. A parser belongs to
// one goroutine.
package mds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/mds"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/worker/formats/jsonl"
	decoder "github.com/penstock-ml/penstock/worker/formats/records"
)

type parser struct {
	shard   *mds.Shard
	wanted  [][]int           // by field, the sources that it is
	json    []*jsonl.Document // by field, what reads its fields; nil: nothing does
	columns []*decoder.Column
}

// NewParser returns the parser of a shard's samples.
func NewParser(f *records.File, sources []*pb.Source) (decoder.Parser, error) {
	shard, ok := f.Opened.(*mds.Shard)
	if !ok {
		return nil, errors.New("it is no shard of MDS")
	}
	p := &parser{
		shard: shard, wanted: make([][]int, len(shard.Fields)), json: make([]*jsonl.Document, len(shard.Fields)),
	}
	for field := range shard.Fields {
		for i, s := range sources {
			if len(s.GetPath()) == 1 && s.GetPath()[0] == shard.Fields[field].Name {
				p.wanted[field] = append(p.wanted[field], i)
			}
		}
	}
	for i, s := range sources {
		field, path := shard.Document(spec.ColumnName(s.GetPath(), s.GetField()))
		if field < 0 {
			continue
		}
		if p.json[field] == nil {
			p.json[field] = jsonl.NewDocument(shard.Fields[field].Name)
		}
		if err := p.json[field].Add(path, i, pb.Kind_KIND_UNSPECIFIED); err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
	}
	return p, nil
}

// Parse sets what a sample has.
func (p *parser) Parse(sample []byte, columns []*decoder.Column) error {
	p.columns = columns
	return p.shard.Values(sample, p.take)
}

func (p *parser) take(field int, value []byte) error {
	for _, i := range p.wanted[field] {
		if c := p.columns[i]; c != nil {
			if err := set(c, &p.shard.Fields[field], value); err != nil {
				return err
			}
		}
	}
	if p.json[field] != nil {
		return p.json[field].Set(value, p.columns)
	}
	return nil
}

// errText is about what is to be UTF-8.
var errText = errors.New("it is no UTF-8")

func set(to *decoder.Column, c *mds.Column, value []byte) error {
	switch c.Class {
	case mds.Bytes:
		return to.Bytes(value)
	case mds.Text, mds.JSON:
		if !utf8.Valid(value) {
			return errText
		}
		return to.Bytes(value)
	case mds.Number:
		return to.From(c.Kind, value)
	case mds.Digits, mds.Float:
		return to.Number(value)
	case mds.Array:
		return array(to, c, value)
	case mds.Many:
		if len(value) < 4 {
			return errMany
		}
		return many(to, value[4:])
	case mds.Photos:
		return many(to, value)
	}
	return fmt.Errorf("its encoding %s cannot be read", c.Encoding)
}

// array sets an array as lists, one for each of its dimensions.
func array(to *decoder.Column, c *mds.Column, value []byte) error {
	a, err := c.ArrayOf(value)
	switch {
	case err != nil:
		return err
	case a.Kind != c.Kind || a.Unsigned != c.Unsigned:
		return fmt.Errorf("its array is of %s, and that of the file's first sample of %s", spec.KindName(a.Kind),
			spec.KindName(c.Kind))
	case len(a.Shape) != int(to.Type.Nested)+1:
		return fmt.Errorf("its array has %d dimensions, and that of the file's first sample %d", len(a.Shape),
			to.Type.Nested+1)
	}
	_, err = lists(to, &a, a.Shape, a.Values)
	return err
}

// lists sets a list of lists of the shape, and returns the values behind it.
func lists(to *decoder.Column, a *mds.NDArray, shape []int32, values []byte) (rest []byte, err error) {
	if err := to.Open(); err != nil {
		return nil, err
	}
	defer to.Close()
	if len(shape) > 1 {
		for range shape[0] {
			if values, err = lists(to, a, shape[1:], values); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
	n := int(shape[0]) * spec.Width(a.Kind)
	return values[n:], to.From(a.Kind, values[:n])
}

var errMany = errors.New("its list is cut short")

// many sets a list of byte strings: their number, their sizes, and they.
func many(to *decoder.Column, value []byte) error {
	le := binary.LittleEndian
	if len(value) < 4 {
		return errMany
	}
	n := int64(le.Uint32(value))
	if value = value[4:]; 4*n > int64(len(value)) {
		return errMany
	}
	sizes, data := value[:4*n], value[4*n:]
	if err := to.Open(); err != nil {
		return err
	}
	defer to.Close()
	for ; len(sizes) > 0; sizes = sizes[4:] {
		size := int64(le.Uint32(sizes))
		if size > int64(len(data)) {
			return errMany
		}
		if err := to.Bytes(data[:size]); err != nil {
			return err
		}
		data = data[size:]
	}
	if len(data) > 0 {
		return errMany
	}
	return nil
}

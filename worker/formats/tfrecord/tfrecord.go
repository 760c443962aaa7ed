// Package tfrecord reads the values of Examples, whose bytes internal/formats/tfrecord knows, into the columns of a
// window. A Parser belongs to one goroutine.
package tfrecord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	files "github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/tfrecord"
	"github.com/penstock-ml/penstock/worker/formats/records"
)

// Parser finds the values of one file's records.
type Parser struct {
	byName map[string]int // of features
	reads  []feature
}

// feature is one that is read.
type feature struct {
	name    string
	sources []int
	count   int // of its values, if that is declared
	data    []byte
	found   bool // the record has it: data
}

// NewParser returns the parser of a file's records for sources.
func NewParser(f *files.File, sources []*pb.Source) (records.Parser, error) {
	of, ok := f.Opened.(*tfrecord.Opened)
	if !ok {
		return nil, errors.New("it is no file of TFRecord")
	}
	p := &Parser{byName: map[string]int{}}
	for i, s := range sources {
		how, err := of.Find(s)
		if err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		if how != format.Plain {
			continue
		}
		name := s.GetPath()[0]
		at, known := p.byName[name]
		if !known {
			at = len(p.reads)
			p.byName[name] = at
			p.reads = append(p.reads, feature{name: name, count: of.Shape(s)})
		}
		p.reads[at].sources = append(p.reads[at].sources, i)
	}
	return p, nil
}

// Parse sets what a record has of the columns.
func (p *Parser) Parse(record []byte, columns []*records.Column) error {
	example, err := tfrecord.Payload(record)
	if err != nil {
		return err
	}
	for i := range p.reads {
		p.reads[i].found = false
	}
	features := tfrecord.NewFeatures(example)
	for {
		name, data, ok, err := features.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if i, ok := p.byName[string(name)]; ok { // the last one of a name counts
			p.reads[i].data, p.reads[i].found = data, true
		}
	}
	for i := range p.reads {
		f := &p.reads[i]
		if !f.found {
			continue
		}
		for _, s := range f.sources {
			if err := f.set(columns[s]); err != nil {
				return fmt.Errorf("feature %s%s: %w", f.name, place(record, f.data), err)
			}
		}
	}
	return nil
}

// place says where a part of a record is; nothing if it came in several, and was put together elsewhere.
func place(record, part []byte) string {
	at := cap(record) - cap(part)
	if at < 0 || at >= len(record) || len(part) == 0 || &record[at] != &part[0] {
		return ""
	}
	return fmt.Sprintf(", at byte %d of the record", at)
}

var errDamaged = errors.New("its protobuf is damaged")

// set sets a column's value. A feature without a kind is as good as none.
func (f *feature) set(c *records.Column) error {
	list, err := tfrecord.ListOf(f.data)
	if err != nil || list.Kind == pb.Kind_KIND_UNSPECIFIED {
		return err
	}
	if !takes(c.Type.Kind, list.Kind) || c.Type.Nested > 0 {
		return fmt.Errorf("a list of %s, where %s is wanted", spec.KindName(list.Kind), c.Type)
	}
	if c.Type.List {
		if err := c.Open(); err != nil {
			return err
		}
	}
	n, err := f.values(c, list)
	switch {
	case err != nil:
		return err
	case !c.Type.List && n != 1:
		return fmt.Errorf("%d values, where one is wanted: declare dataset.format.columns.%s: list<%s>", n, f.name,
			spec.KindName(list.Kind))
	case f.count > 0 && n != f.count:
		return fmt.Errorf("%d values, where %d are declared", n, f.count)
	}
	if c.Type.List {
		c.Close()
	}
	return nil
}

// takes reports whether values of a list's kind may be those of a column.
func takes(column, list pb.Kind) bool {
	switch list {
	case pb.Kind_INT64:
		return column == pb.Kind_INT64 || column == pb.Kind_INT32 || spec.Small(column) &&
			column != pb.Kind_FLOAT16 && column != pb.Kind_BFLOAT16
	case pb.Kind_FLOAT32:
		return column == pb.Kind_FLOAT32 || column == pb.Kind_FLOAT64
	}
	return column == list
}

// values sets those of a list, and counts them; of one that is a scalar more than the first are counted alone.
func (f *feature) values(c *records.Column, list tfrecord.List) (n int, err error) {
	if !c.Type.List {
		if n, err = list.Count(); err != nil || n != 1 {
			return n, err
		}
		n = 0
	}
	for {
		p, ok, err := list.Next()
		if err != nil || !ok {
			return n, err
		}
		more := 1
		switch list.Kind {
		case pb.Kind_BINARY:
			err = c.Bytes(p.Bytes)
		case pb.Kind_FLOAT32:
			more, err = len(p.Bytes)/4, floats(c, p.Bytes)
		default:
			more, err = ints(c, p.Ints)
		}
		if n += more; err != nil {
			return n, err
		}
	}
}

// floats sets numbers that lie together.
func floats(c *records.Column, data []byte) error {
	if c.Type.Kind == pb.Kind_FLOAT32 {
		return c.Raw(data)
	}
	for ; len(data) > 0; data = data[4:] {
		if err := c.Float(float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))); err != nil {
			return err
		}
	}
	return nil
}

func ints(c *records.Column, data []byte) (n int, err error) {
	for ; len(data) > 0; n++ {
		x, rest, ok := tfrecord.CutInt(data)
		if !ok {
			return n, errDamaged
		}
		if err := c.Int(x); err != nil {
			return n, err
		}
		data = rest
	}
	return n, nil
}

// Package tar finds the parts of samples of tars: the worker's half of internal/formats/tar, which cuts tars into
// samples. A Parser belongs to one goroutine.
package tar

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/literal"
	"github.com/penstock-ml/penstock/internal/formats/npy"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/tar"
	"github.com/penstock-ml/penstock/worker/formats/jsonl"
	decoders "github.com/penstock-ml/penstock/worker/formats/records"
)

// Parser finds the values of samples.
type Parser struct {
	keys  []int // sources that are the samples' keys
	parts map[string]*part
	names [][]byte // of a sample's parts
}

// part is one that sources read.
type part struct {
	bytes, text, numbers, truths []int // sources, by how they read it
	arrays                       []array
	document                     *jsonl.Document // nil: none reads it as JSON
	never                        bool            // what reads it takes lists, which it does not have
}

// array is a source that reads arrays.
type array struct {
	source  int
	meaning string
	shape   []int32 // of all of them, as the file's front shows it; nil: they have several
}

// New returns the parser of a file's samples.
func New(f *records.File, sources []*pb.Source) (decoders.Parser, error) {
	file, ok := f.Opened.(*tar.File)
	if !ok {
		return nil, errors.New("it is no tar")
	}
	p := &Parser{parts: map[string]*part{}}
	for i, s := range sources {
		if err := p.add(file, i, s); err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
	}
	return p, nil
}

// add plans how a source is read.
func (p *Parser) add(file *tar.File, i int, s *pb.Source) error {
	column := spec.ColumnName(s.GetPath(), s.GetField())
	t := spec.TypeFromProto(s.GetType())
	if column == tar.Key {
		p.keys = append(p.keys, i)
		return nil
	}
	name, fields := tar.PartOf(column)
	to := p.parts[name]
	if to == nil {
		to = &part{}
		p.parts[name] = to
	}
	asItStands := len(fields) == 0 && !t.List
	switch {
	case asItStands && t.Kind == pb.Kind_BINARY && file.IsText(column):
		to.text = append(to.text, i)
	case asItStands && t.Kind == pb.Kind_BINARY:
		to.bytes = append(to.bytes, i)
	case tar.IsJSON(name):
		if to.document == nil {
			to.document = jsonl.NewDocument(name)
		}
		return to.document.Add(fields, i, file.Own(column))
	case tar.IsNpy(name):
		to.arrays = append(to.arrays, array{i, s.GetMeaning(), file.Shape(column)})
	case asItStands && t.Kind == pb.Kind_BOOL:
		to.truths = append(to.truths, i)
	case asItStands:
		to.numbers = append(to.numbers, i)
	default:
		to.never = true
	}
	return nil
}

// Parse sets what a sample has.
func (p *Parser) Parse(sample []byte, columns []*decoders.Column) error {
	p.names = p.names[:0]
	for w := tar.NewWalk(sample); w.At < len(sample); {
		m, err := w.Next()
		if err != nil {
			return err
		}
		if m.Key == nil {
			continue
		}
		if len(p.names) == 0 {
			if err := p.key(m.Key, columns); err != nil {
				return err
			}
		}
		if err := p.member(m, sample[m.From:m.To], columns); err != nil {
			return fmt.Errorf("member %s, %d bytes behind that: %w", tar.Shown(m.Name), m.From, err)
		}
	}
	return nil
}

var (
	errKey   = errors.New("its name is no UTF-8: write the tar again, with names that are")
	errList  = errors.New("a list is wanted of it, which is read of parts whose names end in npy or json")
	errText  = errors.New("it is no UTF-8: declare it as binary in dataset.format.columns")
	errTwice = errors.New("the sample has two parts of this name: give them other names, or write two samples")
)

func (p *Parser) key(key []byte, columns []*decoders.Column) error {
	for _, i := range p.keys {
		if !utf8.Valid(key) {
			return fmt.Errorf("member %s: %w", tar.Shown(key), errKey)
		}
		if err := columns[i].Bytes(key); err != nil {
			return err
		}
	}
	return nil
}

func (p *Parser) member(m tar.Member, data []byte, columns []*decoders.Column) error {
	name := tar.Lower(m.Part)
	for _, other := range p.names {
		if bytes.Equal(name, other) {
			return errTwice
		}
	}
	p.names = append(p.names, name)
	of := p.parts[string(name)]
	if of == nil {
		return nil
	}
	return of.set(data, columns)
}

// set has the sources take a part.
func (p *part) set(data []byte, columns []*decoders.Column) error {
	for _, i := range p.bytes {
		if err := columns[i].Bytes(data); err != nil {
			return err
		}
	}
	for _, i := range p.text {
		if !utf8.Valid(data) {
			return errText
		}
		if err := columns[i].Bytes(data); err != nil {
			return err
		}
	}
	if p.never {
		return errList
	}
	if err := p.scalars(bytes.TrimSpace(data), columns); err != nil {
		return err
	}
	if len(p.arrays) > 0 {
		a, err := npy.Parse(data)
		if err != nil {
			return fmt.Errorf("%w; dataset.format.columns may declare it as binary", err)
		}
		for _, to := range p.arrays {
			if err := to.set(a, columns[to.source]); err != nil {
				return err
			}
		}
	}
	if p.document != nil {
		return p.document.Set(data, columns)
	}
	return nil
}

// scalars sets what is written as one number, or as true or false.
func (p *part) scalars(text []byte, columns []*decoders.Column) error {
	for _, i := range p.numbers {
		if err := columns[i].Number(text); err != nil {
			as := "string"
			if _, is := literal.ParseFloat(text, 64); is {
				as = "float64"
			}
			return fmt.Errorf("%w: declare what it is in dataset.format.columns, such as %s", err, as)
		}
	}
	for _, i := range p.truths {
		is := string(text) == "true" || string(text) == "1"
		if !is && string(text) != "false" && string(text) != "0" {
			return fmt.Errorf("%s where true, false, 1 or 0 is wanted: declare what it is in dataset.format.columns",
				tar.Shown(text))
		}
		if err := columns[i].Bool(is); err != nil {
			return err
		}
	}
	return nil
}

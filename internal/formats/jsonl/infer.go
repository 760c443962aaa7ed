package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

const (
	// inferBytes is about how much of a file is looked at for its columns.
	inferBytes = 512 << 10
	// maxPlaces bounds the names of objects, and the lists, that are told apart.
	maxPlaces = 10_000
	// maxLevels bounds how deep these lie.
	maxLevels = 32
)

// infer finds the columns of the records in a front. Those that are wrong are left to whoever reads them, unless there
// are no others.
func infer(f *records.Front) ([]spec.Column, error) {
	data := bytes.TrimPrefix(f.Data, mark())
	whole := f.Whole && len(data) <= inferBytes
	data = data[:min(len(data), inferBytes)]
	all := &observer{}
	root := &place{}
	var first error
	good := false
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		data = rest
		s := &Scanner{Data: line}
		if s.Peek() == 0 && s.At == len(line) {
			continue
		}
		err := (&observer{}).record(&Scanner{Data: line}, &place{})
		switch {
		case err == nil, !ended && !whole && atEnd(line, err): // there is more of the record behind the front
			good = true
			_ = all.record(s, root)
		case first == nil:
			if first = refused(line, err); !good && errors.Is(first, errArray) {
				return nil, errArray // the lines behind it may be records, but for what stands between them
			}
		}
	}
	if !good && first != nil {
		return nil, first
	}
	w := &writer{}
	for _, name := range root.names {
		w.value([]string{name}, root.fields[name])
	}
	return w.columns, nil
}

// refused says what is wrong with a file that has no record.
func refused(line []byte, err error) error {
	switch c := (&Scanner{Data: line}).Peek(); {
	case c == '[':
		return errArray
	case c == '{' && atEnd(line, err):
		return errDocument
	}
	return fmt.Errorf("its first record: %w", err)
}

// atEnd reports whether an error is that a record is not whole.
func atEnd(line []byte, err error) bool {
	at, ok := errors.AsType[*Error](err)
	return ok && at.At >= len(bytes.TrimRight(line, " \t\r"))
}

// place is what values were seen at a path.
type place struct {
	bools, ints, floats, texts bool
	beyond                     bool // integers that int64 does not have
	elements                   *place
	fields                     map[string]*place
	names                      []string // of fields, as they came up
	objects                    bool
}

// observer looks at records.
type observer struct {
	places int
	whole  bool // what is looked at does not end within a value
}

// record looks at a record.
func (o *observer) record(s *Scanner, root *place) error {
	if s.Peek() != '{' {
		return s.Unexpected("an object")
	}
	if err := o.object(s, root, 0); err != nil {
		return err
	}
	if s.Peek() != 0 || s.At < len(s.Data) {
		return s.Unexpected("the end of the line")
	}
	return nil
}

func (o *observer) value(s *Scanner, p *place, level int) error {
	switch c := s.Peek(); {
	case c == '{' && level < maxLevels:
		p.objects = true
		return o.object(s, p, level+1)
	case c == '[' && level < maxLevels:
		return o.list(s, p, level+1)
	case c == '"':
		_, err := s.Text()
		p.texts = p.texts || err == nil
		return err
	case c == 't' || c == 'f':
		err := s.Skip()
		p.bools = p.bools || err == nil
		return err
	case c == '-' || c >= '0' && c <= '9' || c == 'N' || c == 'I':
		return o.number(s, p)
	}
	return s.Skip()
}

func (o *observer) number(s *Scanner, p *place) error {
	n, err := s.Number()
	if err != nil || s.At == len(s.Data) && !o.whole { // more of it may be behind the front
		return err
	}
	if !n.Whole {
		p.floats = true
		return nil
	}
	p.ints = true
	if _, err := n.Int(); err != nil {
		p.beyond = true
	}
	return nil
}

// new is one more place; nil: there are too many.
func (o *observer) new() *place {
	if o.places == maxPlaces {
		return nil
	}
	o.places++
	return &place{}
}

func (o *observer) list(s *Scanner, p *place, level int) error {
	if p.elements == nil {
		if p.elements = o.new(); p.elements == nil {
			return s.Skip()
		}
	}
	return s.All('[', ']', func() error { return o.value(s, p.elements, level) })
}

func (o *observer) object(s *Scanner, p *place, level int) error {
	return s.All('{', '}', func() error {
		if s.Peek() != '"' {
			return s.Unexpected("a name")
		}
		name, err := s.Text()
		if err != nil {
			return err
		}
		field := p.fields[string(name)]
		if field == nil {
			if field = o.new(); field == nil {
				field = &place{}
			} else {
				p.add(string(name), field)
			}
		}
		if err := s.Pass(':'); err != nil {
			return err
		}
		return o.value(s, field, level)
	})
}

func (p *place) add(name string, field *place) {
	if p.fields == nil {
		p.fields = map[string]*place{}
	}
	p.fields[name] = field
	p.names = append(p.names, name)
}

// writer makes columns of places.
type writer struct{ columns []spec.Column }

// kinds are the kinds of values at a place, but for null.
func (p *place) kinds() (kinds []string) {
	for _, k := range []struct {
		has  bool
		name string
	}{
		{p.bools, "bool"},
		{p.ints || p.floats, "numbers"},
		{p.texts, "text"},
		{p.elements != nil, "lists"},
		{p.objects, "objects"},
	} {
		if k.has {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

// value adds what is at a path that is in no list.
func (w *writer) value(path []string, p *place) {
	if p.single() == "objects" {
		for _, name := range p.names {
			w.value(append(slices.Clip(path), name), p.fields[name])
		}
		return
	}
	levels := 0
	for p.single() == "lists" {
		p = p.elements
		levels++
	}
	if p.single() == "objects" && levels == 1 {
		w.inList(path, p)
		return
	}
	w.column(path, p, levels)
}

// inList adds what objects in a list have.
func (w *writer) inList(path []string, p *place) {
	for _, name := range p.names {
		field, path := p.fields[name], append(slices.Clip(path), name)
		if field.single() == "objects" {
			w.inList(path, field)
		} else {
			w.column(path, field, 1)
		}
	}
}

// single is the one kind of values that a place has; "": it has none, or several.
func (p *place) single() string {
	if kinds := p.kinds(); len(kinds) == 1 {
		return kinds[0]
	}
	return ""
}

// column adds a column of scalars, in so many levels of lists.
func (w *writer) column(path []string, p *place, levels int) {
	c := spec.Column{Name: spec.ColumnName(path, nil), Path: path, Inferred: true}
	if levels > 0 {
		c.Type.List, c.Type.Nested = true, uint32(levels-1)
	}
	switch kinds := p.kinds(); {
	case levels > spec.MaxNested+1:
		c.Unsupported = fmt.Sprintf("lists within lists, more than %d of them", spec.MaxNested)
	case len(kinds) > 1:
		c.Unsupported = fmt.Sprintf("of several types, %s and %s: dataset.format.columns may declare the one of those "+
			"records that are to be read", kinds[0], kinds[1])
	case len(kinds) == 0:
		c.Untyped, c.Unsupported = true, format.Untyped
		if levels > 0 {
			c.Unsupported = format.UntypedList
		}
	case p.objects && levels > 0:
		c.Unsupported = "lists of objects, within lists"
	case p.elements != nil:
		c.Unsupported = "lists, within objects in lists"
	case p.bools:
		c.Type.Kind = pb.Kind_BOOL
	case p.texts:
		c.Type.Kind, c.Text = pb.Kind_BINARY, true
	case p.floats:
		c.Type.Kind = pb.Kind_FLOAT64
	case p.beyond:
		c.Unsupported = "integers that int64 does not have: dataset.format.columns may declare it float64, which " +
			"rounds them"
	default:
		c.Type.Kind = pb.Kind_INT64
	}
	if c.Unsupported != "" && !c.Untyped {
		c.Type = spec.Type{}
	}
	w.columns = append(w.columns, c)
}

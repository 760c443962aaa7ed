// Package jsonl finds the values of records that are objects of JSON, for worker/formats/records. It goes by the
// sources that are read, not by what a file's front shows: what else a record has is skipped as fast as its end is
// found.
package jsonl

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/jsonl"
	files "github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/worker/formats/records"
)

// parser parses one record after another. It belongs to one goroutine.
type parser struct {
	jsonl.Scanner
	root    *node
	columns []*records.Column
	objects uint64 // that were begun so far, of all records
	inList  bool   // the objects are those of a list
}

// node is a name of an object, or the record itself.
type node struct {
	name   string
	path   string // for messages
	fields map[string]*node
	leaves []*leaf // the sources that are here, or none
	below  []*leaf // the sources that are in objects here
	seen   uint64  // the object in which it stood last

	order []field // the names of the last objects, as they came up
}

// field is a name as an object has it, with its quotes.
type field struct {
	quoted string
	node   *node // nil: it is not wanted
}

// leaf is a source.
type leaf struct {
	source      int
	least, most int64 // of integers; 0, 0: any that the column takes
	elements    int   // that its column had before the object at hand, which is in a list
}

// New returns the parser of a file's records.
func New(f *files.File, sources []*pb.Source) (records.Parser, error) {
	of, ok := f.Opened.(*jsonl.File)
	if !ok {
		return nil, errors.New("it is no file of JSON lines")
	}
	p := &parser{root: &node{}}
	for i, s := range sources {
		l := &leaf{source: i}
		l.least, l.most = records.Span(of.Own(s.GetPath()))
		if err := p.root.add(s.GetPath(), l); err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
	}
	return p, nil
}

// add adds a source at a path.
func (n *node) add(path []string, l *leaf) error {
	if len(path) == 0 {
		n.leaves = append(n.leaves, l)
	} else {
		n.below = append(n.below, l)
		if n.fields == nil {
			n.fields = map[string]*node{}
		}
		next := n.fields[path[0]]
		if next == nil {
			next = &node{name: path[0], path: path[0]}
			if n.path != "" {
				next.path = n.path + "." + path[0]
			}
			n.fields[path[0]] = next
		}
		if err := next.add(path[1:], l); err != nil {
			return err
		}
	}
	if len(n.leaves) > 0 && len(n.below) > 0 {
		return fmt.Errorf("column %s is read as a value and as an object at once", n.path)
	}
	return nil
}

// Parse finds the values of a record.
func (p *parser) Parse(record []byte, columns []*records.Column) error {
	record = bytes.TrimSuffix(bytes.TrimSuffix(record, []byte("\n")), []byte("\r"))
	p.Data, p.At, p.columns, p.inList = record, 0, columns, false
	if p.Peek() != '{' {
		return p.Unexpected("an object")
	}
	if err := p.object(p.root); err != nil {
		return err
	}
	if p.Peek(); p.At < len(record) {
		return p.Unexpected("the end of the line")
	}
	return nil
}

// object reads the object at the current byte.
func (p *parser) object(n *node) error {
	p.objects++
	object, next := p.objects, 0
	p.At++
	if p.Peek() == '}' {
		p.At++
		return nil
	}
	for {
		of, err := p.name(n, &next)
		if err != nil {
			return err
		}
		if err := p.Pass(':'); err != nil {
			return err
		}
		if of == nil {
			err = p.Skip()
		} else {
			err = p.field(of, object)
		}
		if err != nil {
			return err
		}
		switch p.Peek() {
		case ',':
			p.At++
		case '}':
			p.At++
			return nil
		default:
			return p.Unexpected("',' or '}'")
		}
	}
}

const (
	// maxOrder bounds how many names of an object are looked for where they stood in the last ones.
	maxOrder = 512
	// maxAhead is how many of them an object may lack in a row for that.
	maxAhead = 4
)

// name reads a name, and returns its node; nil: it is not wanted. Most objects have the same names in the same order,
// of which next is the one that is likely.
func (p *parser) name(n *node, next *int) (*node, error) {
	if p.Peek() != '"' {
		return nil, p.Unexpected("a name")
	}
	rest := p.Data[p.At:]
	for i := *next; i < len(n.order) && i < *next+maxAhead; i++ {
		f := &n.order[i]
		if len(rest) > len(f.quoted) && string(rest[:len(f.quoted)]) == f.quoted {
			p.At += len(f.quoted)
			*next = i + 1
			return f.node, nil
		}
	}
	from := p.At
	text, err := p.Text()
	if err != nil {
		return nil, err
	}
	of := n.fields[string(text)]
	if quoted := p.Data[from:p.At]; *next == len(n.order) && *next < maxOrder && len(quoted) <= maxOrder {
		n.order = append(n.order, field{string(quoted), of})
		*next++
	}
	return of, nil
}

// field reads the value of a name in an object.
func (p *parser) field(n *node, object uint64) error {
	if n.seen == object {
		return p.at(n, errors.New("the name stands in its object twice"))
	}
	n.seen = object
	p.Peek()
	from := p.At
	for _, l := range n.leaves {
		p.At = from
		c := p.columns[l.source]
		var err error
		if c.Type.List && !p.inList {
			err = p.list(c, l, 0)
		} else {
			err = p.value(c, l)
		}
		if err != nil {
			return p.at(n, err)
		}
	}
	if len(n.leaves) > 0 {
		return nil
	}
	switch c := p.Peek(); {
	case c == '{':
		return p.object(n)
	case c == '[' && !p.inList:
		return p.list1(n)
	case p.Literal("null"):
		return p.at(n, p.nulls(n))
	}
	return p.at(n, p.Unexpected("an object"))
}

// at says of an error where it is.
func (p *parser) at(n *node, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*jsonl.Error](err); !ok {
		err = &jsonl.Error{At: p.At, What: err.Error()}
	}
	return fmt.Errorf("column %s: %w", n.path, err)
}

// nulls sets null for all that is in an object.
func (p *parser) nulls(n *node) error {
	for _, l := range n.below {
		if err := p.columns[l.source].Null(); err != nil {
			return err
		}
	}
	return nil
}

// list1 reads a list of objects: each of the columns in these has a list with what it is in each.
func (p *parser) list1(n *node) error {
	for _, l := range n.below {
		if err := p.columns[l.source].Open(); err != nil {
			return p.at(n, err)
		}
	}
	p.inList = true
	err := p.All('[', ']', func() error { return p.element(n) })
	p.inList = false
	for _, l := range n.below {
		p.columns[l.source].Close()
	}
	return err
}

// element reads an object of a list. What it lacks is null.
func (p *parser) element(n *node) error {
	switch {
	case p.Peek() == '{':
	case p.Literal("null"):
		return p.at(n, p.nulls(n))
	default:
		return p.at(n, p.Unexpected("an object"))
	}
	for _, l := range n.below {
		l.elements = p.columns[l.source].Elements()
	}
	if err := p.object(n); err != nil {
		return err
	}
	for _, l := range n.below {
		if c := p.columns[l.source]; c.Elements() == l.elements {
			if err := c.Null(); err != nil {
				return p.at(n, err)
			}
		}
	}
	return nil
}

// list reads the list of a column, or one within it.
func (p *parser) list(c *records.Column, l *leaf, level uint32) error {
	switch p.Peek() {
	case '[':
	case 'n':
		return p.value(c, l)
	default:
		return p.Unexpected("a list")
	}
	if err := c.Open(); err != nil {
		return err
	}
	p.At++
	if p.Peek() == ']' {
		p.At++
		c.Close()
		return nil
	}
	for {
		var err error
		if level < c.Type.Nested {
			err = p.list(c, l, level+1)
		} else {
			err = p.value(c, l)
		}
		if err != nil {
			return err
		}
		switch p.Peek() {
		case ',':
			p.At++
		case ']':
			p.At++
			c.Close()
			return nil
		default:
			return p.Unexpected("',' or ']'")
		}
	}
}

// value reads a scalar, or null.
func (p *parser) value(c *records.Column, l *leaf) error {
	first := p.Peek()
	switch {
	case first == '"':
		from := p.At
		text, err := p.Text()
		if err != nil {
			return err
		}
		return p.from(from, c.Bytes(text))
	case first == '-' || first >= '0' && first <= '9' || first == 'N' || first == 'I':
		from := p.At
		n, err := p.Number()
		if err != nil {
			return err
		}
		return p.from(from, number(c, l, n))
	case p.Literal("null"):
		return c.Null()
	case p.Literal("true"):
		return c.Bool(true)
	case p.Literal("false"):
		return c.Bool(false)
	case first == '{':
		return p.Unexpected(spec.KindName(c.Type.Kind) + ", not an object,")
	case first == '[':
		return p.Unexpected(spec.KindName(c.Type.Kind) + ", not a list,")
	}
	return p.Unexpected("a value")
}

// from says of an error at which byte its value begins.
func (p *parser) from(at int, err error) error {
	if err == nil {
		return nil
	}
	return &jsonl.Error{At: at, What: err.Error()}
}

var errRange = errors.New("which the type that the column is declared to have does not have")

func number(c *records.Column, l *leaf, n *jsonl.Number) error {
	switch c.Type.Kind {
	case pb.Kind_FLOAT64:
		x, err := n.Float64()
		if err != nil {
			return err
		}
		return c.Float(x)
	case pb.Kind_FLOAT32:
		x, err := n.Float32()
		if err != nil {
			return err
		}
		return c.Float(float64(x))
	case pb.Kind_BOOL, pb.Kind_BINARY:
		return fmt.Errorf("the number %.40s where %s is wanted", n.Text, spec.KindName(c.Type.Kind))
	}
	x, err := n.Int()
	switch {
	case err != nil && !n.Whole:
		return fmt.Errorf("%w: declare the column float64 in dataset.format.columns", err)
	case err != nil:
		return err
	}
	if l.most != 0 && (x < l.least || x > l.most) {
		return fmt.Errorf("%d, %w", x, errRange)
	}
	return c.Int(x)
}

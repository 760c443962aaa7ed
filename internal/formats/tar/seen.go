package tar

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// seen are the columns that samples of a file's front show. What the dataset declares is not looked at.
type seen struct {
	declared []spec.Column
	byName   map[string]*spec.Column
}

func newSeen(declared []spec.Column) *seen {
	s := &seen{declared: declared, byName: map[string]*spec.Column{}}
	s.byName[Key] = &spec.Column{Type: spec.Type{Kind: pb.Kind_BINARY}, Text: true}
	for i := range declared {
		s.byName[declared[i].Name] = &declared[i]
	}
	return s
}

func (s *seen) isDeclared(name string) bool {
	return slices.ContainsFunc(s.declared, func(c spec.Column) bool { return c.Name == name })
}

// columns are all that was seen, by name.
func (s *seen) columns() []spec.Column {
	var out []spec.Column
	for name, c := range s.byName {
		if c.Untyped && s.hasFields(name) { // null in place of an object
			continue
		}
		c.Name, c.Path = name, []string{name}
		if c.Untyped {
			c.Unsupported = format.Untyped
			if c.Type.List {
				c.Unsupported = format.UntypedList
			}
		}
		out = append(out, *c)
	}
	return sorted(out)
}

func (s *seen) hasFields(name string) bool {
	for other := range s.byName {
		if strings.HasPrefix(other, name) && strings.HasPrefix(other[len(name):], ".") {
			return true
		}
	}
	return false
}

// maxColumns bounds the columns of a file.
const maxColumns = 10_000

// sample looks at the parts of a sample.
func (s *seen) sample(data []byte) error {
	for w := NewWalk(data); w.At < len(data); {
		m, err := w.Next()
		if err != nil {
			return err
		}
		if m.Key != nil {
			s.part(string(Lower(m.Part)), data[m.From:m.To])
		}
	}
	if len(s.byName) > maxColumns {
		return fmt.Errorf("there are more than %d columns: have fewer names in JSON, or declare the part in "+
			"dataset.format.columns, such as json: string", maxColumns)
	}
	return nil
}

func (s *seen) part(name string, data []byte) {
	kind := kindOfPart(name)
	if s.isDeclared(name) {
		return
	}
	if part, _ := PartOf(name); part != name {
		s.byName[name] = &spec.Column{Unsupported: "a part whose name is that of a field of the part " + part}
		return
	}
	switch kind {
	case isJSON:
		s.document(name, data)
	case isNpy:
		s.array(name, data)
	case isInt:
		s.byName[name] = &spec.Column{Type: spec.Type{Kind: pb.Kind_INT64}}
	default:
		s.byName[name] = &spec.Column{Type: spec.Type{Kind: pb.Kind_BINARY}, Text: kind == isText}
	}
}

// array looks at an array. One that cannot be read has the column be none, unless there are others.
func (s *seen) array(name string, data []byte) {
	a, err := ParseArray(data)
	c := &spec.Column{Type: spec.Type{Kind: a.Kind, List: true}, Meaning: a.Meaning}
	if err != nil {
		c.Unsupported = err.Error()
	} else if spec.Small(a.Kind) {
		c.Own, c.Type.Kind = a.Kind, spec.StandIn(a.Kind)
	}
	if len(a.Shape) > 0 && spec.Count(a.Shape, spec.Width(a.Kind)) > 0 {
		c.Shape = a.Shape
	}
	before, ok := s.byName[name]
	if ok && before.Unsupported == "" {
		if c.Unsupported == "" && (before.Type != c.Type || before.Own != c.Own || before.Meaning != c.Meaning) {
			c.Unsupported = fmt.Sprintf("arrays of several types, %s and %s: declare it in dataset.format.columns",
				ownType(before), ownType(c))
		}
		if !slices.Equal(before.Shape, c.Shape) {
			c.Shape = nil
		}
	}
	if ok && before.Unsupported != "" {
		return
	}
	s.byName[name] = c
}

func ownType(c *spec.Column) spec.Type {
	t := c.Type
	if c.Own != pb.Kind_KIND_UNSPECIFIED {
		t.Kind = c.Own
	}
	return t
}

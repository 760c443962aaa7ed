package tar

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/jsonl"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// seen are the columns that samples of a file's front show. What the dataset declares is not looked at.
type seen struct {
	declared []spec.Column
	byName   map[string]*spec.Column
	json     map[string]*jsonl.Seen // parts that are JSON
	several  map[string]bool        // arrays that are of several types
}

func newSeen(declared []spec.Column) *seen {
	s := &seen{
		declared: declared, byName: map[string]*spec.Column{}, json: map[string]*jsonl.Seen{},
		several: map[string]bool{},
	}
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
		c.Name, c.Path = name, []string{name}
		out = append(out, *c)
	}
	for part, seen := range s.json {
		for _, c := range seen.Columns(part) {
			if !s.isDeclared(c.Name) && len(out) < records.MaxColumns { // as jsonl, which passes over more names
				out = append(out, field(c))
			}
		}
	}
	return sorted(out)
}

// field is the column of a field of JSON, or of all of it.
func field(c spec.Column) spec.Column {
	switch {
	case len(c.Path) == 1 && c.Type.Kind == pb.Kind_BINARY && !c.Type.List:
		c.Unsupported = "JSON that is one text: declare it as string in dataset.format.columns to have it as it stands"
	case slices.ContainsFunc(c.Path[1:], func(name string) bool { return name == "" || strings.Contains(name, ".") }):
		c.Unsupported = "of a name in JSON that is empty, or has a dot"
	}
	c.Path = []string{c.Name}
	return c
}

// sample looks at the parts of a sample.
func (s *seen) sample(data []byte) error {
	for w := NewWalk(data); w.At < len(data); {
		m, err := w.Next()
		if err != nil {
			return err
		}
		if m.Key == nil {
			continue
		}
		s.part(string(Lower(m.Part)), data[m.From:m.To])
		if err := records.CheckColumns(len(s.byName) + len(s.json)); err != nil {
			return err
		}
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
		if s.json[name] == nil {
			s.json[name] = &jsonl.Seen{}
		}
		_ = s.json[name].Look(data) // what is damaged is told by whoever reads it
	case isNpy:
		s.array(name, data)
	case isInt:
		s.byName[name] = &spec.Column{Type: spec.Type{Kind: pb.Kind_INT64}}
	default:
		s.byName[name] = &spec.Column{Type: spec.Type{Kind: pb.Kind_BINARY}, Text: kind == isText}
	}
}

// array looks at an array. One that cannot be read tells nothing of the column, unless there are no others.
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
	if ok && err != nil || s.several[name] {
		return
	}
	if ok && before.Unsupported == "" {
		if before.Type != c.Type || before.Own != c.Own || before.Meaning != c.Meaning {
			c.Unsupported = fmt.Sprintf("arrays of several types, %s and %s: declare it in dataset.format.columns",
				ownType(before), ownType(c))
			s.several[name] = true
		}
		if !slices.Equal(before.Shape, c.Shape) {
			c.Shape = nil
		}
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

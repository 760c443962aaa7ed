package jsonl

import (
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/spec"
)

// Seen are the values of documents that other formats have in their records: of the parts of a tar's samples, and of
// MDS.
type Seen struct {
	all  observer
	root place
}

// Look looks at a document.
func (s *Seen) Look(document []byte) error {
	scan := &Scanner{Data: document}
	s.all.whole = true
	if err := s.all.value(scan, &s.root, 0); err != nil {
		return err
	}
	if scan.Peek(); scan.At < len(document) {
		return scan.Unexpected("the end of the document")
	}
	return nil
}

// Columns are those of what was seen, below a name. A document that is no object has one, of that name. Dots in a name
// lead to no field.
func (s *Seen) Columns(name string) []spec.Column {
	w := &writer{}
	w.value([]string{name}, &s.root)
	for i := range w.columns {
		c := &w.columns[i]
		odd := func(name string) bool { return name == "" || strings.Contains(name, ".") }
		if slices.ContainsFunc(c.Path[1:], odd) {
			c.Unsupported = "of a name in JSON that is empty, or has a dot"
		}
		c.Path = []string{c.Name}
	}
	return w.columns
}

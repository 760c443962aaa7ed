package jsonl

import "github.com/penstock-ml/penstock/api/spec"

// Seen are the values of documents that other formats have in their records: of the parts of a tar's samples.
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

// Columns are those of what was seen, below a name.
func (s *Seen) Columns(name string) []spec.Column {
	w := &writer{}
	w.value([]string{name}, &s.root)
	return w.columns
}

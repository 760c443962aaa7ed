package jsonl

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats/records"
)

// Document finds the values of documents that other formats have in their records: of the parts of a tar's samples. A
// document need not be an object.
type Document struct{ parser }

// NewDocument returns one without sources. Its name is for messages.
func NewDocument(name string) *Document {
	return &Document{parser{root: &node{path: name}}}
}

// Add has a source read what is at a path; own is the small kind that its column is declared to have, if any.
func (d *Document) Add(path []string, source int, own pb.Kind) error {
	l := &leaf{source: source}
	l.least, l.most = records.Span(own)
	return d.root.add(path, l)
}

// Set sets what a document has of the columns.
func (d *Document) Set(document []byte, columns []*records.Column) error {
	d.Data, d.At, d.columns, d.inList = document, 0, columns, false
	d.objects++
	if err := d.field(d.root, d.objects); err != nil {
		return err
	}
	if d.Peek(); d.At < len(document) {
		return d.Unexpected("the end of the document")
	}
	return nil
}

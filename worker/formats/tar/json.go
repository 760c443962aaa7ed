package tar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	decoders "github.com/penstock-ml/penstock/worker/formats/records"
)

// node is a value of a document: what reads it, and its fields that are read.
type node struct {
	sources []int
	fields  map[string]*node
}

// add has a source read a field.
func (n *node) add(path []string, source int) {
	for _, name := range path {
		if n.fields == nil {
			n.fields = map[string]*node{}
		}
		if n.fields[name] == nil {
			n.fields[name] = &node{}
		}
		n = n.fields[name]
	}
	n.sources = append(n.sources, source)
}

// reading is a document that is being read.
type reading struct {
	*json.Decoder
	columns []*decoders.Column
}

var (
	errBehind = errors.New("something is behind the JSON")
	errUTF8   = errors.New("the JSON is no UTF-8")
)

// document sets what one has of the sources.
func document(data []byte, root *node, columns []*decoders.Column) error {
	if !utf8.Valid(data) {
		return errUTF8
	}
	r := reading{json.NewDecoder(bytes.NewReader(data)), columns}
	r.UseNumber()
	err := r.value(root)
	if err == nil {
		if _, end := r.Token(); !errors.Is(end, io.EOF) {
			err = errBehind
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("byte %d of its JSON: %w", r.InputOffset(), err)
	}
	return nil
}

// value reads one; nil: nobody wants it.
func (r *reading) value(to *node) error {
	token, err := r.Token()
	if err != nil {
		return err
	}
	return r.rest(token, to)
}

// rest reads what is behind the first token of a value.
func (r *reading) rest(token json.Token, to *node) error {
	delim, nested := token.(json.Delim)
	switch {
	case to == nil && nested:
		return r.skip()
	case to == nil:
		return nil
	case token == nil:
		return r.null(to)
	case delim == '{':
		return r.object(to)
	case len(to.fields) > 0 && len(to.sources) == 0:
		return fmt.Errorf("%v where an object is wanted", token)
	case delim == '[':
		return r.list(to)
	}
	return r.scalar(token, to)
}

// skip passes over the rest of an object or a list.
func (r *reading) skip() error {
	for depth := 1; depth > 0; {
		token, err := r.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// null is null in all that is read of the value.
func (r *reading) null(to *node) error {
	for _, i := range to.sources {
		if err := r.columns[i].Null(); err != nil {
			return err
		}
	}
	for _, field := range to.fields {
		if err := r.null(field); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) object(to *node) error {
	if len(to.sources) > 0 {
		return errors.New("an object where a value is wanted")
	}
	for r.More() {
		name, err := r.Token()
		if err != nil {
			return err
		}
		text, _ := name.(string)
		if err := r.value(to.fields[text]); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	_, err := r.Token()
	return err
}

func (r *reading) list(to *node) error {
	for _, i := range to.sources {
		if err := r.columns[i].Open(); err != nil {
			return err
		}
	}
	elements := &node{sources: to.sources}
	for r.More() {
		if err := r.value(elements); err != nil {
			return err
		}
	}
	for _, i := range to.sources {
		r.columns[i].Close()
	}
	_, err := r.Token()
	return err
}

func (r *reading) scalar(token json.Token, to *node) (err error) {
	for _, i := range to.sources {
		switch v := token.(type) {
		case bool:
			err = r.columns[i].Bool(v)
		case string:
			err = r.columns[i].Bytes([]byte(v))
		case json.Number:
			err = r.columns[i].Number([]byte(v))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

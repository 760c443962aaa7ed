package iceberg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
)

// wanted are the fields of records that are read: nil is a whole field, others are of the record in it.
type wanted map[string]wanted

// records decodes a file of Avro, into one value after another. Fields that are not wanted are skipped; those that the
// file must have are required.
func records[T any](content []byte, fields wanted, required []string, each func(*T) error) error {
	narrow := func(r *ocf.Reader) (*avro.Schema, error) {
		return narrowed(r.Metadata()["avro.schema"], fields, required)
	}
	r, err := ocf.NewReader(bytes.NewReader(content), ocf.WithReaderSchemaFunc(narrow))
	if err != nil {
		return damaged(err)
	}
	defer func() { _ = r.Close() }()
	for {
		var v T
		if err := r.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return damaged(err)
		}
		if err := each(&v); err != nil {
			return err
		}
	}
}

func damaged(err error) error { return fmt.Errorf("%w; the file is damaged or cut: restore it", err) }

// narrowed is a writer's schema without what is not wanted. Values stay as they are stored: no logical type applies.
func narrowed(schema []byte, fields wanted, required []string) (*avro.Schema, error) {
	var all any
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	top, ok := all.(map[string]any)
	if !ok {
		return nil, errors.New("its schema is no record")
	}
	for _, name := range required {
		if fieldOf(top, name) == nil {
			return nil, fmt.Errorf("its records have no field %s", name)
		}
	}
	narrow(top, fields)
	text, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	return avro.Parse(string(text), avro.WithLaxNames(anyName))
}

func anyName(name string) error {
	if name == "" {
		return errors.New("a name is empty")
	}
	return nil
}

// fieldOf is a field of a record's schema; nil: it has none of the name.
func fieldOf(record map[string]any, name string) map[string]any {
	all, _ := record["fields"].([]any)
	for _, f := range all {
		if f, ok := f.(map[string]any); ok && f["name"] == name {
			return f
		}
	}
	return nil
}

// narrow leaves out fields and logical types of a schema.
func narrow(schema any, fields wanted) {
	switch s := schema.(type) {
	case []any: // a union
		for _, branch := range s {
			narrow(branch, fields)
		}
	case map[string]any:
		delete(s, "logicalType")
		narrow(s["type"], fields)
		narrow(s["items"], nil)
		narrow(s["values"], nil)
		all, ok := s["fields"].([]any)
		if !ok {
			return
		}
		all = slices.DeleteFunc(all, func(f any) bool {
			field, ok := f.(map[string]any)
			name, _ := field["name"].(string)
			_, isWanted := fields[name]
			if !ok || fields != nil && !isWanted {
				return true
			}
			narrow(field["type"], fields[name])
			return false
		})
		s["fields"] = all
	}
}

// headerOf is what a file of Avro says of itself.
func headerOf(content []byte) (map[string][]byte, error) {
	r, err := ocf.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return r.Metadata(), r.Close()
}

package reference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// object is an object of JSON, with its names in their order: one may stand in it twice.
type object []jsonField

type jsonField struct {
	name  string
	value any
}

// front is about how much of a file is looked at for its columns.
const front = 256 << 10

// readLines reads JSON lines.
func readLines(data []byte, how *pb.Format) (*recordFile, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	f, seen := &recordFile{}, &shape{}
	at := 0
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if len(bytes.Trim(line, " \t\r")) > 0 {
			v, err := parseJSON(line)
			o, ok := v.(object)
			if err == nil && !ok {
				err = errors.New("it is no object")
			}
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", len(f.records), err)
			}
			f.records = append(f.records, document{o})
			if at+len(line) < front {
				seen.see(o)
			}
		}
		at += len(line) + 1
	}
	columns, err := declared(how)
	f.columns = declare(seen.columns(nil), columns)
	return f, err
}

// document is a value of JSON as a record. A column's path says which part of it is meant.
type document struct{ root any }

func (d document) value(c column) (any, bool, error) { return lookup(d.root, c.path, false) }

// lookup finds what a value has at a path. Of a list of objects it is the list of what is in each.
func lookup(v any, path []string, inList bool) (found any, ok bool, err error) {
	if len(path) == 0 || v == nil {
		return v, true, nil
	}
	switch v := v.(type) {
	case object:
		times := 0
		for _, m := range v {
			if m.name != path[0] {
				continue
			}
			if times++; times > 1 {
				return nil, false, fmt.Errorf("the name %s stands in its object twice", m.name)
			}
			if found, ok, err = lookup(m.value, path[1:], inList); err != nil {
				return nil, false, err
			}
		}
		return found, ok, err
	case []any:
		if inList {
			return nil, false, errors.New("a list within a list of objects")
		}
		out := []any{}
		for _, element := range v {
			if _, isObject := element.(object); !isObject && element != nil {
				return nil, false, fmt.Errorf("%v, where an object is wanted", element)
			}
			x, _, err := lookup(element, path, true)
			if err != nil {
				return nil, false, err
			}
			out = append(out, x)
		}
		return out, true, nil
	}
	return nil, false, fmt.Errorf("%v, where an object is wanted", v)
}

// Python writes these numbers, which JSON does not have; readers of JSON see others that nobody writes.
const (
	notANumber = "0e77777777"
	infinity   = "1e77777777"
)

var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"|NaN|Infinity`) //nolint:gochecknoglobals // a constant

// parseJSON reads one value of JSON.
func parseJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	if err := surrogates(data); err != nil {
		return nil, err
	}
	data = quoted.ReplaceAllFunc(data, func(token []byte) []byte {
		switch string(token) {
		case "NaN":
			return []byte(notANumber)
		case "Infinity":
			return []byte(infinity)
		}
		return token
	})
	if !json.Valid(data) {
		return nil, fmt.Errorf("it is no JSON: %.100q", data)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return nextJSON(d)
}

var escapes = regexp.MustCompile(`\\(?:u([0-9a-fA-F]{4})|.)`) //nolint:gochecknoglobals // a constant

// surrogates fails for halves of pairs that stand alone.
func surrogates(data []byte) error {
	high := -1 // where the low half of the last high one must begin
	for _, at := range escapes.FindAllSubmatchIndex(data, -1) {
		code := uint64(0)
		if at[2] >= 0 {
			code, _ = strconv.ParseUint(string(data[at[2]:at[3]]), 16, 32)
		}
		isHigh, isLow := code>>10 == 0xd800>>10, code>>10 == 0xdc00>>10
		if high >= 0 && (high != at[0] || !isLow) || high < 0 && isLow {
			return errors.New("half of a surrogate pair")
		}
		if high = -1; isHigh {
			high = at[1]
		}
	}
	if high >= 0 {
		return errors.New("half of a surrogate pair")
	}
	return nil
}

// nextJSON reads the next value.
func nextJSON(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return nextList(d)
		}
		return nextObject(d)
	case json.Number:
		return jsonNumber(t.String()), nil
	case string:
		return textual(t), nil
	}
	return t, nil
}

func nextList(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		v, err := nextJSON(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

func nextObject(d *json.Decoder) (any, error) {
	o := object{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := nextJSON(d)
		if err != nil {
			return nil, err
		}
		o = append(o, jsonField{name.(string), v}) //nolint:errcheck // names are strings
	}
	_, err := d.Token()
	return o, err
}

// jsonNumber is a number as other texts have it: a whole -0 is 0.
func jsonNumber(s string) numeral {
	switch s {
	case "-0":
		return "0"
	case notANumber:
		return "NaN"
	case infinity:
		return "+Inf"
	case "-" + infinity:
		return "-Inf"
	}
	return numeral(s)
}

// shape is what values of JSON were seen in one place.
type shape struct {
	bools, ints, floats, texts, beyond bool
	elements                           *shape
	isObject                           bool
	names                              []string
	fields                             map[string]*shape
}

func (s *shape) see(v any) {
	switch v := v.(type) {
	case bool:
		s.bools = true
	case textual:
		s.texts = true
	case numeral:
		if strings.ContainsAny(string(v), ".eEIN") {
			s.floats = true
			return
		}
		s.ints = true
		_, err := strconv.ParseInt(string(v), 10, 64)
		s.beyond = s.beyond || err != nil
	case []any:
		if s.elements == nil {
			s.elements = &shape{}
		}
		for _, e := range v {
			s.elements.see(e)
		}
	case object:
		s.isObject = true
		for _, m := range v {
			if s.fields == nil {
				s.fields = map[string]*shape{}
			}
			if s.fields[m.name] == nil {
				s.fields[m.name] = &shape{}
				s.names = append(s.names, m.name)
			}
			s.fields[m.name].see(m.value)
		}
	}
}

// kinds is how many kinds of values there are.
func (s *shape) kinds() (n int) {
	for _, has := range []bool{s.bools, s.ints || s.floats, s.texts, s.elements != nil, s.isObject} {
		if has {
			n++
		}
	}
	return n
}

// columns are those of what is at a path. One that is of no type, or of several, has none.
func (s *shape) columns(path []string) (out []column) {
	if s.isObject && s.kinds() == 1 || path == nil {
		for _, name := range s.names {
			out = append(out, s.fields[name].columns(append(append([]string{}, path...), name))...)
		}
		return out
	}
	levels := uint32(0)
	for ; s.elements != nil && s.kinds() == 1; levels++ {
		s = s.elements
	}
	if s.isObject && s.kinds() == 1 && levels == 1 {
		return s.inList(path)
	}
	return []column{s.column(path, levels)}
}

// inList are the columns of objects in a list.
func (s *shape) inList(path []string) (out []column) {
	for _, name := range s.names {
		jsonField, path := s.fields[name], append(append([]string{}, path...), name)
		if jsonField.isObject && jsonField.kinds() == 1 {
			out = append(out, jsonField.inList(path)...)
		} else {
			out = append(out, jsonField.column(path, 1))
		}
	}
	return out
}

// column is that of values in so many levels of lists.
func (s *shape) column(path []string, levels uint32) column {
	c := column{name: strings.Join(path, "."), path: path, inferred: true}
	if c.typ.List = levels > 0; c.typ.List {
		c.typ.Nested = levels - 1
	}
	switch {
	case s.kinds() == 0:
		c.untyped = true
	case s.kinds() > 1 || s.isObject || s.elements != nil || levels > spec.MaxNested+1:
	case s.bools:
		c.typ.Kind = pb.Kind_BOOL
	case s.texts:
		c.typ.Kind, c.text = pb.Kind_BINARY, true
	case s.floats:
		c.typ.Kind = pb.Kind_FLOAT64
	case !s.beyond:
		c.typ.Kind = pb.Kind_INT64
	}
	return c
}

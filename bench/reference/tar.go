package reference

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// parts is a record, a sample, of a WebDataset: the bytes of its parts by name, and its key.
type parts struct {
	key   string
	parts map[string][]byte
	names []string
}

// keyName is the column of samples' keys.
const keyName = "__key__"

// readTar reads the samples of a tar.
func readTar(data []byte, how *pb.Format) (*recordFile, error) {
	if len(data) == 0 {
		return nil, errors.New("the file is empty, which no tar is")
	}
	samples, fronts, err := samplesOf(data, how.GetOptions()["missing_end"].GetBool())
	if err != nil {
		return nil, err
	}
	f := &recordFile{}
	for _, s := range samples {
		f.records = append(f.records, s)
	}
	given, err := declared(how)
	if err != nil {
		return nil, err
	}
	for i := range given {
		given[i].path = []string{given[i].name} // a name with dots is that of one column
	}
	f.columns = declare(columnsOfSamples(samples[:fronts]), given)
	return f, nil
}

// samplesOf finds the samples, and how many of them lie in the file's front.
func samplesOf(data []byte, missingEnd bool) (samples []parts, fronts int, err error) {
	in := bytes.NewReader(data)
	r := tar.NewReader(in)
	keys := map[string]bool{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		key, part, ok := splitName(h.Name)
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, 0, err
		}
		if len(samples) == 0 || samples[len(samples)-1].key != key {
			if keys[key] {
				return nil, 0, fmt.Errorf("the sample %s stands in two places", key)
			}
			keys[key] = true
			samples = append(samples, parts{key: key, parts: map[string][]byte{}})
		}
		s := &samples[len(samples)-1]
		if _, twice := s.parts[part]; twice {
			return nil, 0, fmt.Errorf("the sample %s has two parts %s", key, part)
		}
		s.parts[part], s.names = content, append(s.names, part)
		if len(data)-in.Len() <= front {
			fronts = len(samples)
		}
	}
	end := data[len(data)-min(512, len(data)):]
	if !missingEnd && (len(end) < 512 || len(bytes.Trim(end, "\x00")) > 0) {
		return nil, 0, errors.New("the zeros that end an archive are missing")
	}
	if rest := data[len(data)-in.Len():]; len(bytes.Trim(rest, "\x00")) > 0 {
		return nil, 0, errors.New("there is another archive behind it")
	}
	return samples, max(fronts, min(1, len(samples))), nil
}

// splitName takes a member's name apart at the first dot of its base.
func splitName(name string) (key, part string, ok bool) {
	base := path.Base(name)
	if strings.HasSuffix(name, "/") {
		return "", "", false
	}
	stem, part, ok := strings.Cut(base, ".")
	first, _, _ := strings.Cut(name, "/")
	if !ok || stem == "" || part == "" ||
		len(first) >= 4 && strings.HasPrefix(first, "__") && strings.HasSuffix(first, "__") {
		return "", "", false
	}
	return strings.TrimSuffix(name, "."+part), strings.ToLower(part), true
}

// How parts are read, by the end of their names.
const (
	binaryPart = iota
	textPart
	intPart
	jsonPart
	npyPart
)

func kindOfPart(part string) int {
	switch part[strings.LastIndexByte(part, '.')+1:] {
	case "txt", "text", "transcript", "caption":
		return textPart
	case "cls", "cls2", "class", "count", "index", "inx", "id":
		return intPart
	case "json", "jsn":
		return jsonPart
	case "npy":
		return npyPart
	}
	return binaryPart
}

// partOf says which part has a column, and which of its fields if it is JSON.
func partOf(column string) (part string, field []string) {
	names := strings.Split(column, ".")
	for i := range names[:len(names)-1] {
		if kindOfPart(names[i]) == jsonPart {
			return strings.Join(names[:i+1], "."), names[i+1:]
		}
	}
	return column, nil
}

// columnsOfSamples are those that samples show.
func columnsOfSamples(samples []parts) []column {
	out := []column{{name: keyName, typ: spec.Type{Kind: pb.Kind_BINARY}, text: true}}
	documents := map[string]*shape{}
	arrays := map[string]*column{}
	var names []string
	for _, s := range samples {
		for _, part := range s.names {
			if !slices.Contains(names, part) {
				names = append(names, part)
			}
			switch kindOfPart(part) {
			case jsonPart:
				if v, err := parseJSON(s.parts[part]); err == nil {
					if documents[part] == nil {
						documents[part] = &shape{}
					}
					documents[part].see(v)
				}
			case npyPart:
				seeArray(arrays, part, s.parts[part])
			}
		}
	}
	for _, part := range names {
		if of, _ := partOf(part); of != part {
			out = append(out, column{name: part, path: []string{part}})
			continue
		}
		switch kind := kindOfPart(part); {
		case kind == jsonPart && documents[part] != nil:
			out = append(out, documents[part].below(part)...)
		case kind == npyPart && arrays[part] != nil:
			out = append(out, *arrays[part])
		case kind == jsonPart || kind == npyPart:
			out = append(out, column{name: part})
		case kind == intPart:
			out = append(out, column{name: part, typ: spec.Type{Kind: pb.Kind_INT64}})
		default:
			out = append(out, column{name: part, typ: spec.Type{Kind: pb.Kind_BINARY}, text: kind == textPart})
		}
	}
	for i := range out {
		out[i].path = []string{out[i].name}
	}
	return out
}

// below are the columns of documents in a part, or in a column, of a name.
func (s *shape) below(name string) (out []column) {
	dotted := func(name string) bool { return name == "" || strings.Contains(name, ".") }
	for _, c := range s.columns([]string{name}) {
		if len(c.path) == 1 && c.text && !c.typ.List || slices.ContainsFunc(c.path[1:], dotted) {
			c.typ = spec.Type{} // it cannot be named, or is better read as it stands
		}
		c.path, c.inferred, c.text = []string{c.name}, true, false
		out = append(out, c)
	}
	return out
}

// seeArray adds what an array shows of its column.
func seeArray(arrays map[string]*column, part string, data []byte) {
	a, err := parseNpy(data)
	c := column{name: part, typ: spec.Type{Kind: a.kind, List: true}, shape: a.shape, unsigned: a.unsigned}.small()
	if slices.Contains(a.shape, 0) || len(a.shape) == 0 {
		c.shape = nil
	}
	before := arrays[part]
	switch {
	case err != nil: // it shows nothing
	case before == nil:
		arrays[part] = &c
	case before.typ != c.typ || before.own != c.own || before.unsigned != c.unsigned:
		before.typ = spec.Type{}
	case !slices.Equal(before.shape, c.shape):
		before.shape = nil
	}
}

func (s parts) value(c column) (any, bool, error) {
	if c.name == keyName {
		if !utf8.ValidString(s.key) {
			return nil, false, errors.New("its name is no UTF-8")
		}
		return textual(s.key), true, nil
	}
	part, field := partOf(c.name)
	data, ok := s.parts[part]
	if !ok {
		return nil, false, nil
	}
	asItStands := len(field) == 0 && !c.typ.List
	switch kind := kindOfPart(part); {
	case asItStands && c.typ.Kind == pb.Kind_BINARY:
		if (c.text || !c.declared && kind == textPart) && !utf8.Valid(data) {
			return nil, false, errors.New("it is no UTF-8")
		}
		return textual(data), true, nil
	case kind == jsonPart:
		v, err := parseJSON(data)
		if err != nil {
			return nil, false, err
		}
		return lookup(v, field, false)
	case kind == npyPart:
		v, err := arrayOf(data, c)
		return v, true, err
	case asItStands && c.typ.Kind == pb.Kind_BOOL:
		v, err := parseText(strings.TrimSpace(string(data)), boolTexts)
		if word := strings.TrimSpace(string(data)); word != strings.ToLower(word) {
			err = errors.New("it is neither true nor false")
		}
		return v, true, err
	case asItStands:
		return numeral(strings.TrimSpace(string(data))), true, nil
	}
	return nil, false, errors.New("it is no list")
}

// arrayOf is an array of NumPy as a column has it.
func arrayOf(data []byte, c column) (any, error) {
	a, err := parseNpy(data)
	if err != nil {
		return nil, err
	}
	if a.unsigned != c.unsigned {
		return nil, errors.New("its array is of another type")
	}
	from, to := holdingOf(a.kind), holdingOf(c.typ.Kind)
	narrower := from == storedFloats && spec.Width(c.typ.Kind) < spec.Width(a.kind)
	if from != to || (a.kind == pb.Kind_BOOL) != (c.typ.Kind == pb.Kind_BOOL) || narrower {
		return nil, errors.New("its array is of another type") // also if it is empty
	}
	values, err := numbersOf(a.data, a.kind)
	if err != nil {
		return nil, err
	}
	if c.shape != nil && !slices.Equal(c.shape, a.shape) && size(c.shape) == len(values) {
		return nil, errors.New("its array is of another shape")
	}
	if !c.typ.List {
		if len(values) != 1 {
			return nil, errors.New("its array has several values")
		}
		return values[0], nil
	}
	return values, nil
}

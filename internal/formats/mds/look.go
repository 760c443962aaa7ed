package mds

import (
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/jsonl"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// look finds out of the samples in the front what the header does not say: of the first one the kind and dimensions of
// arrays that say these themselves, and of all the fields of JSON. If the first sample does not end in the front, it
// returns how many bytes that has at least. What is wrong with a sample is told where it is read.
func (s *Shard) look(front []byte) (fields map[int]*jsonl.Seen, more int64) {
	fields = map[int]*jsonl.Seen{}
	tells := func(c Column) bool { return c.Class == JSON || c.Class == Array && c.Shape == nil }
	if s.samples == 0 || !slices.ContainsFunc(s.Fields, tells) {
		return fields, 0
	}
	left := front[s.begin:]
	if more := s.measure(left); more > int64(len(left)) {
		return fields, more
	}
	for first := true; ; first = false {
		n, row, err := s.Cut(left, s.begin, false)
		if err != nil || !row {
			return fields, 0
		}
		_ = s.Values(left[:n], func(i int, value []byte) error {
			switch c := &s.Fields[i]; {
			case c.Class == JSON:
				if fields[i] == nil {
					fields[i] = &jsonl.Seen{}
				}
				_ = fields[i].Look(value)
			case first && c.Class == Array && c.Shape == nil:
				if a, err := c.ArrayOf(value); err == nil {
					c.Kind, c.Unsigned, c.Dims = a.Kind, a.Unsigned, len(a.Shape)
				}
			}
			return nil
		})
		left = left[n:]
	}
}

// withFields adds the columns of fields of JSON to those of the shard, as many as there may be.
func (s *Shard) withFields(columns []spec.Column, seen map[int]*jsonl.Seen) []spec.Column {
	for i := range s.Fields {
		if seen[i] == nil {
			continue
		}
		for _, c := range seen[i].Columns(s.Fields[i].Name) {
			if len(columns) < records.MaxColumns && s.field(c.Name) < 0 {
				columns = append(columns, c)
			}
		}
	}
	return columns
}

// field is the shard's column of a name; -1: there is none.
func (s *Shard) field(name string) int {
	return slices.IndexFunc(s.Fields, func(c Column) bool { return c.Name == name })
}

// Document is the column of JSON of which a column is a field, and the path of that; -1: it is none.
func (s *Shard) Document(column string) (field int, path []string) {
	field = -1
	if s.field(column) >= 0 {
		return field, nil
	}
	for i, c := range s.Fields {
		below, ok := strings.CutPrefix(column, c.Name+".")
		if ok && c.Class == JSON && (field < 0 || len(c.Name) > len(s.Fields[field].Name)) {
			field, path = i, strings.Split(below, ".")
		}
	}
	return field, path
}

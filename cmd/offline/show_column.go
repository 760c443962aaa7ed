package offline

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// shownColumn is what `penstock show` tells of a column.
type shownColumn struct {
	Name string `json:"name"`
	// Type as the files have it: "int8", "list<binary>", "map<binary>float32".
	Type string `json:"type,omitempty"`
	// Shape is that of each row, where the files say that all lists have one.
	Shape []int32 `json:"shape,omitempty"`
	// Layouts are those that take it as it is.
	Layouts []string `json:"layouts,omitempty"`
	// Meaning is what integers stand for: "timestamp[us]".
	Meaning string `json:"meaning,omitempty"`
	// Unsupported says why it cannot be a feature.
	Unsupported string `json:"unsupported,omitempty"`
	Bytes       int64  `json:"stored_bytes"`
	// Nulls of scalars; nil: some file does not tell.
	Nulls *int64 `json:"nulls,omitempty"`
	// Min and Max are bounds of the values, nil where some file has none. NaN lies outside of them.
	Min any `json:"min,omitempty"`
	Max any `json:"max,omitempty"`
}

// look adds up what a file tells of its columns.
func look(f format.File) (looked, error) {
	out := looked{columns: *f.Columns(), rows: format.Rows(f), extents: len(f.Extents()), extent: f.Extent()}
	for i, c := range out.columns.Schema.Columns {
		scalar := isScalar(c)
		known := summary{stored: f.Stored(i), bounded: scalar, counted: scalar}
		if scalar {
			b, err := f.Bind([]*pb.Source{{Name: c.Name, Path: c.Path, Type: c.Type.Proto(), Meaning: c.Meaning}})
			if err != nil {
				return out, err
			}
			for extent := range f.Extents() {
				known.add(b.Stats(extent, 0))
			}
		}
		out.known = append(out.known, known)
	}
	return out, nil
}

// isScalar reports whether files have statistics of a column's values.
func isScalar(c spec.Column) bool {
	return !c.Type.List && c.Key == pb.Kind_KIND_UNSPECIFIED && c.Unsupported == ""
}

// describe adds up what files tell of a column.
func describe(c spec.Column, files []looked) shownColumn {
	out := shownColumn{
		Name: c.Name, Shape: c.Shape, Layouts: spec.Layouts(c), Meaning: c.Meaning, Unsupported: c.Unsupported,
	}
	if c.Date {
		out.Meaning = "date"
	}
	if c.Unsupported == "" {
		own := c.Type
		own.Kind = cmp.Or(c.Own, own.Kind)
		out.Type = own.String()
	}
	if c.Key != pb.Kind_KIND_UNSPECIFIED {
		out.Type = "map<" + c.KeyName() + ">" + out.Type
	}
	all := summary{bounded: true, counted: true}
	for i := range files {
		f := &files[i]
		if at, ok := f.columns.Column(c.Name); ok {
			all.join(&f.known[at])
		} else {
			all.add(filter.Stats{Nulls: f.rows, Rows: f.rows}, true)
		}
	}
	out.Bytes = all.stored
	if !isScalar(c) {
		return out
	}
	if all.counted {
		out.Nulls = &all.nulls
	}
	if all.bounded {
		out.Min, out.Max = jsonOf(all.min), jsonOf(all.max)
	}
	return out
}

// summary is what is known of a column's values, in extents or files.
type summary struct {
	stored   int64
	counted  bool
	nulls    int64
	bounded  bool
	min, max *expr.Value // nil: there was no value yet
}

// join adds what is known of other values.
func (s *summary) join(o *summary) {
	s.stored += o.stored
	s.counted = s.counted && o.counted
	s.nulls += o.nulls
	s.bounded = s.bounded && o.bounded
	if o.min != nil {
		s.extend(o.min, o.max)
	}
}

func (s *summary) add(stats filter.Stats, known bool) {
	s.counted = s.counted && known && stats.Nulls >= 0
	s.nulls += stats.Nulls
	switch {
	case !known, !stats.HasMinMax && stats.Nulls < stats.Rows:
		s.bounded = false
	case stats.HasMinMax && stats.Nulls < stats.Rows:
		s.extend(&stats.Min, &stats.Max)
	}
}

func (s *summary) extend(low, high *expr.Value) {
	if s.min == nil || less(low, s.min) {
		s.min = low
	}
	if s.max == nil || less(s.max, high) {
		s.max = high
	}
}

// less compares two bounds of a column.
func less(a, b *expr.Value) bool {
	return cmp.Or(cmp.Compare(a.Int, b.Int), cmp.Compare(a.Float, b.Float), cmp.Compare(a.Text, b.Text)) < 0 ||
		!a.Bool && b.Bool
}

// jsonOf is a bound as JSON can write it; nil if there is none.
func jsonOf(v *expr.Value) any {
	switch {
	case v == nil:
		return nil
	case v.Kind == pb.Kind_BOOL:
		return v.Bool
	case v.Kind == pb.Kind_INT64:
		return v.Int
	case v.Kind == pb.Kind_BINARY:
		return printableText([]byte(v.Text))
	}
	return printable(v.Float)
}

// kind is the type for people.
func (c shownColumn) kind() string {
	if c.Unsupported != "" {
		return "cannot be a feature: " + c.Unsupported
	}
	parts := []string{c.Type}
	if len(c.Shape) > 0 {
		parts = append(parts, strings.Join(strings.Fields(fmt.Sprint(c.Shape)), ", "))
	}
	if c.Meaning != "" {
		parts = append(parts, c.Meaning)
	}
	return strings.Join(parts, " ")
}

// text is a bound for people: long ones are cut, and timestamps are written as such.
func (c shownColumn) text(v any) string {
	if v == nil {
		return ""
	}
	if n, ok := v.(int64); ok {
		switch c.Meaning {
		case "date":
			return time.Unix(n*24*60*60, 0).UTC().Format(time.DateOnly)
		case "timestamp[ms]":
			return time.UnixMilli(n).UTC().Format(time.RFC3339Nano)
		case "timestamp[us]":
			return time.UnixMicro(n).UTC().Format(time.RFC3339Nano)
		case "timestamp[ns]":
			return time.Unix(0, n).UTC().Format(time.RFC3339Nano)
		}
	}
	return short(v)
}

// short is a value of at most a few characters.
func short(v any) string {
	const limit = 40
	text := []rune(fmt.Sprint(v))
	if s, ok := v.(string); ok {
		text = []rune(fmt.Sprintf("%q", s))
	}
	if len(text) > limit {
		return string(text[:limit]) + "..."
	}
	return string(text)
}

package desk

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
)

// shownColumn is what `penstock show` tells of a column.
type shownColumn struct {
	Name string `json:"name"`
	// Type as a spec's features have it: "int64", "list<binary>", "map<binary>float32".
	Type string `json:"type,omitempty"`
	// Meaning is what integers stand for: "timestamp[us]".
	Meaning string `json:"meaning,omitempty"`
	// Unsupported says why it cannot be a feature.
	Unsupported string `json:"unsupported,omitempty"`
	Bytes       int64  `json:"stored_bytes"`
	// Nulls of scalars; nil: some footer does not tell.
	Nulls *int64 `json:"nulls,omitempty"`
	// Min and Max are bounds of the values, nil where some footer has none. NaN lies outside of them.
	Min any `json:"min,omitempty"`
	Max any `json:"max,omitempty"`
}

// describe adds up what footers tell of a column.
func describe(c spec.Column, footers []*footer.Footer) shownColumn {
	out := shownColumn{Name: c.Name, Meaning: c.Meaning, Unsupported: c.Unsupported}
	if c.Unsupported == "" {
		out.Type = c.Type.String()
	}
	if c.Key != pb.Kind_KIND_UNSPECIFIED {
		out.Type = "map<" + strings.ToLower(c.Key.String()) + ">" + out.Type
	}
	scalar := !c.Type.List && c.Key == pb.Kind_KIND_UNSPECIFIED && c.Unsupported == ""
	b := bounds{known: scalar}
	var nulls int64
	known := scalar
	for _, f := range footers {
		at, ok := f.Column(c.Name)
		if !ok {
			nulls += f.Rows // the file lacks it
			continue
		}
		from, to := f.LeavesOf(at)
		for _, g := range f.RowGroups {
			for leaf := from; leaf < to; leaf++ {
				chunk := &g.Chunks[leaf]
				out.Bytes += chunk.Length
				known = known && chunk.Stats.Nulls >= 0
				nulls += chunk.Stats.Nulls
				b.add(f.Leaves[leaf].Kind, chunk)
			}
		}
	}
	if known {
		out.Nulls = &nulls
	}
	if b.known {
		out.Min, out.Max = jsonOf(b.min), jsonOf(b.max)
	}
	return out
}

// bounds are those of several chunks.
type bounds struct {
	known    bool
	min, max any // nil: there was no value yet
}

func (b *bounds) add(k pb.Kind, c *footer.Chunk) {
	if !b.known || c.Stats.Nulls >= c.Values { // no value has a part in them
		return
	}
	if c.Stats.Min == nil || c.Stats.Max == nil {
		b.known = false
		return
	}
	low, high := valueOf(k, c.Stats.Min), valueOf(k, c.Stats.Max)
	if b.min == nil || less(low, b.min) {
		b.min = low
	}
	if b.max == nil || less(b.max, high) {
		b.max = high
	}
}

// valueOf is a bound: a bool, an int64, a float64 or a string.
func valueOf(k pb.Kind, v []byte) any {
	le := binary.LittleEndian
	switch k {
	case pb.Kind_BOOL:
		return v[0] != 0
	case pb.Kind_INT32:
		return int64(int32(le.Uint32(v)))
	case pb.Kind_INT64:
		return int64(le.Uint64(v))
	case pb.Kind_FLOAT32:
		return float64(math.Float32frombits(le.Uint32(v)))
	case pb.Kind_FLOAT64:
		return math.Float64frombits(le.Uint64(v))
	}
	return string(v)
}

// less compares two bounds of a column, whose types are the same.
func less(a, b any) bool {
	switch a := a.(type) {
	case int64:
		return a < b.(int64) //nolint:forcetypeassert // see above
	case float64:
		return a < b.(float64) //nolint:forcetypeassert // see above
	case string:
		return a < b.(string) //nolint:forcetypeassert // see above
	}
	return a == false && b == true
}

// jsonOf is a bound as JSON can write it.
func jsonOf(v any) any {
	switch v := v.(type) {
	case float64:
		return printable(v)
	case string:
		return printableText([]byte(v))
	}
	return v
}

// kind is the type for people.
func (c shownColumn) kind() string {
	if c.Unsupported != "" {
		return "cannot be a feature: " + c.Unsupported
	}
	if c.Meaning != "" {
		return c.Type + " " + c.Meaning
	}
	return c.Type
}

// text is a bound for people: long ones are cut, and timestamps are written as such.
func (c shownColumn) text(v any) string {
	if v == nil {
		return ""
	}
	if n, ok := v.(int64); ok {
		switch c.Meaning {
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
	const most = 40
	text := []rune(fmt.Sprint(v))
	if s, ok := v.(string); ok {
		text = []rune(fmt.Sprintf("%q", s))
	}
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}

package offline

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/terminal"
	decoders "github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

const (
	// decodeBytes bounds what the decoder of the first rows may hold.
	decodeBytes = 1 << 30
	// pieceBytes is how much of a chunk is read at once.
	pieceBytes = 256 << 10
	// rowsBetween is how many rows are decoded at once of a file of which some are deleted.
	rowsBetween = 64
)

// row is one row, its columns in the schema's order.
type row []field

// field is one value of a row: nil, or what JSON can write.
type field struct {
	name  string
	value any
}

// MarshalJSON writes an object whose names are in order.
func (r row) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, f := range r {
		out.WriteByte("{,"[min(i, 1)])
		for j, part := range []any{f.name, f.value} {
			text, err := json.Marshal(part)
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", f.name, err)
			}
			out.WriteString([]string{"", ":"}[j])
			out.Write(text)
		}
	}
	if len(r) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// fields writes the row for people.
func (r row) fields() []string {
	out := make([]string, len(r))
	for i, f := range r {
		out[i] = terminal.Quoted(f.name) + "=" + show(f.value)
	}
	return out
}

// show writes a value for people, of a list no more than its first elements.
func show(v any) string {
	const limit = 5
	list, ok := v.([]any)
	switch {
	case v == nil:
		return "null"
	case !ok:
		return short(v)
	}
	parts := []string{}
	for _, x := range list[:min(len(list), limit)] {
		parts = append(parts, show(x))
	}
	if len(list) > limit {
		parts = append(parts, fmt.Sprintf("and %d more", len(list)-limit))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// firstOf is a file with no more extents than it takes for its first rows; nil: it says itself where these are.
func firstOf(f format.File, rows int64) (format.File, error) {
	of, ok := f.(format.Scanned)
	if !ok {
		return nil, nil //nolint:nilnil // as documented
	}
	var places []format.Place
	for i, e := range of.Extents() {
		if rows <= 0 {
			break
		}
		places = append(places, of.Place(i))
		rows -= e.Rows
	}
	return of.At(places)
}

// rows decodes a file's first rows, as a worker would.
func (d *shower) rows(ctx context.Context, of looked, schema spec.Schema, head int) (_ []row, err error) {
	f, holds := of.file, of.first
	if holds == nil {
		if holds, err = formats.LoadIndexed(ctx, d.st, d.profile, f, d.how, d.indexes, nil); err != nil {
			return nil, err
		}
	}
	left := func(c spec.Column) bool { return !canRead(c) }
	sources := d.sources(slices.DeleteFunc(slices.Clone(schema.Columns), left))
	b, err := format.Bind(f, holds, sources)
	if err != nil {
		return nil, err
	}
	decoder, err := decoders.New(holds.Format(), b.Sources)
	if err != nil {
		return nil, err
	}
	decoder.Memory().Allow(decodeBytes)
	keys := decoders.Constants{Own: b.Own, Memory: decoder.Memory()}
	if err := keys.Begin(b); err != nil {
		return nil, err
	}
	first := &firstRows{of: of, head: head, decoder: decoder, keys: &keys, sources: sources}
	for extent, e := range holds.Extents() {
		if len(first.out) == head || e.Rows == 0 {
			continue
		}
		chunks := make([]decode.Source, b.Chunks())
		for i := range chunks {
			chunks[i] = &chunk{ctx: ctx, shower: d, file: f, Range: b.Chunk(extent, i).Range}
		}
		if err := decoder.Reset(f.GetUri(), b.Bound, extent, chunks); err != nil {
			return nil, err
		}
		err := first.extent(e)
		if err != nil && !strings.Contains(err.Error(), f.GetUri()) { // that of a row's own bytes names the row alone
			err = fmt.Errorf("%s: %w", f.GetUri(), err)
		}
		if err != nil {
			return nil, err
		}
	}
	return first.out, nil
}

// firstRows collects the first rows of a file that are not deleted.
type firstRows struct {
	of      looked
	head    int
	decoder decoders.Decoder
	keys    *decoders.Constants
	sources []*pb.Source
	out     []row
}

// extent takes rows of an extent.
func (r *firstRows) extent(e format.Extent) error {
	for done := int64(0); done < e.Rows && len(r.out) < r.head; {
		want := int64(r.head - len(r.out))
		if len(r.of.gone) > 0 {
			want = max(want, rowsBetween)
		}
		n := int(min(want, e.Rows-done))
		vectors, err := decoders.Rows(r.decoder, e.FirstRow+done, n)
		if err == nil {
			vectors, err = r.keys.Join(vectors, n)
		}
		if err != nil {
			return err
		}
		chosen := make([]uint64, vector.Words(n))
		r.of.gone.Choose(chosen, e.FirstRow+done, n)
		for i := 0; i < n && len(r.out) < r.head; i++ {
			if chosen[i>>6]>>(i&63)&1 == 1 {
				r.out = append(r.out, rowOf(r.sources, vectors, i))
			}
		}
		done += int64(n)
	}
	return nil
}

// canRead reports whether a column is shown.
func canRead(c spec.Column) bool { return c.Unsupported == "" && c.Key == pb.Kind_KIND_UNSPECIFIED }

func rowOf(sources []*pb.Source, vectors []*vector.Vector, i int) row {
	r := make(row, len(vectors))
	for j, v := range vectors {
		r[j] = field{sources[j].GetName(), meant(sources[j], at(v, i))}
	}
	return r
}

// meant is a value with what its integers stand for in place of them, where numbers say it.
func meant(s *pb.Source, v any) any {
	switch v := v.(type) {
	case int64:
		if s.GetMeaning() == format.Unsigned {
			return uint64(v)
		}
	case []any:
		for i := range v {
			v[i] = meant(s, v[i])
		}
	}
	return v
}

// chunk is a decode.Source that reads a chunk piece by piece.
type chunk struct {
	ctx context.Context //nolint:containedctx // of the one call that it is made for
	*shower
	storage.Range
	file *pb.File
	at   int // of the chunk, where data begins
	data []byte
}

// Bytes is that of decode.Source.
func (c *chunk) Bytes(from, n int) ([]byte, error) {
	if from < c.at || from+n > c.at+len(c.data) {
		data := make([]byte, min(max(n, pieceBytes), int(c.Length)-from))
		if err := c.st.ReadAt(c.ctx, c.profile, c.file, data, c.Offset+int64(from)); err != nil {
			return nil, err
		}
		c.at, c.data = from, data
	}
	return c.data[from-c.at:], nil
}

// at is the value of a row.
func at(v *vector.Vector, i int) any {
	switch {
	case v.IsNull(i):
		return nil
	case !v.Type.List:
		return value(v, i)
	}
	return list(v, v.Nested, v.Offsets[i], v.Offsets[i+1])
}

// list is what lies from one place to another, of lists or, below the last level, of elements.
func list(v *vector.Vector, below []vector.Level, from, to int32) any {
	out := []any{}
	for j := int(from); j < int(to); j++ {
		switch {
		case len(below) > 0 && !below[0].IsNull(j):
			out = append(out, list(v, below[1:], below[0].Offsets[j], below[0].Offsets[j+1]))
		case len(below) > 0 || v.ElemIsNull(j):
			out = append(out, nil)
		default:
			out = append(out, value(v, j))
		}
	}
	return out
}

// value is one that is not null.
func value(v *vector.Vector, j int) any {
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		return v.Bool[j]
	case pb.Kind_INT32:
		return v.I32[j]
	case pb.Kind_INT64:
		return v.I64[j]
	case pb.Kind_FLOAT32:
		return printable(v.F32[j])
	case pb.Kind_FLOAT64:
		return printable(v.F64[j])
	}
	return printableText(v.Data[v.Ends[j]:v.Ends[j+1]])
}

// printable is a number as JSON can write it: what is none is text.
func printable[F float32 | float64](x F) any {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return fmt.Sprint(x)
	}
	return x
}

// printableText is text, or the hexadecimal digits of what is no UTF-8.
func printableText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "0x" + hex.EncodeToString(b)
}

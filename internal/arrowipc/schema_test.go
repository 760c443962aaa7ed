package arrowipc

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/endian"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// schemaBytes is a schema's message.
func schemaBytes(t testing.TB, s *arrow.Schema) []byte {
	t.Helper()
	var sent messages
	if err := flight.NewRecordWriter(&sent, ipc.WithSchema(s)).Close(); err != nil {
		t.Fatal(err)
	}
	return sent[0].DataHeader
}

type messages []*flight.FlightData

func (m *messages) Send(d *flight.FlightData) error {
	*m = append(*m, d)
	return nil
}

// richSchema has what a schema may have, nested, and with metadata.
func richSchema() *arrow.Schema {
	meta := arrow.NewMetadata([]string{"key", strings.Repeat("k", 300)}, []string{"value", ""})
	inner := arrow.StructOf(
		arrow.Field{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Berlin"}},
		arrow.Field{Name: "cut", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), Metadata: meta},
		arrow.Field{
			Name: "union",
			Type: arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}},
				[]arrow.UnionTypeCode{5}),
		},
	)
	return arrow.NewSchema([]arrow.Field{
		{Name: "lists", Type: arrow.ListOf(arrow.ListOf(inner)), Nullable: true},
		{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)},
		{Name: "", Type: arrow.Null},
	}, &meta)
}

func TestSchemas(t *testing.T) {
	wide := make([]arrow.Field, 2000)
	for i := range wide {
		wide[i] = arrow.Field{Name: "same", Type: arrow.PrimitiveTypes.Int64}
	}
	for _, want := range []*arrow.Schema{richSchema(), arrow.NewSchema(wide, nil), arrow.NewSchema(nil, nil)} {
		if got, err := Schema(schemaBytes(t, want)); err != nil || !got.Equal(want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
}

// TestHostileSchemas: what is longer than the message, or within itself, is refused before arrow's reader sees it,
// which would take all memory, or overflow the stack.
func TestHostileSchemas(t *testing.T) {
	le := binary.LittleEndian
	fields := func(b []byte) int { // where the vector of fields is
		root, _ := follow(b, 0)
		schema, _ := Table{b, root}.Table(2)
		pos, _ := schema.field(1, 4)
		at, ok := follow(b, pos)
		if !ok {
			t.Fatal("no fields")
		}
		return at
	}
	for name, spoil := range map[string]func(b []byte, at int){
		"fields without end": func(b []byte, at int) { le.PutUint32(b[at:], 1<<32-1) },
		"a child that is its parent": func(b []byte, at int) {
			first, _ := follow(b, int64(at)+4)
			pos, _ := Table{b, first}.field(5, 4)
			children, _ := follow(b, pos)
			le.PutUint32(b[children+4:], uint32(first-children-4))
		},
		"a name without end": func(b []byte, at int) {
			first, _ := follow(b, int64(at)+4)
			pos, _ := Table{b, first}.field(0, 4)
			name, _ := follow(b, pos)
			le.PutUint32(b[name:], 1<<31)
		},
		"a field outside": func(b []byte, at int) { le.PutUint32(b[at+4:], uint32(len(b))) },
	} {
		b := schemaBytes(t, richSchema())
		spoil(b, fields(b))
		if s, err := Schema(b); !errors.Is(err, errSchema) {
			t.Errorf("%s: got %v, %v, want %v", name, s, err, errSchema)
		}
	}
	if s, err := Schema(schemaBytes(t, richSchema().WithEndianness(endian.BigEndian))); !errors.Is(err, errEndian) {
		t.Errorf("big-endian: got %v, %v, want %v", s, err, errEndian)
	}
	deep := arrow.DataType(arrow.PrimitiveTypes.Int64)
	for range 2 * maxDepth {
		deep = arrow.ListOf(deep)
	}
	if s, err := Schema(schemaBytes(t, arrow.NewSchema([]arrow.Field{{Name: "deep", Type: deep}},
		nil))); !errors.Is(err, errSchema) {
		t.Errorf("%d lists in each other: got %v, %v, want %v", 2*maxDepth, s, err, errSchema)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(schemaBytes(f, richSchema()))
	f.Add(schemaBytes(f, arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)))
	f.Fuzz(func(t *testing.T, header []byte) {
		if s, err := Schema(header); err == nil && s == nil {
			t.Error("neither a schema nor an error")
		}
	})
}

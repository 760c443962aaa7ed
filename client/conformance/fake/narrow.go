package fake

import (
	"encoding/binary"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/wire"
)

// Narrow has each int64 array of a batch take the least of 1, 2, 3, 4 and 8 bytes a value that hold all of its values.
func Narrow(b *wire.Batch, schema *arrow.Schema) {
	eachLong(b, schema, func(values []byte) []byte {
		var bits uint64
		for i := 0; i < len(values); i += 8 {
			bits |= binary.LittleEndian.Uint64(values[i:])
		}
		for _, width := range []int{1, 2, 3, 4} {
			if bits < 1<<(8*width) {
				return ofWidth(values, width)
			}
		}
		return values
	})
}

// ofWidth has the lowest bytes of values.
func ofWidth(values []byte, width int) []byte {
	out := make([]byte, 0, len(values)/8*width)
	for i := 0; i < len(values); i += 8 {
		out = append(out, values[i:i+width]...)
	}
	return out
}

// eachLong changes the values of each int64 array that has some.
func eachLong(b *wire.Batch, schema *arrow.Schema, f func(values []byte) []byte) {
	nodes, buffers := b.Nodes, b.Buffers
	var walk func(t arrow.DataType)
	walk = func(t arrow.DataType) {
		n, had := int(nodes[0].Length), len(t.Layout().Buffers)
		if t.ID() == arrow.INT64 && n > 0 {
			buffers[1] = f(buffers[1][:min(8*n, len(buffers[1]))]) // Arrow's may be longer
		}
		nodes, buffers = nodes[1:], buffers[had:]
		if t, ok := t.(arrow.NestedType); ok {
			for _, field := range t.Fields() {
				walk(field.Type)
			}
		}
	}
	for _, field := range schema.Fields() {
		walk(field.Type)
	}
}

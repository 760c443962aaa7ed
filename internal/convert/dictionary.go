package convert

import (
	"math/bits"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// sampledValues is how many values of a column are looked at.
const sampledValues = 1 << 16

// dictionaryPays estimates, by a column's first values, whether a dictionary and indices into it take clearly less
// space than the values as they are.
func dictionaryPays(chunks []arrow.Array) bool {
	seen := map[string]struct{}{}
	values, plain, dictionary := 0, 0, 0
	for _, chunk := range chunks {
		for j := 0; j < chunk.Len() && values < sampledValues; j++ {
			if chunk.IsNull(j) {
				continue
			}
			v := valueBytes(chunk, j)
			if v == nil {
				return false
			}
			values++
			plain += len(v)
			if _, ok := seen[string(v)]; !ok {
				seen[string(v)] = struct{}{}
				dictionary += len(v)
			}
		}
	}
	indices := values * bits.Len(uint(len(seen))) / 8
	return (dictionary+indices)*10 < plain*7
}

// leaves are the values of a column, in the order in which Parquet has them.
func leaves(a arrow.Array) (out []arrow.Array) {
	switch a := a.(type) {
	case *array.Struct:
		for i := range a.NumField() {
			out = append(out, leaves(a.Field(i))...)
		}
		return out
	case *array.Map:
		return append(leaves(a.Keys()), leaves(a.Items())...)
	case array.ListLike:
		return leaves(a.ListValues())
	}
	return []arrow.Array{a}
}

// valueBytes is value j as it lies in memory, or nil if the type has no dictionaries.
func valueBytes(a arrow.Array, j int) []byte {
	switch a := a.(type) {
	case *array.Binary:
		return append(make([]byte, 0, 4), a.Value(j)...)
	case *array.String:
		return []byte(a.Value(j))
	}
	t, ok := a.DataType().(arrow.FixedWidthDataType)
	if !ok || t.BitWidth()%8 != 0 {
		return nil
	}
	width := t.BitWidth() / 8
	at := (a.Data().Offset() + j) * width
	return a.Data().Buffers()[1].Bytes()[at : at+width]
}

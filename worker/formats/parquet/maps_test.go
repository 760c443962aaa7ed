package parquet

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
)

const mapKeys = 50

// featureMaps appends maps of most of 50 keys: to scalars, lists of five ids on average, or as many ids with scores.
func featureMaps(b array.Builder, r *rand.Rand, _ int) {
	m := b.(*array.MapBuilder)
	m.Append(true)
	for key := range mapKeys {
		if r.IntN(4) == 0 {
			continue
		}
		m.KeyBuilder().(*array.Int64Builder).Append(int64(key))
		switch values := m.ItemBuilder().(type) {
		case *array.Float32Builder:
			values.Append(r.Float32())
		case *array.ListBuilder:
			values.Append(true)
			for range r.IntN(11) {
				values.ValueBuilder().(*array.Int64Builder).Append(int64(r.IntN(1000)) << 30)
			}
		case *array.MapBuilder:
			values.Append(true)
			for range r.IntN(11) {
				values.KeyBuilder().(*array.Int64Builder).Append(int64(r.IntN(1000)) << 30)
				values.ItemBuilder().(*array.Float32Builder).Append(r.Float32())
			}
		}
	}
}

// mapSources are so many keys of the map, and both fields of those of a map of maps.
func mapSources(keys int, of arrow.DataType) (sources []*pb.Source) {
	for key := range keys {
		text := fmt.Sprint(key * mapKeys / keys)
		add := func(kind pb.Kind, list bool, field ...string) {
			sources = append(sources, &pb.Source{
				Name: fmt.Sprint("x.", text, field), Path: []string{"x"}, Key: &text, Field: field,
				Type: &pb.Type{Kind: kind, List: list},
			})
		}
		switch of.ID() {
		case arrow.FLOAT32:
			add(pb.Kind_FLOAT32, false)
		case arrow.LIST:
			add(pb.Kind_INT64, true)
		default:
			add(pb.Kind_INT64, true, "key")
			add(pb.Kind_FLOAT32, true, "value")
		}
	}
	return sources
}

func mapsOf(b testing.TB, of arrow.DataType) []byte {
	t := column1(arrow.MapOf(arrow.PrimitiveTypes.Int64, of), false, featureMaps)
	return writeTable(b, t, kindRows, parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithCompression(compress.Codecs.Zstd))
}

// mapTypes are the types of values of feature tables.
func mapTypes() map[string]arrow.DataType {
	return map[string]arrow.DataType{
		"scalars": arrow.PrimitiveTypes.Float32, "lists": arrow.ListOf(arrow.PrimitiveTypes.Int64),
		"scores": arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32),
	}
}

// BenchmarkMaps decodes 3 and 15 of 50 keys.
func BenchmarkMaps(b *testing.B) {
	for name, of := range mapTypes() {
		data := mapsOf(b, of)
		for _, keys := range []int{3, 15} {
			b.Run(fmt.Sprintf("%s/%d", name, keys), func(b *testing.B) {
				benchSources(b, data, mapSources(keys, of), kindRows)
			})
		}
	}
}

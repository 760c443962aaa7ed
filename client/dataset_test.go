package client

import (
	"fmt"
	"math/rand/v2"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/position"
)

// dataset is what the fakes of these tests read: every value of a row follows from the row's id.
type dataset struct {
	epochs uint32
	// shards[i][w] is the number of output rows of window w; blocks have blockShards shards.
	shards      [][]int
	blockShards int
}

func newDataset(seed uint64, epochs uint32, shards int) *dataset {
	r := rand.New(rand.NewPCG(seed, 1))
	d := &dataset{epochs: epochs, blockShards: 3}
	for range shards {
		windows := make([]int, 1+r.IntN(4))
		for w := range windows {
			windows[w] = r.IntN(60)
			if r.IntN(4) == 0 {
				windows[w] = 0 // all rows filtered out
			}
		}
		d.shards = append(d.shards, windows)
	}
	return d
}

// rows of one epoch.
func (d *dataset) rows() int {
	n := 0
	for _, windows := range d.shards {
		for _, rows := range windows {
			n += rows
		}
	}
	return n
}

// start is the position of shard i, or of what follows it.
func (d *dataset) start(epoch uint32, i int) position.Position {
	if i >= len(d.shards) {
		return position.Position{Epoch: epoch + 1}
	}
	return position.Position{Epoch: epoch, Block: uint32(i / d.blockShards), Shard: uint32(i % d.blockShards)}
}

func (d *dataset) index(p position.Position) int { return int(p.Block)*d.blockShards + int(p.Shard) }

// row is one row's id, unique in the session.
type row struct {
	epoch  uint32
	shard  int
	window int
	k      int
}

func (r row) id() int64 {
	return int64(r.epoch)*1e9 + int64(r.shard)*1e6 + int64(r.window)*1e4 + int64(r.k)
}

func rowOf(id int64) row {
	return row{epoch: uint32(id / 1e9), shard: int(id / 1e6 % 1e3), window: int(id / 1e4 % 100), k: int(id % 1e4)}
}

func metadata(kv ...string) arrow.Metadata {
	m := make(map[string]string)
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return arrow.MetadataFrom(m)
}

// wireSchema has a column of each layout.
func wireSchema() *arrow.Schema {
	scored := arrow.StructOf(arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32})
	field := func(name string, t arrow.DataType, kv ...string) arrow.Field {
		return arrow.Field{Name: name, Type: t, Metadata: metadata(kv...)}
	}
	return arrow.NewSchema([]arrow.Field{
		field("dense", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), "penstock.layout", "dense", "penstock.names", `["a","b"]`),
		field("ids", arrow.ListOf(arrow.PrimitiveTypes.Int64), "penstock.layout", "sparse"),
		field("sizes", arrow.ListOf(arrow.PrimitiveTypes.Float32), "penstock.layout", "sparse"),
		field("scored", arrow.ListOf(scored), "penstock.layout", "sparse"),
		field("label", arrow.PrimitiveTypes.Int64, "penstock.layout", "label"),
		field("click", arrow.FixedWidthTypes.Boolean, "penstock.layout", "label"),
		field("text", arrow.BinaryTypes.Binary, "penstock.layout", "bytes"),
		field("pixel", arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Uint8), "penstock.layout", "image", "penstock.shape", "2,2,1"),
		field("_file", arrow.PrimitiveTypes.Int32),
		field("_row", arrow.PrimitiveTypes.Int64),
	}, nil)
}

// listLen is how many sparse values a row has.
func listLen(id int64) int { return int(id % 4) }

// wireRows is the record batch of rows.
func wireRows(rows []row) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, wireSchema())
	defer b.Release()
	dense := b.Field(0).(*array.FixedSizeListBuilder)
	ids, sizes, scored := b.Field(1).(*array.ListBuilder), b.Field(2).(*array.ListBuilder), b.Field(3).(*array.ListBuilder)
	pair := scored.ValueBuilder().(*array.StructBuilder)
	pixel := b.Field(7).(*array.FixedSizeListBuilder)
	for _, r := range rows {
		id := r.id()
		dense.Append(true)
		dense.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(r.window), float32(r.k)}, nil)
		ids.Append(true)
		sizes.Append(true)
		scored.Append(true)
		for j := range listLen(id) {
			ids.ValueBuilder().(*array.Int64Builder).Append(id + int64(j))
			sizes.ValueBuilder().(*array.Float32Builder).Append(float32(r.k) + float32(j))
			pair.Append(true)
			pair.FieldBuilder(0).(*array.Int64Builder).Append(id * int64(j))
			pair.FieldBuilder(1).(*array.Float32Builder).Append(float32(j) / 2)
		}
		b.Field(4).(*array.Int64Builder).Append(id)
		b.Field(5).(*array.BooleanBuilder).Append(r.k%3 == 0)
		b.Field(6).(*array.BinaryBuilder).Append([]byte(fmt.Sprint(id)))
		pixel.Append(true)
		pixel.ValueBuilder().(*array.Uint8Builder).AppendValues([]byte{byte(r.k), 1, 2, byte(r.window)}, nil)
		b.Field(8).(*array.Int32Builder).Append(int32(r.shard))
		b.Field(9).(*array.Int64Builder).Append(int64(r.k))
	}
	return b.NewRecord()
}

// checkBatch compares every value of a batch with what its rows' ids say, and returns the ids.
func checkBatch(b *Batch) ([]int64, error) {
	ids := b.Labels[0].I64
	if len(ids) != b.Rows {
		return nil, fmt.Errorf("%d labels for %d rows", len(ids), b.Rows)
	}
	for i, id := range ids {
		r := rowOf(id)
		lo, hi := b.Sparse[0].Offsets[i], b.Sparse[0].Offsets[i+1]
		t := b.Bytes[0]
		ok := r.epoch == b.Epoch && b.Dense[2*i] == float32(r.window) && b.Dense[2*i+1] == float32(r.k) &&
			int(hi-lo) == listLen(id) && b.Labels[1].Bool[i] == (r.k%3 == 0) &&
			string(t.Data[t.Offsets[i]:t.Offsets[i+1]]) == fmt.Sprint(id) &&
			b.Images[0].Data[4*i] == byte(r.k) && b.Images[0].Data[4*i+3] == byte(r.window) &&
			b.Files[i] == int32(r.shard) && b.RowIDs[i] == int64(r.k)
		for j := range int(hi - lo) {
			at := int(lo) + j
			ok = ok && b.Sparse[0].Values[at] == id+int64(j) && b.Sparse[1].Floats[at] == float32(r.k)+float32(j) &&
				b.Sparse[2].Values[at] == id*int64(j) && b.Sparse[2].Weights[at] == float32(j)/2
		}
		if !ok {
			return nil, fmt.Errorf("row %d of the batch (%+v) has wrong values", i, r)
		}
	}
	return ids, nil
}

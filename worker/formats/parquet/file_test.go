package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// writeTable writes a table as a Parquet file of row groups of groupRows rows.
func writeTable(t testing.TB, table arrow.Table, groupRows int64, options ...parquet.WriterProperty) []byte {
	t.Helper()
	var out bytes.Buffer
	props := parquet.NewWriterProperties(options...)
	err := pqarrow.WriteTable(table, &out, groupRows, props,
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	return out.Bytes()
}

// readTable reads a file by pqarrow.
func readTable(t testing.TB, data []byte) arrow.Table {
	t.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("pqarrow: %v", err)
	}
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatalf("pqarrow: %v", err)
	}
	table, err := fr.ReadTable(t.Context())
	if err != nil {
		t.Fatalf("pqarrow: %v", err)
	}
	return table
}

// readFooter reads the footer of a file in memory.
func readFooter(data []byte) (*footer.Footer, error) {
	if len(data) < 12 {
		return nil, fmt.Errorf("%d bytes", len(data))
	}
	n := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	if n > len(data)-12 {
		return nil, fmt.Errorf("footer of %d bytes in %d", n, len(data))
	}
	return footer.Read(data[len(data)-8-n : len(data)-8])
}

// sourcesOf selects all columns of a file that can be features; of maps, only keys and values.
func sourcesOf(f *footer.Footer) []*pb.Source {
	var out []*pb.Source
	for _, c := range f.Schema.Columns {
		if c.Unsupported == "" && c.Key == pb.Kind_KIND_UNSPECIFIED {
			out = append(out, &pb.Source{Name: c.Name, Path: c.Path, Type: c.Type.Proto(), Meaning: c.Meaning})
		}
	}
	return out
}

// withOwn has them once more as the kinds that the file has, where no op computes with these.
func withOwn(f *footer.Footer) []*pb.Source {
	out := sourcesOf(f)
	for _, c := range f.Schema.Columns {
		if c.Unsupported != "" || c.Key != pb.Kind_KIND_UNSPECIFIED || c.Own == pb.Kind_KIND_UNSPECIFIED {
			continue
		}
		s := &pb.Source{Name: c.Name, Path: c.Path, Type: c.Type.Proto(), Meaning: c.Meaning}
		s.Type.Kind = c.Own
		out = append(out, s)
	}
	return out
}

// chunksOf cuts the chunks of a row group out of a file.
func chunksOf(d *Decoder, f *footer.Footer, rg int, data []byte) ([][]byte, error) {
	ranges, err := d.chunksOf(f, rg)
	if err != nil {
		return nil, err
	}
	chunks := make([][]byte, len(ranges))
	for i, r := range ranges {
		if r.Offset < 0 || r.Length < 0 || r.Offset > int64(len(data)) || r.Length > int64(len(data))-r.Offset {
			return nil, fmt.Errorf("chunk %d lies outside of the file", i)
		}
		chunks[i] = data[r.Offset:][:r.Length:r.Length]
	}
	return chunks, nil
}

// eachPage calls f with the pages of a chunk: where they lie, and their headers.
func eachPage(t testing.TB, chunk []byte, f func(at int, h *header)) {
	t.Helper()
	for at := 0; at < len(chunk); {
		var h header
		if err := h.read(chunk[at:], len(chunk)-at); err != nil {
			t.Fatal(err)
		}
		next := at + h.size + h.stored
		f(at, &h)
		at = next
	}
}

// rewritten is a chunk whose data pages of version 2 have the headers that change makes of theirs.
func rewritten(t testing.TB, chunk []byte, change func(h *header)) (out []byte) {
	t.Helper()
	eachPage(t, chunk, func(at int, h *header) {
		head, body := chunk[at:][:h.size], chunk[at+h.size:][:h.stored]
		if h.kind == dataPageV2 {
			change(h)
			head = headerV2(h)
		}
		out = slices.Concat(out, head, body)
	})
	return out
}

// headerV2 writes a header as parquet.thrift has it, without a checksum.
func headerV2(h *header) (out []byte) {
	ints := func(fields ...int) {
		for _, v := range fields {
			out = binary.AppendVarint(append(out, 1<<4|byte(thrift.I32)), int64(v))
		}
	}
	ints(dataPageV2, h.uncompressed, h.stored)
	out = append(out, 5<<4|byte(thrift.Struct))
	ints(h.values, 0, h.rows, int(h.encoding), h.defLength, h.repLength)
	if !h.packed {
		out = append(out, 1<<4|byte(thrift.False))
	}
	return append(out, 0, 0)
}

// columnOf is a decoder of a source of a file's only row group, whose chunk change replaces.
func columnOf(t testing.TB, data []byte, source int, change func(chunk []byte) []byte) *Decoder {
	t.Helper()
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(sourcesOf(f)[source:source+1], testMemory)
	chunks, err := chunksOf(d, f, 0, data)
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := leavesOf(f, d.sources)
	if err != nil {
		t.Fatal(err)
	}
	chunks[0] = change(chunks[0])
	f.RowGroups[0].Chunks[leaves[0]].Length = int64(len(chunks[0]))
	if err := d.reset("test.parquet", f, 0, chunks); err != nil {
		t.Fatal(err)
	}
	return d
}

// skipAndRead reads what is left of a row group behind some rows, in windows.
func skipAndRead(d *Decoder, skip, window int) (rows []any, err error) {
	for err = d.Skip(skip); err == nil && d.rowsLeft > 0; {
		vectors, nextErr := d.Next(int(min(int64(window), d.rowsLeft)))
		if err = nextErr; err == nil {
			rows = append(rows, rowtest.Of(vectors[0])...)
		}
	}
	return rows, err
}

// pieces is a chunk of which a Source gives no more than it must, and takes it back with the next call.
type pieces struct {
	data []byte
	at   int
	last []byte
}

func (p *pieces) Bytes(from, n int) ([]byte, error) {
	if from < p.at || from+n > len(p.data) {
		return nil, fmt.Errorf("%d bytes at %d wanted, after those at %d, of a chunk of %d", n, from, p.at, len(p.data))
	}
	for i := range p.last {
		p.last[i] ^= 0x55
	}
	p.at, p.last = from, slices.Clone(p.data[from:from+n])
	return p.last, nil
}

// decodePieces is decodeAll of chunks that are not in memory as a whole.
func decodePieces(d *Decoder, f *footer.Footer, data []byte, window, skip int) ([][]any, error) {
	return decodeBy(d, f, data, window, skip, func(rg int, chunks [][]byte) error {
		sources := make([]decode.Source, len(chunks))
		for i, data := range chunks {
			sources[i] = &pieces{data: data}
		}
		return d.resetSources("test.parquet", f, rg, sources)
	})
}

// decodeAll reads a file in windows and returns its sources' rows: for each source, all its values.
func decodeAll(d *Decoder, f *footer.Footer, data []byte, window, skip int) ([][]any, error) {
	return decodeBy(d, f, data, window, skip,
		func(rg int, chunks [][]byte) error { return d.reset("test.parquet", f, rg, chunks) })
}

func decodeBy(
	d *Decoder, f *footer.Footer, data []byte, window, skip int, reset func(rg int, chunks [][]byte) error,
) ([][]any, error) {
	out := make([][]any, len(d.sources))
	for rg := range f.RowGroups {
		chunks, err := chunksOf(d, f, rg, data)
		if err != nil {
			return nil, err
		}
		if err := reset(rg, chunks); err != nil {
			return nil, err
		}
		left := int(f.RowGroups[rg].Rows)
		skipped := min(skip, left)
		if err := d.Skip(skipped); err != nil {
			return nil, err
		}
		for left -= skipped; ; {
			n := min(window, left)
			vectors, err := d.Next(n)
			if err != nil {
				return nil, err
			}
			for i, v := range vectors {
				out[i] = append(out[i], rowtest.Of(v)...)
			}
			if left -= n; left == 0 {
				break
			}
		}
	}
	return out, nil
}

// arrowRows writes a column of a table in the same way, as the kind that it is read as.
func arrowRows(c *arrow.Chunked, kind pb.Kind) []any {
	var rows []any
	for _, a := range c.Chunks() {
		for i := range a.Len() {
			rows = append(rows, arrowValue(a, i, kind))
		}
	}
	return rows
}

func arrowValue(a arrow.Array, i int, kind pb.Kind) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Struct:
		return arrowValue(a.Field(0), i, kind)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		list := []any{}
		for j := from; j < to; j++ {
			list = append(list, arrowValue(a.ListValues(), int(j), kind))
		}
		return list
	case *array.Boolean:
		return a.Value(i)
	case *array.Binary:
		return string(a.Value(i))
	case *array.String:
		return a.Value(i)
	case *array.FixedSizeBinary:
		return string(a.Value(i))
	case *array.Decimal128:
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(a.DataType().(*arrow.Decimal128Type).Scale)), nil)
		nearest, _ := new(big.Rat).SetFrac(a.Value(i).BigInt(), power).Float64()
		return math.Float64bits(nearest)
	case *array.Float16:
		return math.Float32bits(format.Float16(a.Value(i).Uint16()))
	case *array.Float32:
		return math.Float32bits(a.Value(i))
	case *array.Float64:
		return math.Float64bits(a.Value(i))
	}
	return arrowInteger(a, i, kind)
}

func arrowInteger(a arrow.Array, i int, kind pb.Kind) any {
	var v int64
	switch a := a.(type) {
	case *array.Int8:
		v = int64(a.Value(i))
	case *array.Uint8:
		v = int64(a.Value(i))
	case *array.Int16:
		v = int64(a.Value(i))
	case *array.Uint16:
		v = int64(a.Value(i))
	case *array.Int32:
		v = int64(a.Value(i))
	case *array.Uint32:
		v = int64(a.Value(i))
	case *array.Int64:
		v = a.Value(i)
	case *array.Uint64:
		v = int64(a.Value(i))
	case *array.Date32:
		v = int64(a.Value(i))
	case *array.Timestamp:
		v = int64(a.Value(i))
	default:
		panic(fmt.Sprintf("%T", a))
	}
	switch kind {
	case pb.Kind_INT32, pb.Kind_INT8, pb.Kind_INT16, pb.Kind_UINT8, pb.Kind_UINT16:
		return int32(v)
	}
	return v
}

// compare reports the first row in which a source's rows differ from what is wanted.
func compare(t testing.TB, what string, got, want []any,
) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range got {
		if g, w := fmt.Sprintf("%T %[1]v", got[i]), fmt.Sprintf("%T %[1]v", want[i]); g != w {
			t.Fatalf("%s: row %d is %s, want %s", what, i, g, w)
		}
	}
}

// withoutFirst leaves out the first n rows of each row group.
func withoutFirst(rows []any, f *footer.Footer, n int) []any {
	var out []any
	for _, g := range f.RowGroups {
		group := rows[g.FirstRow:][:g.Rows]
		out = append(out, group[min(n, len(group)):]...)
	}
	return out
}

// lookUp finds the last value of a key in each row of a map, widened to kind.
func lookUp(keys, values []any, key any, kind pb.Kind) []any {
	out := make([]any, len(keys))
	for i := range keys {
		if keys[i] == nil {
			continue
		}
		for j, k := range keys[i].([]any) {
			if k != key {
				continue
			}
			out[i] = values[i].([]any)[j]
			if bits, ok := out[i].(uint32); ok && kind == pb.Kind_FLOAT64 {
				out[i] = math.Float64bits(float64(math.Float32frombits(bits)))
			}
		}
	}
	return out
}

// Package formattest is the suite that the decoders of all formats pass: a table decodes to the same as its twin in
// Parquet, bit for bit, from every cursor, whether chunks are in memory as a whole or come piece by piece; and damage
// is an error or other values, never a panic.
package formattest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	decoders "github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// Write writes records to a file of the format under test.
type Write func(t testing.TB, s *arrow.Schema, records []arrow.Record) []byte

// Run tests a format by files that write wrote.
func Run(t *testing.T, write Write) {
	t.Helper()
	t.Run("twins", func(t *testing.T) { twins(t, write) })
	t.Run("damage", func(t *testing.T) { damage(t, write) })
}

func twins(t *testing.T, write Write) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := filetest.Schema(r)
		records := filetest.Records(r, s, 1+r.IntN(200), 0, 1+r.IntN(90))
		Equal(t, fmt.Sprintf("seed %d", seed), filetest.Parquet(t, s, records), write(t, s, records))
	}
}

// Equal holds the rows of a file against those of another one, whose row groups may be others.
func Equal(t *testing.T, what string, twin, file []byte) {
	t.Helper()
	want, got := open(t, twin), open(t, file)
	sources := sourcesOf(want.Columns())
	if len(sources) == 0 {
		t.Fatalf("%s: there is nothing to compare", what)
	}
	if a, b := readable(got), readable(want); !reflect.DeepEqual(a, b) {
		t.Fatalf("%s: columns\n%+v, want\n%+v", what, a, b)
	}
	rows := decodeAll(t, what, want, twin, sources, 1<<20, 0, false)
	compareOwn(t, what, sources, rows)
	compareKeys(t, what, sources, rows)
	for i, window := range []int{1, 7, 64, 1 << 20} {
		for j, skip := range []int{0, 1, 9, len(rows) / 2, len(rows)} {
			skip, pieces := min(skip, len(rows)), (i+j)%2 == 1
			what := fmt.Sprintf("%s: windows of %d from row %d on, piecewise %v", what, window, skip, pieces)
			have := decodeAll(t, what, got, file, sources, window, skip, pieces)
			compare(t, what, sources, have, rows[skip:])
		}
	}
}

// Schema is what specs see of a file.
func Schema(t testing.TB, data []byte) spec.Schema {
	t.Helper()
	return open(t, data).Columns().Schema
}

// Rows are those of a file, as Go values.
func Rows(t testing.TB, data []byte, sources ...*pb.Source) [][]any {
	t.Helper()
	return decodeAll(t, "rows", open(t, data), data, sources, 64, 0, false)
}

// readable are the columns of a file that can be features, or could beside files that have a type for them.
func readable(f format.File) (columns []spec.Column) {
	for _, c := range f.Columns().Schema.Columns {
		if c.Unsupported == "" || c.Untyped {
			columns = append(columns, c)
		}
	}
	return columns
}

func compare(t *testing.T, what string, sources []*pb.Source, got, want [][]any) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		for j, s := range sources {
			if !reflect.DeepEqual(got[i][j], want[i][j]) {
				t.Fatalf("%s: row %d of %s is %v, want %v", what, i, s.GetName(), got[i][j], want[i][j])
			}
		}
	}
}

// compareOwn holds sources of the kinds that the file has against those of the kinds that stand in for them, and lists
// without a type against those of fewer levels, which come before these.
func compareOwn(t *testing.T, what string, sources []*pb.Source, rows [][]any) {
	t.Helper()
	for j, s := range sources {
		if j == 0 || !slices.Equal(s.GetPath(), sources[j-1].GetPath()) ||
			!slices.Equal(s.GetField(), sources[j-1].GetField()) || !spec.Small(s.GetType().GetKind()) &&
			s.GetType().GetNested() <= sources[j-1].GetType().GetNested() {
			continue
		}
		for i, row := range rows {
			if !reflect.DeepEqual(row[j], row[j-1]) {
				t.Fatalf("%s: row %d of %s is %v, want %v", what, i, s.GetName(), row[j], row[j-1])
			}
		}
	}
}

// compareKeys holds keys of maps against what all keys and all values of the maps say: the last entry of a key counts.
func compareKeys(t *testing.T, what string, sources []*pb.Source, rows [][]any) {
	t.Helper()
	all := func(s *pb.Source, kind pb.Kind, more ...string) int {
		path := slices.Concat(s.GetPath(), more)
		return slices.IndexFunc(sources, func(s *pb.Source) bool {
			return s.Key == nil && slices.Equal(s.GetPath(), path) && (kind == 0 || s.GetType().GetKind() == kind)
		})
	}
	for i, s := range sources {
		if s.Key == nil {
			continue
		}
		keys := all(s, 0, "key")
		values := all(s, s.GetType().GetKind(), append([]string{"value"}, s.GetField()...)...)
		for n, row := range rows {
			var want any
			entries, _ := row[keys].([]any)
			for j, key := range entries {
				if text, ok := key.(string); ok && text == s.GetKey() || !ok && fmt.Sprint(key) == s.GetKey() {
					want = row[values].([]any)[j]
				}
			}
			if !reflect.DeepEqual(row[i], want) {
				t.Fatalf("%s: row %d of %s is %v, want %v", what, n, s.GetName(), row[i], want)
			}
		}
	}
}

// damage changes bytes of files: a decoder may fail, or not see it.
func damage(t *testing.T, write Write) {
	failed, survived := 0, 0
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := filetest.Schema(r)
		good := write(t, s, filetest.Records(r, s, 20, 15))
		for range 300 {
			data := bytes.Clone(good)
			for range 1 + r.IntN(4) {
				data[r.IntN(len(data))] = byte(r.Uint32())
			}
			if Read(t.Context(), data) == nil {
				survived++
			} else {
				failed++
			}
		}
	}
	if failed == 0 || survived == 0 {
		t.Errorf("of damaged files %d failed and %d did not: both are expected", failed, survived)
	}
}

// Read decodes all of a file that may be damaged.
func Read(ctx context.Context, data []byte) error {
	st := &filetest.One{URI: "mem://file", Data: data}
	f, err := formats.Load(ctx, st, "", st.File(), nil)
	if err != nil {
		return err
	}
	return read(f, data)
}

func read(f format.File, data []byte) error {
	sources := sourcesOf(f.Columns())
	b, err := f.Bind(sources)
	if err != nil {
		return err
	}
	d, err := decoders.New(f.Format(), sources)
	if err != nil {
		return err
	}
	d.Memory().Allow(64 << 20)
	for extent, e := range f.Extents() {
		if e.Rows > 1<<16 {
			return fmt.Errorf("%d rows are claimed", e.Rows)
		}
		if err := d.Reset("mem://file", b, extent, chunksOf(b, extent, data, false)); err != nil {
			return err
		}
		if _, err := decoders.Rows(d, e.FirstRow, int(e.Rows)); err != nil {
			return err
		}
	}
	return nil
}

func open(t testing.TB, data []byte) format.File {
	t.Helper()
	st := &filetest.One{URI: "mem://file", Data: data}
	f, err := formats.Load(t.Context(), st, "", st.File(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// absentSources is how many of sourcesOf come first that no file has.
const absentSources = 3

// sourcesOf are all columns that can be read, some keys of maps, and what is not in the file.
func sourcesOf(c *format.Columns) []*pb.Source {
	absent := &pb.Value{Kind: &pb.Value_Int{Int: 7}}
	sources := []*pb.Source{
		{Name: "absent", Path: []string{"absent"}, Type: &pb.Type{Kind: pb.Kind_INT64}, Default: absent},
		{Name: "null", Path: []string{"null"}, Type: &pb.Type{Kind: pb.Kind_BINARY, List: true}},
		{Name: "null lists", Path: []string{"null"}, Type: &pb.Type{Kind: pb.Kind_INT16, List: true, Nested: 2}},
	}
	for _, column := range c.Schema.Columns {
		if column.Untyped && column.Type.List {
			sources = append(sources, anyDepth(column)...)
		}
		if column.Unsupported != "" {
			continue
		}
		keys := []*string{nil}
		if column.Key != pb.Kind_KIND_UNSPECIFIED {
			keys = []*string{new("1"), new("2"), new("300")}
		}
		if column.Key == pb.Kind_BINARY {
			keys = append(keys, new("1.x"))
		}
		for _, key := range keys {
			for _, kind := range kindsOf(column) {
				s := &pb.Source{
					Path: column.Path, Key: key, Field: column.Field, Type: column.Type.Proto(),
					Meaning: column.Meaning,
				}
				s.Name, s.Type.Kind = fmt.Sprint(column.Name, s.GetKey(), kind), kind
				sources = append(sources, s)
			}
		}
	}
	return sources
}

// anyDepth are sources of lists without a type, of which the first has as many levels as the file.
func anyDepth(c spec.Column) (sources []*pb.Source) {
	for levels := range uint32(3) {
		typ := &pb.Type{Kind: pb.Kind_BINARY, List: true, Nested: c.Type.Nested + levels}
		sources = append(sources, &pb.Source{Name: fmt.Sprint(c.Name, levels), Path: c.Path, Type: typ})
	}
	return sources
}

// kindsOf are those that a column can be read as: its own behind the one that stands in for it.
func kindsOf(c spec.Column) []pb.Kind {
	kinds := []pb.Kind{c.Type.Kind}
	if c.Own != pb.Kind_KIND_UNSPECIFIED {
		kinds = append(kinds, c.Own)
	}
	switch c.Type.Kind {
	case pb.Kind_INT32:
		kinds = append(kinds, pb.Kind_INT64)
	case pb.Kind_FLOAT32:
		kinds = append(kinds, pb.Kind_FLOAT64)
	}
	return kinds
}

// decodeAll decodes a file in windows, from a row on.
func decodeAll(
	t testing.TB, what string, f format.File, data []byte, sources []*pb.Source, window, skip int, pieces bool,
) (rows [][]any) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	b, err := f.Bind(sources)
	check(err)
	d, err := decoders.New(f.Format(), sources)
	check(err)
	d.Memory().Allow(256 << 20)
	for extent, e := range f.Extents() {
		left := int(e.Rows)
		if skip >= left {
			skip -= left
			continue
		}
		check(d.Reset("mem://file", b, extent, chunksOf(b, extent, data, pieces)))
		check(d.Skip(skip))
		for left -= skip; left > 0; left -= window {
			vectors, err := decoders.Rows(d, e.FirstRow+e.Rows-int64(left), min(window, left))
			check(err)
			first := len(rows)
			for range min(window, left) {
				rows = append(rows, make([]any, len(vectors)))
			}
			for j, v := range vectors {
				for i, value := range rowtest.Of(v) {
					rows[first+i][j] = value
				}
			}
		}
		skip = 0
	}
	return rows
}

// Decode measures how long a file of so many rows takes, in windows of 4,096.
func Decode(b *testing.B, data []byte, rows int) {
	b.Helper()
	DecodeFile(b, File{Name: "file", Data: data}, rows)
}

// DecodeFile measures how long a file of so many rows takes, or some of its columns.
func DecodeFile(b *testing.B, file File, rows int, columns ...string) {
	b.Helper()
	f, err := file.Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	data := file.Data
	sources := sourcesOf(f.Columns())[absentSources:]
	sources = slices.DeleteFunc(sources, func(s *pb.Source) bool {
		return len(columns) > 0 && !slices.Contains(columns, spec.ColumnName(s.GetPath(), s.GetField()))
	})
	bound, err := f.Bind(sources)
	if err != nil {
		b.Fatal(err)
	}
	d, err := decoders.New(f.Format(), sources)
	if err != nil {
		b.Fatal(err)
	}
	d.Memory().Allow(256 << 20)
	b.ReportAllocs()
	for b.Loop() {
		for extent, e := range f.Extents() {
			err := d.Reset("mem://file", bound, extent, chunksOf(bound, extent, data, false))
			for left := int(e.Rows); left > 0 && err == nil; left -= 4096 {
				_, err = decoders.Rows(d, e.FirstRow, min(4096, left))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
}

func chunksOf(b format.Bound, extent int, data []byte, inPieces bool) []decode.Source {
	out := make([]decode.Source, b.Chunks())
	for i := range out {
		c := b.Chunk(extent, i)
		chunk := decode.Whole(data[c.Offset : c.Offset+c.Length])
		out[i] = &chunk
		if inPieces {
			out[i] = &pieces{data: chunk}
		}
	}
	return out
}

// pieces is a chunk of which a Source gives no more than it must, and takes it back with the next call.
type pieces struct {
	data, last []byte
	from       int
}

func (p *pieces) Bytes(from, n int) ([]byte, error) {
	if from < p.from {
		return nil, fmt.Errorf("a call for byte %d behind one for byte %d", from, p.from)
	}
	for i := range p.last {
		p.last[i] = 0xa5
	}
	p.from, p.last = from, bytes.Clone(p.data[from:from+n])
	return p.last, nil
}

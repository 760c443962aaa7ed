package parquet

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
)

// testMemory is more than any window of the tests takes.
const testMemory = 256 << 20

// TestAmplification reads small files that decode to very much.
func TestAmplification(t *testing.T) {
	const rows, limit = 1024, 2 << 20
	long := strings.Repeat("x", 10<<10) // 10 MiB in all
	text := array.NewStringBuilder(memory.DefaultAllocator)
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	ids := lists.ValueBuilder().(*array.Int64Builder)
	zeros := make([]int64, 1000) // 8 MiB in all
	for range rows {
		text.Append(long)
		lists.Append(true)
		ids.AppendValues(zeros, nil)
	}
	for name, values := range map[string]arrow.Array{"text": text.NewArray(), "ids": lists.NewArray()} {
		schema := arrow.NewSchema([]arrow.Field{{Name: name, Type: values.DataType()}}, nil)
		table := array.NewTableFromRecords(schema, []arrow.Record{array.NewRecord(schema, []arrow.Array{values}, rows)})
		for _, dictionary := range []bool{true, false} {
			data := writeTable(t, table, rows, parquet.WithDictionaryDefault(dictionary),
				parquet.WithCompression(compress.Codecs.Zstd))
			f, err := readFooter(data)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = decodeAll(NewDecoder(sourcesOf(f), limit), f, data, rows, 0)
			runtime.ReadMemStats(&after)
			if want := "row group 0 column " + name; err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "--memory") {
				t.Errorf("%s, dictionary=%v: got %v, want %q and what to do", name, dictionary, err, want)
			}
			// Slices that grow are copied, and each is a quarter longer than the one before.
			if n := after.TotalAlloc - before.TotalAlloc; n > 8*limit {
				t.Errorf("%s, dictionary=%v: %d MiB were allocated of a file of %d KiB; the limit is %d MiB",
					name, dictionary, n>>20, len(data)>>10, limit>>20)
			}
		}
	}
}

// TestGrowingByTheLeast decodes a long list where memory is given as sparingly as can be: it is not copied for each few
// values.
func TestGrowingByTheLeast(t *testing.T) {
	const elements = 1_000_000
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	lists.Append(true)
	lists.ValueBuilder().(*array.Int64Builder).AppendValues(make([]int64, elements), nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)}}, nil)
	data := writeTable(t,
		array.NewTableFromRecords(schema, []arrow.Record{array.NewRecord(schema, []arrow.Array{lists.NewArray()}, 1)}),
		1)
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(sourcesOf(f), 0)
	asked := 0
	d.Memory().AskFor(func(least, _ int64) (int64, error) {
		asked++
		return least, nil
	})
	if _, err := decodeAll(d, f, data, 1, 0); err != nil {
		t.Fatal(err)
	}
	if asked > 100 {
		t.Errorf("memory was asked for %d times for one list of %d values", asked, elements)
	}
}

// TestAmplifyingDefault makes a long default of a column that the file lacks.
func TestAmplifyingDefault(t *testing.T) {
	data := writeTable(t, smallTable(1000), 1000)
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	s := source("none", pb.Kind_BINARY, false)
	s.Default = &pb.Value{Kind: &pb.Value_Text{Text: strings.Repeat("x", 10_000)}}
	_, err = decodeAll(NewDecoder([]*pb.Source{s}, 1<<20), f, data, 1000, 0)
	if want := "row group 0 feature none: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if _, err = decodeAll(NewDecoder([]*pb.Source{s}, 1<<20), f, data, 50, 0); err != nil {
		t.Error(err)
	}
}

// TestAnyAllowance decodes a file with less and less memory: always to the same values, or to an error that says so.
func TestAnyAllowance(t *testing.T) {
	data := writeTable(t, randomTable(9, testSchema(), 300), 300, parquet.WithDataPageSize(500))
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	want, err := decodeAll(NewDecoder(sourcesOf(f), testMemory), f, data, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for limit := int64(2 << 20); limit > 0; limit = limit * 2 / 3 {
		d := NewDecoder(sourcesOf(f), limit)
		got, err := decodeAll(d, f, data, 100, 0)
		switch {
		case d.memory.Held() > limit:
			t.Errorf("%d bytes are held of %d", d.memory.Held(), limit)
		case err != nil && (!strings.Contains(err.Error(), "row group 0 ") ||
			strings.Contains(err.Error(), "panicked")):
			t.Errorf("limit %d: %v", limit, err)
		case err != nil:
			failed++
		case !slices.EqualFunc(got, want, func(a, b []any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }):
			t.Errorf("limit %d: other values", limit)
		}
	}
	if failed < 3 {
		t.Errorf("%d limits were too small", failed)
	}
}

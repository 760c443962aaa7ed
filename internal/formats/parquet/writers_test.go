package parquet

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

func TestWritersThatLeaveHeadersOut(t *testing.T) {
	for writer, want := range map[string]bool{
		"": false, "parquet-cpp-arrow version 1.2.0": false, "impala version 1.2.0": false,
		"parquet-mr": true, "parquet-mr (build 32c46643)": true, "parquet-mr version 1.0.0": true,
		"parquet-mr version 1.2.8 (build 91dc9b)": true, "parquet-mr version 1.2.5-cdh4.5.0": true,
		"parquet-mr version 1.2.9": false, "parquet-mr version 1.12.3 (build f8dced)": false,
		"parquet-mr version 2.0.0": false, "parquet-mr version 99999999999999999999.1": true,
	} {
		if got := leavesHeadersOut(writer); got != want {
			t.Errorf("%q: got %v", writer, got)
		}
	}
}

// TestLooseChunksHaveADictionary: lengths are taken to lack a header only of chunks that have one.
func TestLooseChunksHaveADictionary(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "coded", Type: arrow.PrimitiveTypes.Int64}, {Name: "plain", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s, strings.NewReader(`[{"coded": 1, "plain": 2}]`))
	if err != nil {
		t.Fatal(err)
	}
	for writer, loose := range map[string][]bool{
		"parquet-mr version 1.2.8": {true, false}, "parquet-mr version 1.2.9": {false, false},
	} {
		var out bytes.Buffer
		w, err := pqarrow.NewFileWriter(s, &out, parquet.NewWriterProperties(parquet.WithCreatedBy(writer),
			parquet.WithDictionaryFor("plain", false)), pqarrow.DefaultWriterProps())
		if err == nil {
			err = w.Write(rec)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := readFor(serialised(out.Bytes()), want{all: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := []bool{f.ChunkOf(0, 0).Loose, f.ChunkOf(0, 1).Loose}; !slices.Equal(got, loose) {
			t.Errorf("%s: %v, want %v", writer, got, loose)
		}
	}
}

package mds_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/mds"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

const others = "../../../internal/formats/filetest/others/mds/"

// TestOthers: shards by mosaicml-streaming hold what their twins in Parquet do.
func TestOthers(t *testing.T) {
	for _, folder := range []string{"plain", "shards", "zstd", "hashes", "fixed"} {
		t.Run(folder, func(t *testing.T) {
			shards, err := filepath.Glob(others + folder + "/*.mds*")
			if err != nil || len(shards) == 0 {
				t.Fatal(shards, err)
			}
			twin := read(t, others+folder+".parquet")
			var sources []*pb.Source
			for _, c := range formattest.Schema(t, twin).Columns {
				for _, kind := range []pb.Kind{c.Type.Kind, c.Own} {
					if kind != pb.Kind_KIND_UNSPECIFIED {
						typ := c.Type.Proto()
						typ.Kind = kind
						sources = append(sources, &pb.Source{Name: c.Name, Path: c.Path, Type: typ, Meaning: c.Meaning})
					}
				}
			}
			var rows [][]any
			for _, name := range slices.Sorted(slices.Values(shards)) {
				rows = append(rows, formattest.Rows(t, read(t, name), sources...)...)
			}
			want := formattest.Rows(t, twin, sources...)
			if len(rows) != len(want) || len(sources) < 3 {
				t.Fatalf("%d rows of %d columns, want %d", len(rows), len(sources), len(want))
			}
			for i, row := range want {
				for j, s := range sources {
					if !reflect.DeepEqual(rows[i][j], row[j]) {
						t.Fatalf("row %d of %s as %v: %v, want %v", i, s.GetName(), s.GetType(), rows[i][j], row[j])
					}
				}
			}
		})
	}
}

// TestEmptyArrays have the lists that their shape says, as long as these are not too many.
func TestEmptyArrays(t *testing.T) {
	shard := func(arrays ...string) []byte {
		header := `{"version":2,"format":"mds","column_names":["a"],"column_encodings":["ndarray:int32"],"column_sizes":[null]}`
		at := 4 + 4*(len(arrays)+1) + len(header)
		out := binary.LittleEndian.AppendUint32(nil, uint32(len(arrays)))
		for _, a := range arrays {
			out, at = binary.LittleEndian.AppendUint32(out, uint32(at)), at+4+len(a)
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(at)), header...)
		for _, a := range arrays {
			out = append(binary.LittleEndian.AppendUint32(out, uint32(len(a))), a...)
		}
		return out
	}
	source := &pb.Source{Name: "a", Path: []string{"a"}, Type: &pb.Type{Kind: pb.Kind_INT32, List: true, Nested: 1}}
	one := "\x08\x01\x01\x07\x00\x00\x00"
	got := formattest.Rows(t, shard(one, "\x08\x01\x00", "\x08\x00\x01", "\x08\x02\x00"), source)
	want := [][]any{{[]any{[]any{int32(7)}}}, {[]any{[]any{}}}, {[]any{}}, {[]any{[]any{}, []any{}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c := mds.Column{Class: mds.Array, Kind: pb.Kind_INT32}
	for value, want := range map[string]string{
		"\x0a\xff\xff\xff\x7f\x00\x00\x00\x00": "more than 1024 lists without values",
		"\x08\x01\x00\x00":                     "its array is cut short",
	} {
		if _, err := c.ArrayOf([]byte(value)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// TestTruncated: a shard that is cut off, wherever that is, is an error.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"plain/shard.00000.mds", "zstd/shard.00000.mds.zstd"} {
		data := read(t, others+name)
		for n := range data {
			if formattest.Read(t.Context(), data[:n]) == nil {
				t.Fatalf("%s: %d of %d bytes are read as if they were all", name, n, len(data))
			}
		}
	}
}

// FuzzShard: whatever a shard holds, reading it ends.
func FuzzShard(f *testing.F) {
	for _, name := range []string{"plain/shard.00000.mds", "fixed/shard.00000.mds", "hashes/shard.00000.mds.zstd"} {
		f.Add(read(f, others+name))
	}
	f.Fuzz(func(t *testing.T, data []byte) { _ = formattest.Read(t.Context(), data) })
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

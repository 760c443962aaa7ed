package mds_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
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

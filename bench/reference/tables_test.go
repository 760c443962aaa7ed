package reference

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables/tabletest"
)

// TestTables: of tables of others the interpreter expects the rows that others read. Columns
// that were renamed are told by name or id.
func TestTables(t *testing.T) {
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for name, columns := range map[string][]string{
		"delta/spark-log-replay-dv-key-cases": {"id"}, "delta/partitioned": {"id", "num"},
		"delta/spark-dv-with-columnmapping":              {"part", "col1"},
		"delta/spark-table-with-columnmapping-mode-name": {"IntegerType", "LongType"},
		"delta/spark-table-with-columnmapping-mode-id":   {"IntegerType", "LongType"},
		"iceberg/evolved": {"id", "text"}, "iceberg/spark-evolved": {"id"}, "iceberg/migrated": {"id", "key"},
		"iceberg/spark-positions": {"id"}, "iceberg/spark-vectors": {"id"}, "iceberg/spark-upgraded": {"id"},
		"iceberg/spark-refs": {"id"}, "iceberg/spark-migrated": {"id"}, "iceberg/spark-partitioned": {"id"},
	} {
		kind, table, _ := strings.Cut(name, "/")
		dir, err := filepath.Abs(filepath.Join("../../internal/tables", kind, "testdata/tables", table))
		if err != nil {
			t.Fatal(err)
		}
		for version, want := range tabletest.Read(t, dir).Versions {
			if want.Refused != "" || want.Files == 0 {
				continue
			}
			s := &pb.Spec{Dataset: &pb.Dataset{Uri: []string{kind + "+" + dir + "@" + version}}}
			for _, c := range columns {
				if !strings.HasPrefix(want.Columns[c], "INT") {
					continue // it is another one in this version
				}
				s.Features = append(s.Features, feature(pb.Layout_SPARSE, c))
			}
			in, err := New(t.Context(), s, store)
			if err != nil {
				t.Fatal(err)
			}
			e, err := in.Expected(t.Context(), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got, rows []uint64
			for _, f := range e.files {
				got = append(got, f.hashes...)
			}
			for _, row := range want.Rows {
				rows = append(rows, rowHash(in.Fields(), func(h *Hasher) {
					for _, f := range in.Fields() {
						n, ok := row[f.Name].(json.Number)
						if !ok {
							h.Len(0)
							continue
						}
						v, _ := n.Int64()
						h.Len(1)
						h.Int(v)
					}
				}))
			}
			slices.Sort(got)
			slices.Sort(rows)
			if len(rows) == 0 || !slices.Equal(got, rows) {
				t.Errorf("%s@%s: %d rows, want %d, or others", name, version, len(got), len(rows))
			}
		}
	}
}

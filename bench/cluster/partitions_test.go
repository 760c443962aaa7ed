package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
)

// TestPartitionKeysArriveAsTheReferenceHasThem reads keys of paths as features, filters by them, and meets files
// without an ending, of which some are no data.
func TestPartitionKeysArriveAsTheReferenceHasThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for n, path := range []string{
		"day=2026-01-02/hour=05/lang=c%C3%B4te%/000000_0", "day=2026-01-02/hour=6/lang=de/000000_0",
		"day=2026-01-03/hour=-7/lang=__HIVE_DEFAULT_PARTITION__/part-0.parquet",
		"day=2026-01-04/hour=8/lang=de/part-0.parquet", "day=2026-01-04/hour=8/lang=de/part-1.parquet",
		"day=2026-01-05/part-0.parquet",
	} {
		var rows []string
		for i := range 50 {
			rows = append(rows, fmt.Sprintf(`{"id": %d}`, 100*n+i))
		}
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema,
			strings.NewReader("["+strings.Join(rows, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		putFile(t, filepath.Join(dir, path), filetest.Parquet(t, schema, []arrow.Record{rec}))
		rec.Release()
	}
	putFile(t, filepath.Join(dir, "LICENSE"), []byte("As is."))
	putFile(t, filepath.Join(dir, "day=2026-01-02", "empty.parquet"), nil)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	for i, filter := range []string{
		"", "day >= 20456", "hour == 5 or lang is null", "lang == 'de' and id != 101", "hour * 2 > 11 and id > 120",
	} {
		s, err := spec.Parse([]byte(`
dataset: {uri: ` + dir + `/}
provenance: true
shuffle: true
filter: "` + filter + `"
transforms:
  - {op: clamp, in: hour, out: clamped, min: 6, max: 7}
features:
  - {label: [day, id]}
  - {dense: [hour, clamped]}
  - {bytes: lang}
last_batch: uneven
epochs: 1
batch_size: 7
`))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filter, func(t *testing.T) { compare(t, c, fmt.Sprint("keys-", i), s) })
	}
}

func putFile(t *testing.T, path string, content []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

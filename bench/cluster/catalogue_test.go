package cluster_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/reference"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// catalogueSpec has each op of tables at least once, one on the results of others.
func catalogueSpec(t *testing.T, rows int) *pb.Spec {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	side := filepath.Join(t.TempDir(), "side.parquet")
	if err := os.WriteFile(side, sideTable(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := spec.Parse([]byte(`
dataset: {uri: ` + filepath.Dir(paths[0]) + `/}
features:
  - label: label
  - dense: [int_*, share, odds, hour, shares_one, shared, jaccard, cosine, sum, least, most]
  - sparse: [cat_*, bucket_marks]
  - {sparse: [best], weights: best_places}
  - {dense: [name_price, pair_price, ratio]}
  - {bytes: [name_name, pair_name]}
  - {sparse: [stock_of_cat_10, price_of_cat_11, name_vector]}
transforms:
  - {op: sample, rate: 0.9, seed: 3}
  - {op: cast, in: int_6, out: seconds, to: int64}
  - {op: local_hour, in: seconds, out: hour, timezone: America/St_Johns}
  - {op: fill_null, in: "int_*", value: 0}
  - {op: scale_to_0_1, in: int_0, out: share, min: 0, max: 50}
  - {op: logit, in: share, out: odds, eps: 0.001}
  - {op: clamp, in: [int_1, int_2], min: 0, max: 1000}
  - {op: box_cox, in: int_1, lambda: 0.3}
  - {op: log1p, in: int_2}
  - {op: scale_to_z_score, in: int_3, mean: 10, std: 3}
  - {op: normalize, in: int_4, mean: 10, std: 3}
  - {op: bucketize, in: int_5, out: bucket, borders: [1, 2, 4, 8]}
  - {op: onehot, in: bucket, out: bucket_marks, size: 5}
  - {op: positive_modulus, in: cat_0, modulus: 97}
  - {op: map_id, in: cat_1, keys: [1, 2, 3, 5, 8], values: [10, 20, 30, 50, 80], default: 0}
  - {op: map_id, in: cat_2, first: 1, count: 50}
  - {op: sigrid_hash, in: cat_3, max: 1000}
  - {op: first_x, in: [cat_4, cat_5], x: 6}
  - {op: last_x, in: [cat_6, cat_7], x: 5}
  - {op: cartesian, in: [cat_4, cat_5], out: cat_4_x_5, max: 100000}
  - {op: ngram, in: [cat_4, cat_5], out: cat_4_then_5, n: 2}
  - {op: intersect, in: [cat_6, cat_7], out: cat_6_and_7}
  - {op: union, in: [cat_6, cat_7], out: cat_6_or_7}
  - {op: enumerate, in: [cat_8, cat_9], out: "{}_place", start: 1}
  - {op: sort_by_score, in: [cat_8, cat_8_place], out: best}
  - {op: sort_by_score, in: cat_8_place, out: best_places}
  - {op: cast, in: best_places, to: float32}
  - {op: has_overlap, in: [cat_8, cat_9], out: shares_one}
  - {op: id_overlap_count, in: [cat_8, cat_9], out: shared}
  - {op: jaccard_similarity, in: [cat_8, cat_9], out: jaccard}
  - {op: cosine_similarity, in: [cat_8, cat_8_place, cat_9, cat_9_place], out: cosine}
  - {op: score_sum, in: [cat_8, cat_9, cat_9_place], out: sum}
  - {op: score_min, in: [cat_8, cat_9, cat_9_place], out: least}
  - {op: score_max, in: [cat_8, cat_9, cat_9_place], out: most}
  - {op: positive_modulus, in: [cat_10, cat_11], modulus: 1200, out: "{}_item"}
  - {op: lookup, in: cat_10_item, table: ` + side + `, key: id, columns: stock, default: -1, out: stock_of_cat_10, duplicates: first}
  - {op: lookup, in: [cat_11_item, seconds], table: ` + side + `, key: id, columns: price, out: "{}_of_cat_11", as_of: since}
  - {op: lookup, in: label, table: ` + side + `, key: id, columns: [price, name, vector], out: "name_{}", duplicates: first}
  - {op: expr, expr: "case when name_name is null then -1 else ln(abs(int_8) + 1) / nullif(int_9, 0) end", out: ratio}
  - {op: cast, in: int_7, out: kind, to: int64}
  - op: lookup
    in: [label, kind, seconds]
    table: ` + side + `
    key: [id, kind]
    columns: [price, name]
    as_of: since
    max_age: 20
    out: "pair_{}"
batch_size: 512
last_batch: uneven
epochs: 1
seed: 5
shuffle: true
provenance: true
`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sideTable has a few rows of each of some ids, in no order, with nulls.
func sideTable(t *testing.T) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "kind", Type: arrow.PrimitiveTypes.Int32},
		{Name: "since", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "price", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "stock", Type: arrow.PrimitiveTypes.Int32},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "vector", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	r := rand.New(rand.NewPCG(1, 2))
	return pipelinetest.Write(t, schema, func(yield func(arrow.Record) bool) {
		for range 3 {
			for range 3000 {
				row := fmt.Sprintf(`{"id": %d, "kind": %d, "since": %d, "price": %.3f, "stock": %d, "name": "n%d", "vector": [%d, 2.5]}`,
					r.IntN(1000)/(1+9*r.IntN(2)), r.IntN(4), r.IntN(60), r.Float64(), r.IntN(9), r.IntN(99), r.IntN(9))
				if name := []string{"id", "since", "price", "name", "vector", "", "", ""}[r.IntN(8)]; name != "" {
					row = strings.Replace(row, `"`+name+`"`, `"no `+name+`"`, 1)
				}
				if err := b.UnmarshalJSON([]byte(row)); err != nil {
					t.Fatal(err)
				}
			}
			if !yield(b.NewRecord()) {
				return
			}
		}
	})
}

// TestEveryOpArrivesAsTheReferenceHasIt compares what a fleet delivers, row by row, with what an interpreter of its own
// makes of the spec.
func TestEveryOpArrivesAsTheReferenceHasIt(t *testing.T) {
	t.Parallel()
	s := catalogueSpec(t, 20_000)
	for _, op := range transform.Builtin().Ops() {
		has := slices.ContainsFunc(s.GetTransforms(), func(each *pb.Transform) bool { return each.GetOp() == op.Name })
		if !has && !strings.HasPrefix(op.Output, "pictures") {
			t.Errorf("the spec above lacks %s", op.Name)
		}
	}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	job := open(t, c, s, nil)
	defer closeJob(t, job)
	ledger := filepath.Join(t.TempDir(), "ledger")
	writeLedger(t, job, ledger)
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	interpreter, err := reference.New(t.Context(), s, store)
	if err != nil {
		t.Fatal(err)
	}
	expected, err := interpreter.Expected(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := reference.Compare(expected, ledger)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() || report.Delivered < 15_000 {
		t.Error(report)
	}
}

// TestSideTableThatChanges: the session fails, and says so, where workers that have not loaded the table find another.
func TestSideTableThatChanges(t *testing.T) {
	t.Parallel()
	s := catalogueSpec(t, 20_000)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	job := open(t, c, s, nil)
	defer closeJob(t, job)
	tables := spec.Tables(s)
	if err := os.WriteFile(tables[0].URI, []byte("another one"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		var batch *client.Batch
		if batch, err = job.Next(t.Context()); err == nil {
			batch.Release()
		}
	}
	for _, words := range []string{"side.parquet", "changed", "begin a new session"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in: %v", words, err)
		}
	}
}

// writeLedger takes a job's rows to the end.
func writeLedger(t *testing.T, job *client.Session, path string) {
	t.Helper()
	ledger, err := reference.CreateLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	var records *reference.Records
	for {
		batch, err := job.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rec := batch.Record()
		if records == nil {
			if records, err = reference.NewRecords(rec.Schema()); err != nil {
				t.Fatal(err)
			}
		}
		if err := records.Each(rec, ledger.Add); err != nil {
			t.Fatal(err)
		}
		rec.Release()
		batch.Release()
	}
	if err := ledger.Close(); err != nil {
		t.Fatal(err)
	}
}

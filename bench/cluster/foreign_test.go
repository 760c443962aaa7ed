package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/reference"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
)

// TestForeignFilesArriveAsTheReferenceHasThem reads files of other writers, with features chosen as the demo does.
func TestForeignFilesArriveAsTheReferenceHasThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	python(t, "foreign.py", dir)
	folders, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 30 {
		t.Fatalf("foreign.py wrote %d datasets", len(folders))
	}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			uri := filepath.Join(dir, f.Name()) + "/"
			switch f.Name() {
			case "shapes":
				compare(t, c, f.Name(), shapesSpec(t, uri))
			case "maps":
				compare(t, c, f.Name(), mapsSpec(t, uri))
			default:
				compare(t, c, f.Name(), demoSpec(t, uri))
			}
		})
	}
}

// shapesSpec reads all columns as tensors of fixed shape, as padded ones, or with null elements that stay.
func shapesSpec(t *testing.T, uri string) *pb.Spec {
	t.Helper()
	text := "dataset: {uri: " + uri + "}\n" + `
batch_size: 256
last_batch: uneven
epochs: 1
shuffle: true
provenance: true
filter: s_int8 is null or s_int8 > -100 or s_float16 > 0
transforms:
  - {op: clamp, in: s_int8, out: clamped, min: -3}
  - {op: last_x, in: items, out: newest, x: 3}
  - {op: last_x, in: shorts, out: short_ids, x: 2}
features:
  - {tensor: ["s_int*", "s_uint*", "s_float*", clamped], default: 1}
  - {tensor: s_bool, default: true}
  - tensor: ["v_*", grid, folded]
  - {tensor: flat, shape: [2, 2]}
  - {tensor: nested, shape: [2, 2], default: 0.5}
  - {tensor: deep, shape: [2, 1, 3]}
  - {tensor: raw_bfloat16, dtype: bfloat16, shape: [2], default: 0.1}
  - {padded: [items, newest], length: 5}
  - {padded: shorts, length: 4, side: right, value: -1, truncate: first, nulls: omit, default: [7, 8]}
  - {sparse: short_ids} # the default of shorts is theirs, too
  - {padded: flags, length: 3, truncate: first, value: true}
  - {padded: halves, length: 3, side: right, value: 0.1}
  - {sparse: kept, nulls: keep, value: -7}
  - {sparse: kept_floats, nulls: keep}
`
	for _, dtype := range []string{
		"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64",
	} {
		text += "  - {tensor: raw_" + dtype + ", dtype: " + dtype + ", shape: [2, 1]}\n"
	}
	s, err := spec.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mapsSpec reads keys of maps of lists and of maps, one of which a file lacks.
func mapsSpec(t *testing.T, uri string) *pb.Spec {
	t.Helper()
	s, err := spec.Parse([]byte("dataset: {uri: " + uri + "}\n" + `
batch_size: 100
last_batch: uneven
epochs: 1
shuffle: true
provenance: true
transforms:
  - {op: first_x, in: bags.1, out: first, x: 2}
features:
  - {label: label}
  - {sparse: [bags.1, bags.-2, bags.99, first]}
  - {sparse: ranked.a.b.key, weights: ranked.a.b.value}
  - {sparse: ranked.c.value, nulls: keep, value: -1}
  - {padded: bags.3, length: 3}
  - {padded: shorts.y.z, length: 4, default: [7, 8]}
`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRealFilesArriveAsTheReferenceHasThem reads a part of Criteo's logs.
func TestRealFilesArriveAsTheReferenceHasThem(t *testing.T) {
	t.Parallel()
	tsv := realData(t, "criteo/day_11_first_3k_rows.tsv")
	dir := filepath.Join(t.TempDir(), "criteo")
	run(t, 0, nil, "convert", tsv, "--out="+dir, "--columns=criteo")
	compare(t, startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2), "criteo", demoSpec(t, dir+"/"))
}

// compare reads a dataset in a session of its own, and compares it with the reference.
func compare(t *testing.T, c *cluster.Cluster, session string, s *pb.Spec) {
	t.Helper()
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	job, err := client.Open(t.Context(), client.Config{
		Masters: []string{master}, Session: session, Spec: s, DialLink: rpc.LinkDialer(c.RPC()),
		Dial: func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeJob(t, job)
	ledger := filepath.Join(t.TempDir(), "ledger")
	writeLedger(t, job, ledger)
	interpreter, err := reference.New(t.Context(), s, store)
	if err != nil {
		t.Fatal(err)
	}
	expected, err := interpreter.Expected(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := reference.Compare(expected, ledger); err != nil || !report.OK() {
		t.Errorf("%v\n%v", err, report)
	}
}

// demoSpec is what `penstock demo --data` reads.
func demoSpec(t *testing.T, uri string) *pb.Spec {
	t.Helper()
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.List(t.Context(), "", []string{uri})
	if err != nil {
		t.Fatal(err)
	}
	var parts []spec.FileSchema
	for _, f := range files {
		holds, err := formats.Load(t.Context(), store, "", f, nil)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, format.Schema(f, holds))
	}
	schema, err := spec.Merge(parts)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := demo.SpecFor(uri, schema)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

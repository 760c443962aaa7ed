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
		t.Run(f.Name(), func(t *testing.T) { compare(t, c, f.Name(), filepath.Join(dir, f.Name())+"/") })
	}
}

// TestRealFilesArriveAsTheReferenceHasThem reads a part of Criteo's logs.
func TestRealFilesArriveAsTheReferenceHasThem(t *testing.T) {
	t.Parallel()
	tsv := realData(t, "criteo/day_11_first_3k_rows.tsv")
	dir := filepath.Join(t.TempDir(), "criteo")
	run(t, 0, nil, "convert", tsv, "--out="+dir, "--columns=criteo")
	compare(t, startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2), "criteo", dir+"/")
}

// compare reads a dataset in a session of its own, and compares it with the reference.
func compare(t *testing.T, c *cluster.Cluster, session, uri string) {
	t.Helper()
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := demoSpec(t, store, uri)
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
func demoSpec(t *testing.T, store storage.Storage, uri string) *pb.Spec {
	t.Helper()
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

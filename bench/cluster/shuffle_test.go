package cluster_test

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// mix says how well rows are mixed that lie sorted by a label in the dataset.
type mix struct {
	run      float64 // mean length of runs of rows with one label, of two that are equally frequent; 2 by chance
	distance float64 // mean distance in the dataset of rows that follow each other, as a part of it; 1/3 by chance
	spread   float64 // mean standard deviation of a batch's places in the dataset, as a part of it; 0.289 by chance
}

// TestShuffleQuality measures what the page of the spec says that shuffling gives, in both orders.
func TestShuffleQuality(t *testing.T) {
	t.Parallel()
	const rows = 40_000
	// Windows of 100 rows, four to a shard: small ones, of which there are many, as in a large dataset.
	dir := sortedFiles(t, rows, 400, 100)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	measure := func(name string, order pb.Order, shuffle bool) mix {
		s := &pb.Spec{
			Dataset: &pb.Dataset{Uri: []string{dir + "/"}}, BatchSize: 1024, Epochs: 1, Seed: 7, Shuffle: shuffle,
			Order:    order,
			Features: []*pb.Feature{{Name: []string{"label"}, Layout: pb.Layout_LABEL}},
		}
		if order == pb.Order_DETERMINISTIC {
			s.Lanes = 16
		}
		m := mixOf(placesOf(t, c, name, s, rows), rows, 1024)
		t.Logf("%s: %+v", name, m)
		return m
	}
	plain := measure("fast, not shuffled", pb.Order_FAST, false)
	fast := measure("fast", pb.Order_FAST, true)
	ordered := measure("deterministic", pb.Order_DETERMINISTIC, true)
	for name, m := range map[string]mix{"fast": fast, "deterministic": ordered} {
		if m.distance < 10*plain.distance || m.run > plain.run/2 || m.spread < plain.spread {
			t.Errorf("%s: %+v; without shuffling it is %+v", name, m, plain)
		}
	}
}

// sortedFiles writes rows in order to files of fileRows, in row groups of groupRows, and returns their folder.
func sortedFiles(t *testing.T, rows, fileRows, groupRows int) string {
	t.Helper()
	dir := t.TempDir()
	schema := arrow.NewSchema([]arrow.Field{{Name: "label", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for file := range rows / fileRows {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("part-%05d.parquet", file)))
		if err != nil {
			t.Fatal(err)
		}
		w, err := pqarrow.NewFileWriter(schema, f, nil, pqarrow.DefaultWriterProps())
		if err != nil {
			t.Fatal(err)
		}
		for group := range fileRows / groupRows {
			b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			for i := range groupRows {
				b.Field(0).(*array.Int64Builder).Append(int64(file*fileRows + group*groupRows + i))
			}
			if err := w.Write(b.NewRecord()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil { // f with it
			t.Fatal(err)
		}
	}
	return dir
}

// placesOf is the places in the sorted dataset of an epoch's rows, in the order in which they were handed over.
func placesOf(t *testing.T, c *cluster.Cluster, id string, s *pb.Spec, rows int) []int {
	t.Helper()
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	job, err := client.Open(t.Context(), client.Config{
		Masters: []string{master}, Session: id, Spec: s, Logger: slog.New(slog.DiscardHandler),
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
		DialLink: rpc.LinkDialer(c.RPC()),
	})
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	for {
		b := next(t, job)
		if b == nil {
			break
		}
		for _, place := range b.Labels[0].I64 {
			places = append(places, int(place))
		}
		b.Release()
	}
	closeJob(t, job)
	if len(places) != rows {
		t.Fatalf("%d rows, want %d", len(places), rows)
	}
	return places
}

func mixOf(places []int, rows, batch int) mix {
	var m mix
	runs := 1
	for i := 1; i < len(places); i++ {
		if (places[i] < rows/2) != (places[i-1] < rows/2) {
			runs++
		}
		m.distance += math.Abs(float64(places[i]-places[i-1])) / float64(rows) / float64(len(places)-1)
	}
	m.run = float64(len(places)) / float64(runs)
	batches := len(places) / batch
	for b := range batches {
		var sum, squares float64
		for _, p := range places[b*batch : (b+1)*batch] {
			x := float64(p) / float64(rows)
			sum += x
			squares += x * x
		}
		mean := sum / float64(batch)
		m.spread += math.Sqrt(squares/float64(batch)-mean*mean) / float64(batches)
	}
	return m
}

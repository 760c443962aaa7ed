package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
)

// TestIndexesAreLost: a job on JSON lines goes on from its states, each row once, though its indexes were deleted, cut
// or forged since, beside the data, between epochs and before a fleet that knows nothing of them restores it.
func TestIndexesAreLost(t *testing.T) {
	t.Parallel()
	const files, lines, epochs = 4, 6000, 2
	dir := t.TempDir()
	for i := range files {
		var text bytes.Buffer
		for n := range lines {
			fmt.Fprintf(&text, "{\"id\": %d, \"text\": %q}\n", lines*i+n, strings.Repeat("x", 1000+n%100))
		}
		putFile(t, filepath.Join(dir, fmt.Sprintf("part-%d.jsonl", i)), text.Bytes())
	}
	s, err := spec.Parse([]byte(`
dataset: {uri: ` + dir + `/}
provenance: true
shuffle: true
features: [{label: id}]
last_batch: uneven
epochs: 2
batch_size: 100
`))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, beside.Folder)
	forge := func(change func([]byte) []byte) {
		t.Helper()
		if err := os.RemoveAll(filepath.Dir(folder)); err != nil {
			t.Fatal(err)
		}
		data := index.Pack(forged(t, dir))
		putFile(t, filepath.Join(folder, index.PackName(data)), change(data))
	}
	whole := func(data []byte) []byte { return data }
	before := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	seen := map[row]int{}
	job := open(t, before, s, nil)
	for range 20 {
		take(t, job, seen)
	}
	state := job.State()
	if len(state.GetIndexes()) == 0 {
		t.Fatal("the state tells of no index")
	}
	handed := len(seen)
	forge(whole)
	for take(t, job, seen) { //nolint:revive // to the end: both epochs
	}
	closeJob(t, job)
	eachOnce(t, "a job whose indexes were forged meanwhile", seen, files*lines*epochs)

	for name, change := range map[string]func([]byte) []byte{
		"forged": whole, "cut": func(data []byte) []byte { return data[:len(data)/2] }, "deleted": nil,
	} {
		if err := os.RemoveAll(filepath.Dir(folder)); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			forge(change)
		}
		after := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
		again := open(t, after, s, state)
		rest := map[row]int{}
		for take(t, again, rest) { //nolint:revive // to the end
		}
		closeJob(t, again)
		eachOnce(t, name, rest, files*lines*epochs-handed)
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := state.GetIndexes()[0]
	other.Digests[0] ^= 1 // as if the file had other bytes
	after := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	again := open(t, after, s, state)
	for err == nil {
		_, err = again.Next(t.Context())
	}
	_ = again.Close() // it says the same
	if !strings.Contains(err.Error(), ".jsonl: its index is another one") {
		t.Errorf("by another index: %v", err)
	}
}

func eachOnce(t *testing.T, what string, got map[row]int, want int) {
	t.Helper()
	if len(got) != want {
		t.Errorf("%s: %d rows, want %d", what, len(got), want)
	}
	for r, n := range got {
		if n != 1 {
			t.Fatalf("%s: %+v came %d times", what, r, n)
		}
	}
}

// forged are indexes of all files of a folder that have one extent in place of all: they are well-formed.
func forged(t *testing.T, dir string) (out []index.Packed) {
	t.Helper()
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	files, err := st.List(t.Context(), "", []string{dir + "/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		described, err := formats.Load(t.Context(), st, "", f, nil)
		if err != nil {
			t.Fatal(err)
		}
		of, ok := described.(format.Scanned)
		if !ok {
			t.Fatalf("%s has no index", f.GetUri())
		}
		one := format.Place{Stored: storage.Range{Length: f.GetSize()}, Bytes: f.GetSize()}
		for _, e := range described.Extents() {
			one.Rows += e.Rows
		}
		b := index.NewBuilder(index.For(f, of, nil))
		if err := b.Add(one); err != nil {
			t.Fatal(err)
		}
		x, err := b.Index()
		if err != nil {
			t.Fatal(err)
		}
		_, name := beside.Split(f.GetUri())
		out = append(out, index.Packed{Name: name, Index: x.Bytes()})
	}
	return out
}

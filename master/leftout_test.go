package master_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
)

// TestFilesWithoutAnEnding are read if they are data; else the session's events name them, as what the listing left out.
func TestFilesWithoutAnEnding(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints()})
	dir := dataset(t, 1)
	writeFile(t, filepath.Join(dir, "day=7", "000000_0"))
	for name, content := range map[string]string{
		"LICENSE": "As is.", "day=0/old": "ORC and so on", "_SUCCESS": "", "notes.txt": "none", "day=0/b.parquet": "",
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	s := newSpec(dir)
	s.Shuffle = false
	openSession(t, m, "run", s, 1)
	opened := awaitEvent(t, m, pb.EventKind_SESSION, "run", "opened: 4 files, ").GetWords()
	for _, want := range []string{
		"1 file left out whose name is of no format (file://" + dir + "/notes.txt)", "1 empty file left out (",
		"b.parquet)", "1 marker of a writer left out (", "3 files whose names have no ending: they are looked at ",
	} {
		if !strings.Contains(opened, want) {
			t.Errorf("%q lacks %q", opened, want)
		}
	}
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	r.work(r.finished)
	awaitEvent(t, m, pb.EventKind_SESSION, "run", "finished: 60 rows handed over")
	awaitEvent(t, m, pb.EventKind_DATA, "run", dir+"/LICENSE: of no format that is read: ")
	left := awaitEvent(t, m, pb.EventKind_DATA, "run", dir+"/day=0/old: of no format that is read: ").GetWords()
	if !strings.Contains(left, "left out") || !strings.Contains(left, "it begins as ORC does") {
		t.Error(left)
	}
}

// TestFirstBlockWithoutData: the schema is that of the first block which has data; that there is none is an error.
func TestFirstBlockWithoutData(t *testing.T) {
	dir := dataset(t, 1)
	check(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("As is."), 0o600))
	s := newSpec(dir)
	s.Shuffle = false
	st, err := storage.New(storage.Config{})
	check(t, err)
	defer st.Close()
	cfg := plan.Config{FirstBlockBytes: 1, BlockBytes: 1}
	look := func() (*master.Dataset, error) {
		return master.Look(t.Context(), st, formats.NewCache(1<<20), cfg, s)
	}
	d, err := look()
	check(t, err)
	if len(d.Schema.Columns) != 3 || len(d.Looked) != 1 {
		t.Errorf("there are columns %v, of %v", d.Schema.Columns, d.Looked)
	}
	check(t, os.RemoveAll(filepath.Join(dir, "day=0")))
	if _, err := look(); err == nil || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("of no data: %v", err)
	}
}

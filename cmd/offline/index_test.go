package offline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-ml/penstock/cmd/offline"
)

// TestIndex indexes a folder once: the second time all files have an index, but for one that was changed. Listings of
// the folder go on without the indexes.
func TestIndex(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, rows int) {
		t.Helper()
		var text []byte
		for i := range rows {
			text = fmt.Appendf(text, "{\"label\": %d}\n", i)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("day=1/a.jsonl", 10)
	write("day=1/b.jsonl", 20)
	write("day=2/a.jsonl", 400_000)
	type told struct{ Files, Indexed, Found, Extents, Rows int }
	index := func(want told) {
		t.Helper()
		var out bytes.Buffer
		cmd := offline.Index()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{dir, "--output", "json"})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got told
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("indexed %+v, want %+v", got, want)
		}
	}
	index(told{3, 3, 0, 4, 400_030})
	index(told{3, 0, 3, 0, 0})
	write("day=1/b.jsonl", 30)
	index(told{3, 1, 2, 1, 30})
	packs, err := filepath.Glob(filepath.Join(dir, "day=*", "_penstock", "index", "*.indexes"))
	if err != nil || len(packs) != 3 {
		t.Errorf("there are %v: %v", packs, err)
	}
}

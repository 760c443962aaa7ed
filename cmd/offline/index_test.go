package offline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/cmd/offline"
)

// TestIndexOfDamaged: a file that is damaged is named, and others are indexed, those of a folder whose name is that of a
// pattern, too; what is no data is left out.
func TestIndexOfDamaged(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.jsonl": "{\"label\": 1}\n", "bad.jsonl.gz": "\x1f\x8bx", "run[1]/a.jsonl": "{\"label\": 1}\n", "README": "To read\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"2 files of 4 indexed: 2 extents", "2 files had an index"} {
		var out bytes.Buffer
		cmd := offline.Index()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{dir})
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "1 file cannot be indexed: ") ||
			!strings.Contains(err.Error(), "bad.jsonl.gz") || strings.Contains(err.Error(), "README") {
			t.Errorf("the error is %v", err)
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "1 file left out, of no format") {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	}
}

// TestIndex indexes a folder once: the second time all files have an index, but for one that was changed. Damaged
// packs are made again. Listings of the folder go on without the indexes.
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
	for _, pack := range packs {
		if err := os.Truncate(pack, 0); err != nil {
			t.Fatal(err)
		}
	}
	index(told{3, 3, 0, 4, 400_040})
	index(told{3, 0, 3, 0, 0})
}

// TestIndexUnwritable: where a folder's indexes cannot be written, those that were made of others are.
func TestIndexUnwritable(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // files at once: z is looked at once there is an index of a file of a
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/1.jsonl": "{\"label\": 1}\n", "a/2.jsonl": strings.Repeat("{\"label\": 1}\n", 1<<20),
		"z/1.jsonl": "{\"label\": 1}\n", "z/_penstock": "no folder",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := offline.Index()
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{dir})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "z/_penstock") {
		t.Errorf("the error is %v", err)
	}
	packs, err := filepath.Glob(filepath.Join(dir, "a", "_penstock", "index", "*.indexes"))
	if err != nil || len(packs) == 0 {
		t.Errorf("there are %v: %v", packs, err)
	}
}

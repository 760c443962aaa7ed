package fit

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fitted"
)

// FuzzRun reads runs with true hashes: whatever they are, keys ascend, and reading ends.
func FuzzRun(f *testing.F) {
	f.Add([]byte{0, 1, 'a', 1, 1, 1, 'b', 2, 0, 1, 'b', 3}, uint64(3))
	f.Add([]byte{0, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 9}, uint64(2))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1}, uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, keys uint64) {
		s := readRun(io.NopCloser(bytes.NewReader(data)), "run",
			run{Keys: keys, Bytes: int64(len(data)), Hash: xxhash.Sum64(data)})
		var last []byte
		for n := 0; ; n++ {
			ok, err := s.next()
			if err != nil {
				if !strings.Contains(err.Error(), "damaged") {
					t.Fatal(err)
				}
				return
			}
			if !ok {
				return
			}
			if n > 0 && bytes.Compare(last, s.key()) >= 0 || s.count() == 0 || n > len(data) {
				t.Fatalf("%q after %q, %d times", s.key(), last, s.count())
			}
			last = append(last[:0], s.key()...)
		}
	})
}

// FuzzManifest opens folders with any manifest of a true hash.
func FuzzManifest(f *testing.F) {
	columns := []Column{{Name: "x", Kind: pb.Kind_INT64, Statistics: []fitted.Statistic{{Name: fitted.Moments}, {Name: fitted.Vocabulary}}}}
	columns[0].Statistics[0].Of, columns[0].Statistics[1].Of = "x", "x"
	whole, err := json.Marshal(manifest{
		Version: 1, MaxExact: defaultMaxExact, State: []byte("s"),
		Columns: []columnState{{Column: columns[0], Runs: []run{{File: "column-0-1.run", Keys: 1, Bytes: 4}}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(bytes.ReplaceAll(whole, []byte("column-0-1.run"), []byte("column-/../x.run")))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parseManifest(append([]byte(sum(body)+"\n"), body...))
		if err != nil {
			return
		}
		fit := open(t, columns, Options{})
		defer fit.Close()
		if fit.load(m) != nil {
			return
		}
		for _, r := range fit.columns[0].set.runs {
			if filepath.Dir(filepath.Join(fit.folder.dir, r.File)) != fit.folder.dir {
				t.Fatalf("run %q lies outside", r.File)
			}
		}
	})
}

// TestDamagedFolders: what a disk changed is found, and said.
func TestDamagedFolders(t *testing.T) {
	columns := []Column{{Name: "x", Kind: pb.Kind_INT64, Statistics: []fitted.Statistic{{Name: fitted.Vocabulary}}}}
	for _, c := range []struct {
		file string
		at   int
	}{{manifestName, 3}, {manifestName, 100}, {"*" + runEnding, 0}, {"*" + runEnding, 9}, {"*" + runEnding, -1}} {
		folder := t.TempDir()
		f := open(t, columns, Options{Folder: folder})
		if err := f.Add([][]Values{{{Int64s: []int64{5, 300, 300, -7}}}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Checkpoint([]byte("here")); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(folder, c.file))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		data, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		if c.at < 0 {
			data = data[:len(data)-1]
		} else {
			data[c.at] ^= 1
		}
		if err := os.WriteFile(names[0], data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err = Open(columns, Options{Folder: folder})
		if err == nil {
			w, werr := fitted.NewWriter(io.Discard, fitted.Info{})
			if werr != nil {
				t.Fatal(werr)
			}
			err = f.Write(t.Context(), w)
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "fit from the start") {
			t.Errorf("byte %d of %s: %v", c.at, c.file, err)
		}
	}
}

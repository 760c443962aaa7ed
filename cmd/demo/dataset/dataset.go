// Package dataset makes the Parquet datasets that the demo, the benchmarks and the end-to-end tests read: once per
// size, cached on disk, with the same bytes each time. columns.go says what columns may look like and what Criteo's do,
// generate.go what is in them, write.go and photograph.go how they get into files. Make and Criteo may be called by
// several goroutines and processes at once; they may then do the work twice, but each gets a whole dataset.
package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	manifestName = "manifest.json"
	tempPrefix   = ".making-"
	// abandonedAfter is the age at which a temporary directory is taken for the remains of an interrupted making.
	abandonedAfter = time.Hour
)

// manifest is written last: a directory without one that matches is no dataset.
type manifest struct {
	Version    int         `json:"version"`
	Rows       int         `json:"rows"`
	Parameters string      `json:"parameters"` // checksum
	Files      []fileEntry `json:"files"`
}

type fileEntry struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	Size int64  `json:"size"`
}

// Table is a dataset that Make can make.
type Table struct {
	Name    string // of its directory, before size and version
	Rows    int
	Columns []Column
	// FileRows and GroupRows are the rows of each file and each row group but the last ones. 0 gives several of both
	// even to a small dataset.
	FileRows, GroupRows int
}

// Criteo returns the paths of a dataset of the given number of rows, sorted, making it under dir if it is not there.
// Its columns are label (int32), int_0 to int_12 (float32, 10 to 20% null, skewed) and cat_0 to cat_25 (lists of
// int64 with zipf-distributed ids, some null, some empty). Datasets of different sizes lie side by side. progress,
// which may be nil, is called by one goroutine at a time with the rows made so far.
func Criteo(ctx context.Context, dir string, rows int, progress func(done, total int)) ([]string, error) {
	return Make(ctx, dir, Table{Name: "criteo", Rows: rows, Columns: CriteoColumns()}, progress)
}

// Make returns the paths of the table's files, sorted, making them under dir if they are not there.
func Make(ctx context.Context, dir string, t Table, progress func(done, total int)) ([]string, error) {
	if t.Rows < 1 || t.FileRows < 0 || t.GroupRows < 0 {
		return nil, fmt.Errorf(
			"dataset %s: %d rows asked for, in files of %d and row groups of %d: ask for 1 row or more",
			t.Name, t.Rows, t.FileRows, t.GroupRows)
	}
	want := manifest{Version: formatVersion, Rows: t.Rows, Parameters: t.checksum(), Files: layout(t.Rows, t.FileRows)}
	target := filepath.Join(dir, fmt.Sprintf("%s-%d-v%d-%s", t.Name, t.Rows, formatVersion, want.Parameters))
	paths := want.paths(target)
	if want.matches(target) {
		return paths, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("dataset: make the cache directory: %w", err)
	}
	removeAbandoned(dir)
	tmp, err := os.MkdirTemp(dir, tempPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("dataset: make a temporary directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := makeFiles(ctx, tmp, t, want, progress); err != nil {
		return nil, err
	}
	if err := want.publish(tmp, target); err != nil {
		return nil, err
	}
	return paths, nil
}

func (m manifest) paths(dir string) []string {
	paths := make([]string, len(m.Files))
	for i, f := range m.Files {
		paths[i] = filepath.Join(dir, f.Name)
	}
	return paths
}

// matches reports whether dir holds the dataset that m describes, whole.
func (m manifest) matches(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return false
	}
	var have manifest
	if json.Unmarshal(text, &have) != nil || len(have.Files) != len(m.Files) ||
		have.Version != m.Version || have.Rows != m.Rows || have.Parameters != m.Parameters {
		return false
	}
	for i, f := range have.Files {
		info, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil || f.Name != m.Files[i].Name || f.Rows != m.Files[i].Rows || info.Size() != f.Size {
			return false
		}
	}
	return true
}

// publish writes the manifest and moves the finished directory to its place.
func (m manifest) publish(tmp, target string) error {
	for i := range m.Files {
		info, err := os.Stat(filepath.Join(tmp, m.Files[i].Name))
		if err != nil {
			return fmt.Errorf("dataset: %w", err)
		}
		m.Files[i].Size = info.Size()
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("dataset: manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(tmp, manifestName), text, 0o644); err != nil {
		return fmt.Errorf("dataset: write the manifest: %w", err)
	}
	// MkdirTemp made it private; other users of the machine may share the cache.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	if os.Rename(tmp, target) == nil || m.matches(target) {
		return nil // ours, or that of another process which was faster
	}
	// What stands there is damaged.
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("dataset: remove a damaged dataset: %w", err)
	}
	if err := os.Rename(tmp, target); err != nil && !m.matches(target) {
		return fmt.Errorf("dataset: move into place: %w", err)
	}
	return nil
}

// removeAbandoned deletes what interrupted makings left behind. What it cannot delete does no harm but take space.
func removeAbandoned(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), tempPrefix) &&
			time.Since(info.ModTime()) > abandonedAfter {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

const (
	rowsPerFile   = 250_000
	rowsPerGroup  = 1 << 16
	smallestFile  = 1000
	filesIfSmall  = 8
	groupsOfAFile = 4
	smallestGroup = 128
	filesAtOnce   = 4
)

// layout cuts rows into files: of fileRows rows, or, if that is 0, of at most rowsPerFile, but several even of a small
// dataset.
func layout(rows, fileRows int) []fileEntry {
	n := max((rows+rowsPerFile-1)/rowsPerFile, min(filesIfSmall, rows/smallestFile), 1)
	if fileRows > 0 {
		n = (rows + fileRows - 1) / fileRows
	}
	files := make([]fileEntry, n)
	for i := range files {
		size := rows*(i+1)/n - rows*i/n
		if fileRows > 0 {
			size = min(fileRows, rows-i*fileRows)
		}
		files[i] = fileEntry{Name: fmt.Sprintf("part-%05d.parquet", i), Rows: size}
	}
	return files
}

// groupRows is the row-group size of a file, if none is asked for: several groups even of a small one.
func groupRows(fileRows int) int {
	return min(rowsPerGroup, max(smallestGroup, (fileRows+groupsOfAFile-1)/groupsOfAFile))
}

// makeFiles writes all files into dir, several at once.
func makeFiles(ctx context.Context, dir string, t Table, m manifest, progress func(done, total int)) error {
	var mu sync.Mutex
	made := 0
	report := func(rows int) {
		mu.Lock()
		defer mu.Unlock()
		made += rows
		if progress != nil {
			progress(made, m.Rows)
		}
	}
	generator := NewGenerator(t.Columns)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), filesAtOnce))
	first := 0
	for i, f := range m.Files {
		start := first
		group.Go(func() error {
			w := &fileWriter{Table: t, generator: generator, made: report}
			if err := w.write(ctx, m.paths(dir)[i], start, f.Rows); err != nil {
				return fmt.Errorf("dataset: make %s: %w", f.Name, err)
			}
			return nil
		})
		first += f.Rows
	}
	return group.Wait()
}

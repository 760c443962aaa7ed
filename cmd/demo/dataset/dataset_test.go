package dataset

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func readAll(t *testing.T, paths []string) []byte {
	t.Helper()
	var all []byte
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func TestSameBytesEachTime(t *testing.T) {
	var first []byte
	for range 2 {
		paths, err := Criteo(t.Context(), t.TempDir(), 9000, nil)
		if err != nil {
			t.Fatal(err)
		}
		all := readAll(t, paths)
		if first != nil && !bytes.Equal(first, all) {
			t.Error("two makings differ")
		}
		first = all
	}
}

func TestLayout(t *testing.T) {
	for _, tt := range []struct{ rows, files int }{
		{1, 1}, {1999, 1}, {2000, 2}, {8000, 8}, {100_000, 8}, {2_000_000, 8}, {5_000_000, 20},
	} {
		files := layout(tt.rows, 0)
		sum := 0
		for _, f := range files {
			sum += f.Rows
			if f.Rows >= 1000 && groupRows(f.Rows) >= f.Rows {
				t.Errorf("%d rows: %s has one row group only", tt.rows, f.Name)
			}
		}
		if len(files) != tt.files || sum != tt.rows {
			t.Errorf("%d rows: %d files with %d rows, want %d files", tt.rows, len(files), sum, tt.files)
		}
	}
}

func TestShape(t *testing.T) {
	var last, calls int
	paths, err := Criteo(t.Context(), t.TempDir(), 20_000, func(done, total int) {
		if done <= last || total != 20_000 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
		calls++
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != 20_000 || calls < 8 {
		t.Errorf("progress ended at %d after %d calls", last, calls)
	}
	nulls, elements, empty := map[string]int{}, map[string]int{}, map[string]int{}
	ones := 0
	for _, p := range paths {
		table := readTable(t, p)
		for i := range int(table.NumCols()) {
			name := table.Column(i).Name()
			for _, chunk := range table.Column(i).Data().Chunks() {
				nulls[name] += chunk.NullN()
				switch chunk := chunk.(type) {
				case *array.List:
					elements[name] += chunk.ListValues().Len()
					if chunk.ListValues().NullN() > 0 {
						t.Errorf("%s has null elements", name)
					}
					for r := range chunk.Len() {
						if from, to := chunk.ValueOffsets(r); chunk.IsValid(r) && from == to {
							empty[name]++
						}
					}
				case *array.Int32:
					for _, y := range chunk.Int32Values() {
						ones += int(y)
					}
				}
			}
		}
	}
	if len(nulls) != 40 || nulls["label"] != 0 || ones < 3000 || ones > 5000 {
		t.Errorf("%d columns, %d null labels, %d positives", len(nulls), nulls["label"], ones)
	}
	totalElements := 0
	for _, c := range CriteoColumns() {
		share := float64(nulls[c.Name]) / 20_000
		switch c.Kind {
		case Dense:
			if share < 0.09 || share > 0.21 {
				t.Errorf("%s: %.3f of the rows are null", c.Name, share)
			}
		case Sparse:
			totalElements += elements[c.Name]
			if nulls[c.Name] == 0 || empty[c.Name] == 0 {
				t.Errorf("%s: %d nulls and %d empty lists", c.Name, nulls[c.Name], empty[c.Name])
			}
		}
	}
	if mean := float64(totalElements) / 20_000 / sparseColumns; mean < 2.5 || mean > 3.5 {
		t.Errorf("lists have %.2f elements on average", mean)
	}
}

func readTable(t *testing.T, path string) arrow.Table {
	t.Helper()
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := r.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// The head of the distribution of ids is heavy, and its tail long.
func TestZipf(t *testing.T) {
	columns := CriteoColumns()
	samplers := newSamplers(columns)
	for i, c := range columns {
		if c.Kind != Sparse {
			continue
		}
		counts := map[int64]int{}
		for row := range 20_000 {
			rank := samplers[i].rank(mix(cell(row, i) + golden))
			if rank < 1 || rank > uint32(c.Ranks) {
				t.Fatalf("%s: rank %d of %d", c.Name, rank, c.Ranks)
			}
			counts[samplers[i].id(rank)]++
		}
		top := 0
		for _, n := range counts {
			top = max(top, n)
		}
		if top < 10*20_000/c.Ranks || top < 200 || len(counts) < min(c.Ranks/2, 1000) {
			t.Errorf("%s: %d distinct ids, the most frequent %d times", c.Name, len(counts), top)
		}
	}
}

func TestCache(t *testing.T) {
	dir := t.TempDir()
	make := func(rows int) (paths []string, made bool) {
		paths, err := Criteo(t.Context(), dir, rows, func(int, int) { made = true })
		if err != nil {
			t.Fatal(err)
		}
		return paths, made
	}
	paths, made := make(3000)
	if !made {
		t.Error("was not made")
	}
	want := readAll(t, paths)
	if _, made := make(3000); made {
		t.Error("was made again though it is there")
	}
	if others, made := make(2500); !made || filepath.Dir(others[0]) == filepath.Dir(paths[0]) {
		t.Error("another size does not lie beside")
	}
	damages := map[string]func() error{
		"a file cut short": func() error { return os.Truncate(paths[1], 100) },
		"a file gone":      func() error { return os.Remove(paths[0]) },
		"no manifest":      func() error { return os.Remove(filepath.Join(filepath.Dir(paths[0]), manifestName)) },
		"half a manifest": func() error {
			return os.Truncate(filepath.Join(filepath.Dir(paths[0]), manifestName),
				30)
		},
	}
	for name, damage := range damages {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, made := make(3000); !made {
			t.Errorf("%s: was taken for whole", name)
		}
		if !bytes.Equal(readAll(t, paths), want) {
			t.Errorf("%s: was not mended", name)
		}
	}
}

func TestInterruptedMaking(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Criteo(ctx, dir, 50_000, func(int, int) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	abandoned := filepath.Join(dir, tempPrefix+"1")
	if err := os.Mkdir(abandoned, 0o755); err != nil {
		t.Fatal(err)
	}
	removeAbandoned(dir)
	if _, err := os.Stat(abandoned); err != nil {
		t.Errorf("removed a making that may be under way: %v", err)
	}
	long := time.Now().Add(-2 * abandonedAfter)
	if err := os.Chtimes(abandoned, long, long); err != nil {
		t.Fatal(err)
	}
	removeAbandoned(dir)
	if _, err := os.Stat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Error("did not remove an abandoned making")
	}
}

func TestErrors(t *testing.T) {
	if _, err := Criteo(t.Context(), t.TempDir(), 0, nil); err == nil {
		t.Error("0 rows: no error")
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Criteo(t.Context(), plain, 10, nil); err == nil {
		t.Error("a file for a directory: no error")
	}
}

func BenchmarkCriteo(b *testing.B) {
	const rows = 250_000
	for b.Loop() {
		paths, err := Criteo(b.Context(), b.TempDir(), rows, nil)
		if err != nil {
			b.Fatal(err)
		}
		var size int64
		for _, p := range paths {
			info, err := os.Stat(p)
			if err != nil {
				b.Fatal(err)
			}
			size += info.Size()
		}
		b.SetBytes(size)
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func TestMake(t *testing.T) {
	const rows = 300
	paths, err := Make(t.Context(), t.TempDir(), Table{
		Name: "small", Rows: rows, FileRows: 128, GroupRows: 50,
		Columns: []Column{
			{Name: "row", Kind: Row},
			{Name: "real", Kind: Real, Low: 0.25, High: 64, Null: 100},
			{Name: "ids", Kind: Sparse, Longer: 973, Longest: 100, Ranks: 1000},
			{Name: "photo", Kind: JPEG, Width: 70, Height: 50},
		},
	}, nil)
	if err != nil || len(paths) != 3 {
		t.Fatal(paths, err)
	}
	ids, row := 0, int64(0)
	for _, p := range paths {
		table := readTable(t, p)
		for _, chunk := range table.Column(0).Data().Chunks() {
			for _, r := range chunk.(*array.Int64).Int64Values() {
				if r != row {
					t.Fatalf("%s: row %d is numbered %d", p, row, r)
				}
				row++
			}
		}
		for _, chunk := range table.Column(1).Data().Chunks() {
			for i, x := range chunk.(*array.Float32).Float32Values() {
				if chunk.IsValid(i) && (x < 0.25 || x >= 64) {
					t.Errorf("%v is not from 0.25 to 64", x)
				}
			}
		}
		for _, chunk := range table.Column(2).Data().Chunks() {
			ids += chunk.(*array.List).ListValues().Len()
		}
		for _, chunk := range table.Column(3).Data().Chunks() {
			for i := range chunk.Len() {
				img, err := jpeg.Decode(bytes.NewReader(chunk.(*array.Binary).Value(i)))
				if err != nil || img.Bounds() != image.Rect(0, 0, 70, 50) {
					t.Fatal(img, err)
				}
			}
		}
	}
	if mean := float64(ids) / rows; row != rows || mean < 17 || mean > 23 {
		t.Errorf("%d rows; lists have %.1f elements on average, want about 20", row, mean)
	}
}

// Package workload describes what bench/peers and others measure with: datasets of the shapes that recommendation
// models and image models train from, made by cmd/demo/dataset, and for each a Penstock spec and the same in words
// that a program in another framework can follow (Recipe). Everything is a pure function of the Workload; it may be
// used by many goroutines.
package workload

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
)

// Workload is a dataset and what becomes of it. Fields may be changed before it is used.
type Workload struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	// Dense features are float32 columns, of which Null in 1,024 values are null; Sparse ones are lists of int64 ids
	// with Length elements on average. Generated ones are made of the first dense ones, by Borders borders.
	Dense     int `json:"dense"`
	Null      int `json:"null"`
	Sparse    int `json:"sparse"`
	Length    int `json:"length"`
	Generated int `json:"generated"`
	Borders   int `json:"borders"`
	// Transform fills, takes logarithms of and buckets dense features, and hashes sparse ones. Without it columns
	// become tensors as they are.
	Transform bool `json:"transform"`
	// Width and Height of the photographs, if there are any, and the side of the square that is cut out of each.
	Width  int `json:"width"`
	Height int `json:"height"`
	Crop   int `json:"crop"`
	// Random parts of the photographs are cut out and resized, else all of each is resized.
	Random bool `json:"random"`

	BatchSize int `json:"batch_size"`
	FileRows  int `json:"file_rows"`
	GroupRows int `json:"group_rows"`
}

// Hash parameters, alike in all workloads.
const (
	salt    = 7
	buckets = 1_000_000
)

// Values of dense features lie from low to below high.
const (
	low  = 1. / 16
	high = 1 << 14
)

// All returns the workloads. rm1 is of Criteo's shape; rm2 and rm5 are those of PreSto (ISCA 2024, table 1); scan has
// no transforms, jpeg has photographs. They have as many rows as take other systems seconds, so that it is not the
// opening of a session that is measured.
func All() []Workload {
	rm := Workload{Null: 50, BatchSize: 8192, FileRows: 1 << 16, GroupRows: 1 << 14, Transform: true}
	rm1 := rm
	rm1.Name, rm1.Rows, rm1.Dense, rm1.Sparse, rm1.Length = "rm1", 1<<24, 13, 26, 1
	rm1.Generated, rm1.Borders, rm1.FileRows, rm1.GroupRows = 13, 1024, 1<<18, 1<<16
	rm2 := rm
	rm2.Name, rm2.Rows, rm2.Dense, rm2.Sparse, rm2.Length = "rm2", 1<<19, 504, 42, 20
	rm2.Generated, rm2.Borders = 21, 1024
	rm5 := rm2
	rm5.Name, rm5.Generated, rm5.Borders = "rm5", 42, 4096
	scan := rm
	scan.Name, scan.Rows, scan.Dense, scan.Sparse, scan.Length = "scan", 1<<23, 64, 16, 5
	scan.Transform, scan.FileRows, scan.GroupRows = false, 1<<17, 1<<15
	jpeg := Workload{
		Name: "jpeg", Rows: 1 << 14, Transform: true, Width: 500, Height: 375, Crop: 224, Random: true, BatchSize: 64,
		FileRows: 1 << 10, GroupRows: 1 << 8,
	}
	return []Workload{rm1, rm2, rm5, scan, jpeg}
}

// Named returns one of All.
func Named(name string) (Workload, error) {
	var names []string
	for _, w := range All() {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return Workload{}, fmt.Errorf("workload %q: there is none of that name; there are %s",
		name, strings.Join(names, ", "))
}

// Validate returns what is wrong with a workload that was changed.
func (w Workload) Validate() error {
	for _, c := range []struct {
		field    string
		value    int
		min, max int
	}{
		{"rows", w.Rows, 1, math.MaxInt32},
		{"dense", w.Dense, 0, 100_000},
		{"null", w.Null, 0, 1024},
		{"sparse", w.Sparse, 0, 100_000},
		{"length", w.Length, min(1, w.Sparse), longest},
		{"generated", w.Generated, 0, w.Dense},
		{"borders", w.Borders, min(1, w.Generated), 1 << 20},
		{"batch_size", w.BatchSize, 1, 1 << 24},
		{"file_rows", w.FileRows, 0, math.MaxInt32},
		{"group_rows", w.GroupRows, 0, math.MaxInt32},
		{"width", w.Width, 0, 1 << 14},
		{"height", w.Height, min(1, w.Width), 1 << 14},
		{"crop", w.Crop, min(1, w.Width), 1 << 14},
	} {
		if c.value < c.min || c.value > c.max {
			return fmt.Errorf("workload %s: %s is %d; want %d to %d", w.Name, c.field, c.value, c.min, c.max)
		}
	}
	if w.Generated > 0 && !w.Transform {
		return fmt.Errorf("workload %s: %d features are generated, but transform is false", w.Name, w.Generated)
	}
	if w.Width > 0 && !w.Transform {
		return fmt.Errorf("workload %s: photographs are decoded, but transform is false", w.Name)
	}
	return w.validateSpec()
}

// maxSpec is what masters take of a spec's text, 1 MiB, less room for a URI.
const maxSpec = 1<<20 - 4096

// validateSpec returns why Penstock would refuse the spec, which otherwise came to light once the dataset is made.
func (w Workload) validateSpec() error {
	text := w.Spec("")
	if len(text) > maxSpec {
		return fmt.Errorf(
			"workload %s: with %d borders and %d generated features the spec has %d bytes; want at most %d",
			w.Name, w.Borders, w.Generated, len(text), maxSpec)
	}
	if _, err := spec.Parse([]byte(text)); err != nil {
		return fmt.Errorf("workload %s: %d generated features of %d borders each: %w",
			w.Name, w.Generated, w.Borders, err)
	}
	return nil
}

const (
	longest    = 200 // mean length that longer can come to
	longestCut = 1024
)

// longer is how many of 1,024 lists go on after each element so that they have about length elements on average. They
// are counted in whole lists of 1,024, rounded down, so that long ones need more than the reciprocal.
func longer(length int) int {
	count := 1024 - 1024/length
	for length > 30 && meanLength(count) < length {
		count++
	}
	if length > 30 && meanLength(count)-length > length-meanLength(count-1) {
		count--
	}
	return count
}

func meanLength(longer int) int {
	sum := 0
	for lists := 1024; lists > 0; lists = lists * longer / 1024 {
		sum += lists
	}
	return sum / 1024
}

// Make writes the dataset under dir, unless it is there, and returns its files. Their paths are absolute, as masters
// want them.
func (w Workload) Make(ctx context.Context, dir string, progress func(done, total int)) ([]string, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the datasets: %w", err)
	}
	return dataset.Make(ctx, dir, dataset.Table{
		Name: "workload", Rows: w.Rows, Columns: w.columns(), FileRows: w.FileRows, GroupRows: w.GroupRows,
	}, progress)
}

func (w Workload) columns() []dataset.Column {
	columns := []dataset.Column{{Name: rowName, Kind: dataset.Row}, {Name: labelName, Kind: dataset.Label}}
	for _, name := range w.dense() {
		columns = append(columns, dataset.Column{Name: name, Kind: dataset.Real, Null: w.Null, Low: low, High: high})
	}
	for i, name := range w.sparse() {
		c := dataset.Column{Name: name, Kind: dataset.Sparse, Ranks: 100 << (i % 14), Offset: i % 7}
		if w.Length > 1 {
			// Lengths of mean n are drawn geometrically, and no row is empty, as in Criteo's.
			c.Longer, c.Longest = longer(w.Length), longestCut
		}
		columns = append(columns, c)
	}
	if w.Width > 0 {
		columns = append(columns, dataset.Column{Name: photoName, Kind: dataset.JPEG, Width: w.Width, Height: w.Height})
	}
	return columns
}

const (
	rowName   = "row"
	labelName = "label"
	photoName = "photo"
)

func (w Workload) dense() []string  { return numbered("dense", w.Dense) }
func (w Workload) sparse() []string { return numbered("sparse", w.Sparse) }

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s_%d", prefix, i)
	}
	return names
}

// borders lie between low and high, as values do: as many in each octave.
func (w Workload) borders() []float32 {
	from, to := math.Float32bits(low), math.Float32bits(high)
	borders := make([]float32, w.Borders)
	for i := range borders {
		borders[i] = math.Float32frombits(from + uint32(uint64(to-from)*uint64(i+1)/uint64(w.Borders+1)))
	}
	return slices.Compact(borders)
}

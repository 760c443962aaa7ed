package workload

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Recipe says what to make of the files' columns, for programs in other frameworks. The steps are in this order; names
// are those of columns and of tensors.
type Recipe struct {
	// Row and Label become tensors as they are, int64 and int32.
	Row   string `json:"row"`
	Label string `json:"label"`
	// Dense columns are the columns of one float32 matrix. If Fill is set their nulls become 0, else NaN.
	Dense []string `json:"dense"`
	Fill  bool     `json:"fill"`
	// Generated features have one int64 a row: how many borders lie below the value of In.
	Generated []Generated `json:"generated"`
	Borders   []float32   `json:"borders"`
	// Log is set if dense values x then become ln(1+x).
	Log bool `json:"log"`
	// Sparse columns keep their lists. If Buckets is not 0 each id is hashed (sigrid_hash) to 0 up to Buckets.
	Sparse  []string `json:"sparse"`
	Salt    int64    `json:"salt"`
	Buckets int64    `json:"buckets"`
	// Photo, if set, is decoded, and all of it, or a random part (torchvision's RandomResizedCrop), resized to Crop by
	// Crop pixels, uint8 RGB.
	Photo  string `json:"photo"`
	Crop   int    `json:"crop"`
	Random bool   `json:"random"`

	BatchSize int `json:"batch_size"`
}

// Generated is a feature made by bucketize.
type Generated struct {
	Name string `json:"name"`
	In   string `json:"in"`
}

// Recipe returns what the spec says.
func (w Workload) Recipe() Recipe {
	r := Recipe{
		Row: rowName, Label: labelName, Dense: w.dense(), Sparse: w.sparse(), BatchSize: w.BatchSize,
		Generated: []Generated{}, Borders: w.borders(), Fill: w.Transform, Log: w.Transform,
	}
	for i := range w.Generated {
		r.Generated = append(r.Generated, Generated{Name: fmt.Sprintf("generated_%d", i), In: r.Dense[i]})
	}
	if w.Transform {
		r.Salt, r.Buckets = salt, buckets
	}
	if w.Width > 0 {
		r.Photo, r.Crop, r.Random = photoName, w.Crop, w.Random
	}
	return r
}

// SpecOf is the Spec of the files that Make returned.
func (w Workload) SpecOf(files []string) string {
	return w.Spec(filepath.Join(filepath.Dir(files[0]), "*.parquet"))
}

// Spec returns the Penstock spec, as YAML, of the workload's files under a URI.
func (w Workload) Spec(uri string) string {
	r := w.Recipe()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("dataset: {uri: %q}", uri)
	line("batch_size: %d", w.BatchSize)
	line("features:")
	line("  - label: [%s, %s]", r.Row, r.Label)
	if w.Dense > 0 {
		line("  - dense: dense_*")
	}
	if w.Sparse > 0 {
		line("  - sparse: sparse_*")
	}
	if w.Generated > 0 {
		line("  - sparse: generated_*")
	}
	if w.Width > 0 {
		line("  - image: %s", r.Photo)
	}
	if !w.Transform {
		return b.String()
	}
	line("transforms:")
	if w.Width > 0 {
		line("  - {op: decode_jpeg, in: %s}", r.Photo)
		if w.Random {
			line("  - {op: random_resized_crop, in: %s, size: %d}", r.Photo, r.Crop)
		} else {
			line("  - {op: resize, in: %s, size: [%d, %d]}", r.Photo, r.Crop, r.Crop)
		}
	}
	if w.Dense > 0 {
		line("  - {op: fill_null, in: dense_*, value: 0}")
	}
	borders := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(r.Borders)), ", "), "[]")
	for i, g := range r.Generated {
		list := "*borders" // written once: a spec may not be long
		if i == 0 {
			list = "&borders [" + borders + "]"
		}
		line("  - {op: bucketize, in: %s, borders: %s, out: %s}", g.In, list, g.Name)
	}
	if w.Dense > 0 {
		line("  - {op: log1p, in: dense_*}")
	}
	if w.Sparse > 0 {
		line("  - {op: sigrid_hash, in: sparse_*, salt: %d, max: %d}", r.Salt, r.Buckets)
	}
	return b.String()
}

package fit

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/fitted"
)

// asBatch has the scalars of a record in the layouts that bring them as they are, and two rows of padding.
func asBatch(rec arrow.Record) *client.Batch {
	n := int(rec.NumRows())
	col := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
	b := &client.Batch{Rows: n + 2, Valid: n, DenseNames: []string{"other", "bool"}}
	sparse := func(name string, valid func(i int) bool, add func(s *client.Sparse, i int)) {
		s := client.Sparse{Name: name, Offsets: []int32{0}}
		for i := range n {
			if valid(i) {
				add(&s, i)
			}
			s.Offsets = append(s.Offsets, int32(max(len(s.Values), len(s.Floats))))
		}
		s.Offsets = append(s.Offsets, s.Offsets[n], s.Offsets[n])
		b.Sparse = append(b.Sparse, s)
	}
	for i := range n {
		value := float32(math.NaN())
		if a := col("bool").(*array.Boolean); a.IsValid(i) {
			value = map[bool]float32{true: 1}[a.Value(i)]
		}
		b.Dense = append(b.Dense, 7, value)
	}
	i32, i64, f32 := col("int32").(*array.Int32), col("int64").(*array.Int64), col("float32").(*array.Float32)
	sparse("int32", i32.IsValid, func(s *client.Sparse, i int) { s.Values = append(s.Values, int64(i32.Value(i))) })
	sparse("int64", i64.IsValid, func(s *client.Sparse, i int) { s.Values = append(s.Values, i64.Value(i)) })
	sparse("float32", f32.IsValid, func(s *client.Sparse, i int) { s.Floats = append(s.Floats, f32.Value(i)) })
	ints := col("ints").(*array.List)
	elements := ints.ListValues().(*array.Int64)
	sparse("ints", ints.IsValid, func(s *client.Sparse, i int) {
		for from, to := ints.ValueOffsets(i); from < to; from++ {
			if elements.IsValid(int(from)) {
				s.Values = append(s.Values, elements.Value(int(from)))
			}
		}
	})
	b.Bytes = append(b.Bytes, packedTexts(col("texts").(*array.List)))
	f64, text := col("float64").(*array.Float64), col("text").(*array.String)
	here, there := client.Label{Name: "float64_here"}, client.Label{Name: "text_here"}
	floats, words := client.Label{Name: "float64"}, client.Bytes{Name: "text", Offsets: []int32{0}}
	for i := range n {
		here.Bool, there.Bool = append(here.Bool, f64.IsValid(i)), append(there.Bool, text.IsValid(i))
		x := math.NaN()
		if f64.IsValid(i) {
			x = f64.Value(i)
		}
		floats.F64 = append(floats.F64, x)
		if text.IsValid(i) {
			words.Data = append(words.Data, text.Value(i)...)
		}
		words.Offsets = append(words.Offsets, int32(len(words.Data)))
	}
	b.Labels, b.Bytes = []client.Label{floats, here, there}, append(b.Bytes, words)
	return b
}

// packedTexts are lists of texts as workers pack them.
func packedTexts(lists *array.List) client.Bytes {
	out := client.Bytes{Name: "texts", Offsets: []int32{0}}
	texts := lists.ListValues().(*array.String)
	for i := range lists.Len() {
		for from, to := lists.ValueOffsets(i); lists.IsValid(i) && from < to; from++ {
			if texts.IsValid(int(from)) {
				out.Data = spec.PackText(out.Data, []byte(texts.Value(int(from))))
			}
		}
		out.Offsets = append(out.Offsets, int32(len(out.Data)))
	}
	return out
}

// TestBatchesAsRecords: batches of a session make the file that the columns themselves make.
func TestBatchesAsRecords(t *testing.T) {
	var columns []Column
	for _, c := range asked() {
		switch c.Name {
		case "float64", "text":
			c.Present = c.Name + "_here"
		case "ints":
			c.List, c.Statistics = true, c.Statistics[1:] // null elements do not come, and are not counted
		case "texts":
			c.List = true
		case "bool", "int32", "int64", "float32":
		default:
			continue
		}
		columns = append(columns, c)
	}
	rec := testTable().NewSlice(0, 3_000)
	want, got := open(t, columns, Options{}), open(t, columns, Options{})
	feed(t, want, rec, 0, rec.NumRows(), 1_000)
	for at := int64(0); at < rec.NumRows(); at += 500 {
		if err := got.AddBatch(asBatch(rec.NewSlice(at, at+500))); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(finish(t, want), finish(t, got)) {
		t.Error("batches make another file")
	}
}

func TestTensorsAndPaddedRows(t *testing.T) {
	padded := client.Padded{
		Name: "p", Length: 3, Dtype: "float64", Lengths: []int32{2, 0, 3}, Left: true,
		Data: arrow.Float64Traits.CastToBytes([]float64{9, 1, 2, 9, 9, 9, 3, 4, 5}),
	}
	tensor := client.Tensor{
		Name: "t", Shape: []int{2}, Dtype: "int32", Data: arrow.Int32Traits.CastToBytes([]int32{1, 2, 3, 4, 5, 6}),
	}
	s := []fitted.Statistic{{Name: fitted.Moments}}
	f := open(t, []Column{
		{Name: "p", Kind: pb.Kind_FLOAT64, List: true, Statistics: s},
		{Name: "t", Kind: pb.Kind_INT32, List: true, Statistics: s},
		{Name: "unasked", Kind: pb.Kind_BINARY},
	}, Options{})
	unasked := client.Bytes{Name: "unasked", Data: []byte("abc"), Offsets: []int32{0, 1, 2, 3}}
	batch := &client.Batch{Rows: 3, Valid: 3, Bytes: []client.Bytes{unasked}, Padded: []client.Padded{padded}, Tensors: []client.Tensor{tensor}}
	if err := f.AddBatch(batch); err != nil {
		t.Fatal(err)
	}
	file, err := fitted.OpenBytes("f", finish(t, f))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []fitted.Summary{
		{Values: 5, Mean: fitted.Float(3), Std: fitted.Float(math.Sqrt2), Min: fitted.Float(1), Max: fitted.Float(5)},
		{Values: 6, Mean: fitted.Float(3.5), Std: fitted.Float(math.Sqrt(35.0 / 12)), Min: fitted.Int(1), Max: fitted.Int(6)},
	} {
		got, err := file.Summary(t.Context(), &file.Entries[i])
		if err != nil || got.Values != want.Values || got.Mean.Float != want.Mean.Float || got.Std.Float != want.Std.Float ||
			got.Min.String() != want.Min.String() || got.Max.String() != want.Max.String() {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}

// TestWrongFeeds: an error names the column and what to do, stays, and what was fed is released.
func TestWrongFeeds(t *testing.T) {
	s := []fitted.Statistic{{Name: fitted.Vocabulary}}
	for _, c := range []struct {
		column Column
		batch  client.Batch
		want   string
	}{
		{Column{Name: "x", Kind: pb.Kind_INT64}, client.Batch{}, "ask for it"},
		{Column{Name: "x", Kind: pb.Kind_INT64}, client.Batch{DenseNames: []string{"x"}}, "dense rounds"},
		{
			Column{Name: "x", Kind: pb.Kind_INT64},
			client.Batch{Valid: 1, Labels: []client.Label{{Name: "x", F32: []float32{1}}}},
			"values of kind float32 came, and int64 was declared",
		},
		{
			Column{Name: "x", Kind: pb.Kind_BINARY, Present: "here"},
			client.Batch{Bytes: []client.Bytes{{Name: "x", Offsets: []int32{0}}}},
			"here",
		},
		{
			Column{Name: "x", Kind: pb.Kind_BINARY, List: true},
			client.Batch{Valid: 1, Bytes: []client.Bytes{{Name: "x", Data: []byte("\x02a"), Offsets: []int32{0, 2}}}},
			"row 0 of a batch: packed texts end early: run workers of this release",
		},
	} {
		c.column.Statistics = s
		f := open(t, []Column{c.column}, Options{})
		err := f.AddBatch(&c.batch)
		released := make(chan struct{})
		for err == nil { // it is found by the column's goroutine
			err = f.Add([][]Values{{{Int64s: []int64{1}}}}, nil)
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "column x") {
			t.Errorf("got %v, want %q", err, c.want)
		}
		_ = f.Add([][]Values{nil}, func() { close(released) })
		<-released
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open([]Column{{Name: "x", Kind: pb.Kind_INT64}, {Name: "x"}}, Options{}); err == nil {
		t.Error("a column may come twice")
	}
	folder := t.TempDir()
	f := open(t, nil, Options{Folder: folder})
	if _, err := Open(nil, Options{Folder: folder}); err == nil || !strings.Contains(err.Error(), "another fit works") {
		t.Errorf("two fits share a folder: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

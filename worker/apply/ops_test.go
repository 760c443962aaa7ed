package apply_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/worker/apply"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/transform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	rows   = 97
	window = 10 // rows of the training's windows
)

// table has the columns that the examples of ops name, with nulls, NaN and infinities.
func table() arrow.Record {
	r := rand.New(rand.NewPCG(1, 2))
	var fields []arrow.Field
	var columns []arrow.Array
	add := func(name string, b array.Builder, value func(), nulls float64) {
		for range rows {
			if r.Float64() < nulls {
				b.AppendNull()
			} else {
				value()
			}
		}
		columns = append(columns, b.NewArray())
		fields = append(fields, arrow.Field{Name: name, Type: columns[len(columns)-1].DataType(), Nullable: true})
	}
	numbers := []float64{0, 0.25, 0.5, 1, -3, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}
	for _, name := range []string{"int_1", "int_2"} {
		b := array.NewInt32Builder(memory.DefaultAllocator)
		add(name, b, func() { b.Append(int32(r.Uint32()) >> r.IntN(32)) }, 0.2)
	}
	for _, name := range []string{"price", "size", "age"} {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		add(name, b, func() { b.Append(numbers[r.IntN(len(numbers))]) }, 0.2)
	}
	label := array.NewInt64Builder(memory.DefaultAllocator)
	add("label", label, func() { label.Append(int64(r.IntN(2))) }, 0)
	var lengths []int // of the lists of each row: ids and their scores are equally many
	for range rows {
		lengths = append(lengths, r.IntN(5))
	}
	at := 0
	next := func() int { at++; return lengths[(at-1)%rows] }
	for _, name := range []string{"cat_1", "cat_2"} {
		b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
		add(name, b, func() {
			b.Append(true)
			for range next() {
				b.ValueBuilder().(*array.Int64Builder).Append([]int64{17, 4, 99, -1, r.Int64()}[r.IntN(5)])
			}
		}, 0)
	}
	for _, name := range []string{"scores_1", "scores_2"} {
		b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Float32)
		add(name, b, func() {
			b.Append(true)
			for range next() {
				b.ValueBuilder().(*array.Float32Builder).Append(float32(numbers[r.IntN(len(numbers))]))
			}
		}, 0)
	}
	photo := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	add("photo", photo, func() { photo.Append(picture(r, jpegOf)) }, 0)
	drawing := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	add("drawing", drawing, func() { drawing.Append(picture(r, png.Encode)) }, 0)
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, rows)
}

func jpegOf(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) }

// picture is one of noise.
func picture(r *rand.Rand, encode func(io.Writer, image.Image) error) []byte {
	m := image.NewRGBA(image.Rect(0, 0, 20+r.IntN(20), 20+r.IntN(20)))
	for x := range m.Rect.Dx() {
		for y := range m.Rect.Dy() {
			m.Set(x, y, color.RGBA{uint8(r.Uint32()), uint8(r.Uint32()), uint8(x * y), 255})
		}
	}
	var out bytes.Buffer
	if err := encode(&out, m); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// specOf is a spec of some ops with one tensor; an empty op is none.
func specOf(t *testing.T, layout, name string, ops ...string) *pb.Spec {
	t.Helper()
	ops = slices.DeleteFunc(slices.Clone(ops), func(op string) bool { return op == "" })
	if layout == "padded" {
		name += ", length: 3"
	}
	s, err := spec.Parse(fmt.Appendf(nil, "dataset: {uri: /none/}\nbatch_size: 10\nfeatures: [{%s: %s}]\n"+
		"transforms: [%s]\n", layout, name, strings.Join(ops, ", ")))
	if err != nil {
		t.Fatalf("%s: %v", ops, err)
	}
	return s
}

// specsOf are specs that run an op's example in training and in serving. They differ where rows are served without it.
func specsOf(t *testing.T, op transform.Op, schema spec.Schema, st files) (trained, served *pb.Spec) {
	t.Helper()
	example := op.Example
	if op.Name == "decode_png" {
		example = strings.ReplaceAll(example, "photo", "drawing")
	}
	step := specOf(t, "label", "label", example).GetTransforms()[0]
	out := "int_1"
	if len(step.GetIn()) > 0 {
		out = strings.ReplaceAll(cmp.Or(step.GetOut(), "{}"), "{}", strings.ReplaceAll(step.GetIn()[0], "*", "1"))
	}
	if op.Name == spec.LookupOp {
		out = "item_price"
	}
	marked := example
	if op.Name == "flip" || op.Select != nil {
		example, marked = "", strings.TrimSuffix(example, "}")+", training_only: true}"
	}
	resolves := func(s *pb.Spec) bool {
		_, err := spec.Resolve(s, st.given(t, s, schema))
		return err == nil
	}
	const decode, size = "{op: decode_jpeg, in: photo}", "{op: resize, in: photo, size: 230}"
	for _, before := range [][]string{{}, {decode}, {decode, size}} {
		for _, after := range []string{
			"", "{op: resize, in: " + out + ", size: [20, 20]}",
			"{op: center_crop, in: photo, size: 20}",
		} {
			for _, layout := range []string{"image", "sparse", "bytes", "label", "padded", "tensor"} {
				trained = specOf(t, layout, out, slices.Concat(before, []string{example, after})...)
				served = specOf(t, layout, out, slices.Concat(before, []string{marked, after})...)
				if resolves(trained) && resolves(served) {
					return trained, served
				}
			}
		}
	}
	t.Fatalf("%s: no spec has a tensor of what %s makes of the columns of this test; add those that it names",
		op.Name, out)
	return nil, nil
}

// items is the table that the example of lookup names.
const items = "s3://bucket/items.parquet"

// itemsFile has some of the ids that rows have.
func itemsFile(t *testing.T) *filetest.One {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{
		{Name: "item_id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "price", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "stock", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
	r := record(t, `[{"item_id": 17, "price": 1.5, "stock": 3}, {"item_id": -1, "price": null, "stock": 4}]`, s.Fields()...)
	return &filetest.One{URI: items, Data: filetest.Parquet(t, s, []arrow.Record{r})}
}

// files are a storage of some files.
type files map[string]*filetest.One

func (f files) List(_ context.Context, _ string, uris []string) ([]*pb.File, error) {
	if one := f[uris[0]]; one != nil {
		return []*pb.File{one.File()}, nil
	}
	return nil, fs.ErrNotExist
}

func (f files) ReadAt(ctx context.Context, profile string, file *pb.File, buf []byte, offset int64) error {
	return f[file.GetUri()].ReadAt(ctx, profile, file, buf, offset)
}

func (f files) Keys(string) *keys.Ring { return nil }

// given is what a spec is resolved by.
func (f files) given(t *testing.T, s *pb.Spec, schema spec.Schema) spec.Given {
	t.Helper()
	tables, err := formats.Tables(t.Context(), f, formats.NewCache(1<<20), s)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Given{Schema: schema, Catalog: transform.Builtin(), Tables: tables}
}

// tensors are the buffers of a batch, by its rows.
type tensors struct {
	rows    int
	buffers [][]byte
}

// trainedOn reads a file as a session does, window by window.
func trainedOn(t *testing.T, s *pb.Spec, schema spec.Schema, file *filetest.One, st files) (out []tensors) {
	t.Helper()
	program, err := spec.Resolve(s, st.given(t, s, schema))
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline.New(pipeline.Config{
		Storage: st, Ops: transform.Builtin(), Memory: 256 << 20, Streams: 1, BatchBytes: 32 << 20, MaxBatch: 64 << 20,
		Patience: time.Minute,
	})
	defer p.Close()
	ticket := &pb.Ticket{
		Session: "training", File: file.File(), Extents: []*pb.Extent{{Rows: rows, WindowRows: window}},
	}
	stream, err := p.Open(t.Context(), ticket, program, pipeline.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	err = stream.Run(t.Context(), func(_ context.Context, b pipeline.Batch) error {
		defer b.Release()
		out = append(out, copied(b.Rows, b.Buffers))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func copied(rows int64, buffers [][]byte) tensors {
	out := tensors{rows: int(rows)}
	for _, b := range buffers {
		out.buffers = append(out.buffers, bytes.Clone(b))
	}
	return out
}

// What any op makes of rows at hand are the bits that sessions make of them in a dataset.
func TestOpsMakeWhatTheyDoInTraining(t *testing.T) {
	all := table()
	file := &filetest.One{URI: "/data/x.parquet", Data: filetest.Parquet(t, all.Schema(), []arrow.Record{all})}
	described, err := formats.Load(t.Context(), file, "", file.File(), nil)
	if err != nil {
		t.Fatal(err)
	}
	schema := described.Columns().Schema
	st := files{file.URI: file, items: itemsFile(t)}
	for _, op := range transform.Builtin().Ops() {
		if op.Name == "random_resized_crop" { // it can be neither served nor left out
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			trained, served := specsOf(t, op, schema, st)
			want := trainedOn(t, trained, schema, file, st)
			for _, given := range []*spec.Schema{nil, &schema} {
				made, err := apply.New(t.Context(), apply.Config{Spec: served, Schema: given, Storage: st})
				if err != nil {
					t.Fatal(err)
				}
				defer made.Close()
				for i, w := range want {
					from := int64(i * window)
					some := all.NewSlice(from, min(from+window, rows))
					if got := applied(t, made, some); !equal(got, w) {
						t.Fatalf("rows %d to %d: %x, want %x", from, from+window, got.buffers, w.buffers)
					}
				}
			}
		})
	}
}

func applied(t *testing.T, made *apply.Transforms, some arrow.Record) tensors {
	t.Helper()
	b, err := made.Apply(t.Context(), some)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	return copied(b.Rows, b.Buffers)
}

func equal(a, b tensors) bool {
	if a.rows != b.rows || len(a.buffers) != len(b.buffers) {
		return false
	}
	for i := range a.buffers {
		if !bytes.Equal(a.buffers[i], b.buffers[i]) {
			return false
		}
	}
	return true
}

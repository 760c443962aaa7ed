package apply_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/apply"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// clicks is a spec with two labels, of which one is computed, and what only training has.
const clicks = `
dataset: {uri: s3://bucket/clicks/, partitions: day > '2026-01-01'}
filter: age > 3
batch_size: 10
shuffle: true
provenance: true
features:
  - {label: [clicked, bought]}
  - {dense: [price, logged]}
  - {sparse: ids, weights: scores}
transforms:
  - {op: cast, in: bought, to: float32}
  - {op: sample, rate: 0.1}
  - {op: log1p, in: price, out: logged}
  - {op: sigrid_hash, in: ids, max: 100}
`

func parsed(t *testing.T, text string) *pb.Spec {
	t.Helper()
	s, err := spec.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// record has columns by JSON, each of a type.
func record(t *testing.T, rows string, fields ...arrow.Field) arrow.Record {
	t.Helper()
	r, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func column(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// served are columns that rows have where no labels are known yet.
func served() []arrow.Field {
	return []arrow.Field{
		column("price", arrow.PrimitiveTypes.Float32), column("ids", arrow.ListOf(arrow.PrimitiveTypes.Int64)),
		column("scores", arrow.ListOf(arrow.PrimitiveTypes.Float32)),
	}
}

func names(b interface{ Schema() *arrow.Schema }) string {
	var out []string
	for _, f := range b.Schema().Fields() {
		out = append(out, f.Name)
	}
	return strings.Join(out, " ")
}

// Labels that are not known are left out, each row gives one, and what only chooses rows needs no columns.
func TestRowsWithoutLabels(t *testing.T) {
	rows := record(t, `[{"price": 1, "ids": [7], "scores": [0.5]}, {"price": null}]`, served()...)
	made, err := apply.New(t.Context(), apply.Config{Spec: parsed(t, clicks)})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	b, err := made.Apply(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if r := b.Record(); names(r) != "dense ids" || r.NumRows() != 2 {
		t.Errorf("%d rows of %s", r.NumRows(), names(r))
	}
	if got := strings.Join(made.Without(), " "); got != "clicked bought" {
		t.Errorf("left out: %s", got)
	}
	none, err := made.Apply(t.Context(), rows.NewSlice(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer none.Release()
	if r := none.Record(); names(r) != "dense ids" || r.NumRows() != 0 {
		t.Errorf("of no rows: %d rows of %s", r.NumRows(), names(r))
	}
}

// A schema says what rows may lack, and of which types they are.
func TestSchemaOfTheTrainingData(t *testing.T) {
	trained := append(served(), column("clicked", arrow.PrimitiveTypes.Int32),
		column("bought", arrow.PrimitiveTypes.Int32), column("age", arrow.PrimitiveTypes.Int32))
	schema, err := apply.SchemaOf(t.Context(), arrow.NewSchema(trained, nil))
	if err != nil {
		t.Fatal(err)
	}
	made, err := apply.New(t.Context(), apply.Config{Spec: parsed(t, clicks), Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	const one = `[{"price": 1, "ids": [7], "scores": [0.5], "clicked": 1, "bought": 2}]`
	for want, fields := range map[string][]arrow.Field{
		"clicked bought dense ids": trained,
		"clicked dense ids":        trained[:4],
		"dense ids":                served(),
	} {
		b, err := made.Apply(t.Context(), record(t, one, fields...))
		if err != nil {
			t.Fatal(err)
		}
		if got := names(b.Record()); got != want {
			t.Errorf("found %s, want %s", got, want)
		}
		b.Release()
	}
}

func TestWhatCannotBeServed(t *testing.T) {
	const picture = `
dataset: {uri: /none/}
batch_size: 1
features: [{image: photo}]
transforms:
  - {op: decode_jpeg, in: photo}
`
	whole := `[{"price": 1, "ids": [7], "scores": [0.5]}]`
	double := served()
	double[0].Type = arrow.BinaryTypes.String
	for name, c := range map[string]struct {
		spec, rows, want string
		outputs          []string
		fields           []arrow.Field
	}{
		"a column that is not there": {
			spec: clicks, fields: served()[1:], rows: `[{"ids": [7], "scores": [0.5]}]`,
			want: "features[1]: logged is made of price, and the rows have no such column",
		},
		"weights that are not there": {
			spec: clicks, fields: served()[:2], rows: `[{"price": 1, "ids": [7]}]`,
			want: "features[2].weights: the rows have no column scores",
		},
		"a label that is asked for": {
			spec: clicks, fields: served(), rows: whole, outputs: []string{"clicked"},
			want: "features[0]: the rows have no column clicked",
		},
		"an output that there is none of": {
			spec: clicks, fields: served(), rows: whole, outputs: []string{"dens"},
			want: "outputs: no tensor dens; nearest: dense; there are clicked, bought, dense, ids",
		},
		"values of another type": {
			spec: clicks, fields: double, rows: `[{"price": "x", "ids": [7], "scores": [0.5]}]`,
			want: "transforms[2]: in: want a scalar or list of",
		},
		"a row that an op refuses": {
			spec: clicks, fields: served(), rows: `[{"price": 1}, {"price": 1, "ids": [7, 8], "scores": [0.5]}]`,
			want: "rows row 1",
		},
		"an op that draws": {
			spec:   picture + "  - {op: random_resized_crop, in: photo, size: 8}\n",
			fields: []arrow.Field{column("photo", arrow.BinaryTypes.Binary)}, rows: `[{"photo": "eA=="}]`,
			want: "transforms[1]: op random_resized_crop draws at random",
		},
		"an op that cannot be left out": {
			spec:   picture + "  - {op: resize, in: photo, size: [8, 8], training_only: true}\n",
			fields: []arrow.Field{column("photo", arrow.BinaryTypes.Binary)}, rows: `[{"photo": "eA=="}]`,
			want: "transforms[1].training_only: photo is picture(3 channels, of any size), and becomes picture(3 channels, 8 x 8)",
		},
		"a result that others need": {
			spec:   strings.Replace(clicks, "out: logged", "out: logged, training_only: true", 1),
			fields: served(), rows: whole, want: "transforms[2].training_only: logged is a feature of its own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := apply.New(t.Context(), apply.Config{Spec: parsed(t, c.spec), Outputs: c.outputs})
			if err != nil {
				t.Fatal(err)
			}
			defer made.Close()
			if _, err = made.Apply(t.Context(), record(t, c.rows, c.fields...)); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v\nwant %s", err, c.want)
			}
		})
	}
}

// Rows of other types than the first ones', and more than there is room for, are refused, and the next ones are not.
func TestRowsThatAreRefused(t *testing.T) {
	const whole = `[{"price": 1, "ids": [7], "scores": [0.5]}]`
	made, err := apply.New(t.Context(), apply.Config{Spec: parsed(t, clicks), Memory: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	ok := func() {
		b, err := made.Apply(t.Context(), record(t, whole, served()...))
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	refused := func(rows string, fields []arrow.Field, want string) {
		if _, err := made.Apply(t.Context(), record(t, rows, fields...)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("found %v\nwant %s", err, want)
		}
	}
	ok()
	wider := served()
	wider[0].Type = arrow.PrimitiveTypes.Float64
	refused(whole, wider, "feature price: column price is float64 here, which cannot be read as float32")
	ok()
	long := strings.TrimSuffix(strings.Repeat("7,", 20_000), ",")
	refused(fmt.Sprintf(`[{"price": 1, "ids": [%s], "scores": [%[1]s]}]`, long), served(), "column ids: the rows, or what is made of them, take too much memory")
	ok()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var held []interface{ Release() }
	defer func() {
		for _, b := range held {
			b.Release()
		}
	}()
	for range 8 {
		b, err := made.Apply(t.Context(), record(t, whole, served()...))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, b)
	}
	if _, err := made.Apply(ctx, record(t, whole, served()...)); err == nil {
		t.Error("batches without end")
	}
}

// A file is applied row for row as its rows are, whatever its format.
func TestFiles(t *testing.T) {
	all := table()
	const text = `
dataset: {uri: /none/}
batch_size: 10
features: [{dense: [int_1, price]}, {sparse: cat_1, weights: scores_1}]
transforms: [{op: log1p, in: int_*}]
`
	made, err := apply.New(t.Context(), apply.Config{Spec: parsed(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	want := applied(t, made, all)
	records := []arrow.Record{all.NewSlice(0, 30), all.NewSlice(30, rows)}
	for _, file := range []*filetest.One{
		{URI: "/x.parquet", Data: filetest.Parquet(t, all.Schema(), records)},
		{URI: "/x.arrow", Data: filetest.Arrow(t, all.Schema(), records)},
	} {
		var got tensors
		err := made.Each(t.Context(), file, "", file.File(), func(b *tensor.Batch) error {
			part := copied(b.Rows, b.Buffers)
			got.rows += part.rows
			got.buffers = append(got.buffers, part.buffers[denseValues])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.Join(got.buffers, nil), want.buffers[denseValues]) || got.rows != rows {
			t.Errorf("%s: %d rows of other values", file.URI, got.rows)
		}
	}
}

// denseValues is the buffer of the values of lists of one length, which are the first column: behind two of validity.
const denseValues = 2

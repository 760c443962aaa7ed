package fit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/worker/transform"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(argsName); args != "" {
		os.Exit(child(args))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"))
}

const rows = 20_000

// dataset writes three files, and returns the values of their column n; nil: null.
func dataset(t *testing.T, dir string) (n []*int64) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	fields := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "x", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "day", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
	for file := range 3 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, fields)
		for range rows / 3 {
			v := int64(r.ExpFloat64() * 1000)
			day := int32(r.IntN(10))
			x, ids := b.Field(1).(*array.Float32Builder), b.Field(2).(*array.ListBuilder)
			if r.IntN(5) == 0 {
				b.Field(0).AppendNull()
				x.AppendNull()
				ids.AppendNull()
				n = append(n, nil)
			} else {
				b.Field(0).(*array.Int64Builder).Append(v)
				x.Append(float32(r.NormFloat64()))
				ids.Append(true)
				for range r.IntN(4) {
					ids.ValueBuilder().(*array.Int64Builder).Append(int64(r.ExpFloat64() * 50))
				}
				n = append(n, &v)
			}
			if b.Field(3).(*array.Int32Builder).Append(day); day == 9 { // which the filter leaves out
				n = n[:len(n)-1]
			}
		}
		record := b.NewRecord()
		table := array.NewTableFromRecords(fields, []arrow.Record{record})
		out, err := os.Create(filepath.Join(dir, fmt.Sprintf("part-%d.parquet", file)))
		if err != nil {
			t.Fatal(err)
		}
		err = pqarrow.WriteTable(table, out, 1000, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
		table.Release()
		record.Release()
		b.Release()
		if err != nil { // it closes the file
			t.Fatal(err)
		}
	}
	return n
}

// specOf writes a spec of the data in a folder.
func specOf(t *testing.T, dir, transforms string) string {
	t.Helper()
	path := filepath.Join(dir, "spec.yaml")
	text := fmt.Sprintf("dataset: {uri: %s/}\nfilter: day < 9\nfeatures: {dense: n}\nbatch_size: 100\n"+
		"fitted: %s/_fitted/a.parquet\ntransforms:\n%s", dir, dir, transforms)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const chained = `
- {op: fill_null, in: n, value: {fit: median}}
- {op: scale_to_z_score, in: n, of: fit}
- {op: bucketize, in: n, out: part, borders: {quantiles: 8}}
- {op: clamp, in: x, min: {quantile: 0.01}, max: {quantile: 0.99}}
- {op: fill_null, in: ids, value: {fit: most_frequent}}
`

// run runs the command.
func run(ctx context.Context, args ...string) (*report, error) {
	var out, errs bytes.Buffer
	cmd := Command("test", transform.Builtin())
	cmd.SetArgs(append(args, "--local", "--output=json"))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(ctx); err != nil {
		return nil, err
	}
	r := &report{}
	return r, json.Unmarshal(out.Bytes(), r)
}

func (r *report) value(t *testing.T, of, what, name string) float64 {
	t.Helper()
	i := slices.IndexFunc(r.Statistics, func(s statistic) bool { return s.Of == of && s.Statistic == what })
	if i < 0 {
		t.Fatalf("no %s of %s in %+v", what, of, r)
	}
	v, ok := r.Statistics[i].Values[name].(float64)
	if !ok {
		t.Fatalf("%s of %s has no %s: %v", what, of, name, r.Statistics[i].Values)
	}
	return v
}

// A fit of three levels comes to what is computed by hand, and to the same bits when it is stopped and started again.
func TestFit(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "_cache"))
	n := dataset(t, dir)
	path := specOf(t, dir, chained)
	whole, err := run(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Passes != 3 || whole.Rows != int64(len(n)) {
		t.Errorf("%d passes over %d rows; want 3 over %d", whole.Passes, whole.Rows, len(n))
	}
	median, mean, std := byHand(n)
	if got := whole.value(t, "n", "quantiles", "0.5"); got != float64(median) {
		t.Errorf("median %v, want %v", got, median)
	}
	filled := "fill_null(n, value=median(n))"
	if got := whole.value(t, filled, "moments", "mean"); got != mean {
		t.Errorf("mean %v, want %v", got, mean)
	}
	if got := whole.value(t, filled, "moments", "std"); got != std {
		t.Errorf("std %v, want %v", got, std)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "_cache", "penstock", "fit", "*")); err != nil || len(left) > 0 {
		t.Errorf("it left %v: %v", left, err)
	}

	again, err := stopped(t, path, dir)
	if err != nil || again.Digest != whole.Digest {
		t.Errorf("stopped and started again it is\n%+v: %v; want\n%+v", again, err, whole)
	}
}

// Infinities are figures, too, and are shown in JSON, which has no number for them.
func TestInfiniteFigures(t *testing.T) {
	dir := t.TempDir()
	dataset(t, dir)
	infinite := "- {op: expr, expr: ln(n - n), out: y}\n- {op: fill_null, in: y, value: {fit: max}}"
	r, err := run(t.Context(), specOf(t, dir, infinite), "--folder="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Statistics[0]; s.Values["max"] != "-Inf" || s.Values["mean"] != nil || s.Kind != "float64" {
		t.Errorf("%+v; want the max -Inf and no mean of float64", s)
	}
}

// What a run before came to is written again, if the file is not there: that run may have been killed just before it
// wrote it. It is not that of a fit whose quantiles were exact up to another size.
func TestFitGoesOnBehindItsLastPass(t *testing.T) {
	dir := t.TempDir()
	dataset(t, dir)
	path := specOf(t, dir, chained)
	folder := "--folder=" + filepath.Join(dir, "_folder")
	whole, err := run(t.Context(), path, folder)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "_fitted", "a.parquet")
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	again, err := run(t.Context(), path, folder)
	if err != nil || again.Digest != whole.Digest || again.Rows != whole.Rows || whole.Rows == 0 {
		t.Fatalf("%+v: %v; want %+v", again, err, whole)
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
	rounded, err := run(t.Context(), path, folder, "--exact=10")
	if err != nil || rounded.Digest == whole.Digest {
		t.Errorf("with fewer exact values: %+v: %v", rounded, err)
	}
}

// byHand computes the median of the values, and mean and deviation where nulls are that.
func byHand(n []*int64) (median int64, mean, std float64) {
	var values []int64
	for _, v := range n {
		if v != nil {
			values = append(values, *v)
		}
	}
	slices.Sort(values)
	median = values[(len(values)+1)/2-1]
	var sum, squares, count big.Int
	count.SetInt64(int64(len(n)))
	for _, v := range n {
		x := big.NewInt(median)
		if v != nil {
			x.SetInt64(*v)
		}
		sum.Add(&sum, x)
		squares.Add(&squares, x.Mul(x, x))
	}
	mean, _ = new(big.Rat).SetFrac(&sum, &count).Float64()
	squares.Mul(&squares, &count)
	squares.Sub(&squares, new(big.Int).Mul(&sum, &sum))
	variance := new(big.Float).SetPrec(200).SetRat(new(big.Rat).SetFrac(&squares, count.Mul(&count, &count)))
	std, _ = new(big.Float).Sqrt(variance).Float64()
	return median, mean, std
}

// stopped runs a fit in parts: each is stopped behind its first checkpoint, until one comes to the end.
func stopped(t *testing.T, path, dir string) (*report, error) {
	t.Helper()
	folder := filepath.Join(dir, "_parts")
	for parts := 0; ; parts++ {
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for before := checkpoints(folder); ctx.Err() == nil; time.Sleep(time.Millisecond) {
				if checkpoints(folder) != before && parts < 3 {
					stop()
				}
			}
		}()
		r, err := run(ctx, path, "--folder="+folder, "--checkpoint=1ns", "--memory=200KB")
		was := ctx.Err()
		stop()
		<-watched
		if was == nil || err == nil {
			if parts < 3 {
				t.Logf("it was stopped %d times", parts)
			}
			return r, err
		}
		if !errors.Is(err, context.Canceled) {
			t.Logf("part %d: %v", parts, err)
		}
	}
}

// checkpoints tells one checkpoint from the next.
func checkpoints(folder string) string {
	var all []string
	files, _ := filepath.Glob(filepath.Join(folder, "pass-*", "checkpoint.json")) // the pattern is well-formed
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			all = append(all, info.ModTime().String())
		}
	}
	return strings.Join(all, " ")
}

func TestFitsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	dataset(t, dir)
	other := filepath.Join(dir, "_other.parquet")
	if err := os.Link(filepath.Join(dir, "part-0.parquet"), other); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "_folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		transforms string
		args       []string
		want       string
	}{
		"nothing asked": {"- {op: log1p, in: x}", nil, "asks nothing of the data"},
		"not a number":  {"- {op: fill_null, in: n, value: {fit: meen}}", nil, "nearest: mean"},
		"other file": {
			chained,
			[]string{"--out=" + other},
			"nothing but a fitted file is replaced",
		},
		"among the data": {chained, []string{"--out=" + filepath.Join(dir, "new.parquet")}, "a name that begins with _"},
		"a folder among the data": {
			chained,
			[]string{"--folder=" + filepath.Join(dir, "folder")},
			"a name that begins with _",
		},
		"a folder": {chained, []string{"--out=" + folder}, "is a folder"},
		"constant": {"- {op: clamp, in: n, max: 0}\n- {op: clamp, in: n, min: 0}\n- {op: scale_to_z_score, in: n, of: fit}\n" +
			"- {op: bucketize, in: n, borders: {quantiles: 4}}", nil, "std: want a finite"},
	} {
		_, err := run(t.Context(), append([]string{specOf(t, dir, c.transforms), "--folder=" + t.TempDir()}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

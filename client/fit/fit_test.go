package fit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fitted"
)

func TestMain(m *testing.M) {
	if os.Getenv("PENSTOCK_TEST_FIT") != "" {
		fitAndBeKilled()
		return
	}
	goleak.VerifyTestMain(m)
}

const testRows = 20_000

// testTable has columns of all kinds with nulls, NaNs, infinities, ties, skew, extremes, and texts of all bytes that UTF-8
// allows.
func testTable() arrow.Record {
	r := rand.New(rand.NewPCG(1, 2))
	skewed := func(n float64) int64 { return int64(math.Exp(r.Float64() * math.Log(n))) }
	word := func() string {
		n := skewed(5000)
		return strings.Repeat(string(rune('a'+n%7)), int(n%5)) + fmt.Sprint(n) + []string{"", "ü", "日本", "\x00", "𝄞"}[n%5]
	}
	float := func() float64 {
		return []float64{r.NormFloat64() * 1e3, math.NaN(), 0, math.Copysign(0, -1), float64(r.IntN(50)) / 4}[r.IntN(5)]
	}
	ints := []int64{math.MinInt64, math.MaxInt64, 0, -1}
	list := func(t arrow.DataType) arrow.DataType { return arrow.ListOf(t) }
	p := arrow.PrimitiveTypes
	var fields []arrow.Field
	var builders []array.Builder
	var adds []func()
	column := func(name string, t arrow.DataType, add func(b array.Builder)) {
		b := array.NewBuilder(memory.DefaultAllocator, t)
		fields, builders = append(fields, arrow.Field{Name: name, Type: t, Nullable: true}), append(builders, b)
		adds = append(adds, func() {
			if r.IntN(10) == 0 {
				b.AppendNull()
				return
			}
			l, ok := b.(*array.ListBuilder)
			if !ok {
				add(b)
				return
			}
			l.Append(true)
			for range r.IntN(4) {
				if r.IntN(10) == 0 {
					l.ValueBuilder().AppendNull()
				} else {
					add(l.ValueBuilder())
				}
			}
		})
	}
	addFloat := func(b array.Builder) { b.(*array.Float64Builder).Append(float()) }
	addText := func(b array.Builder) { b.(*array.StringBuilder).Append(word()) }
	addID := func(b array.Builder) { b.(*array.Int64Builder).Append(skewed(1e9) - 1000) }
	column("bool", arrow.FixedWidthTypes.Boolean, func(b array.Builder) { b.(*array.BooleanBuilder).Append(r.IntN(3) == 0) })
	column("int32", p.Int32, func(b array.Builder) { b.(*array.Int32Builder).Append(int32(skewed(1e5) - 300)) })
	column("int64", p.Int64, addID)
	column("extreme", p.Int64, func(b array.Builder) { b.(*array.Int64Builder).Append(ints[r.IntN(4)]) })
	column("unsigned", p.Uint64, func(b array.Builder) { b.(*array.Uint64Builder).Append(r.Uint64() >> r.IntN(64)) })
	column("float32", p.Float32, func(b array.Builder) { b.(*array.Float32Builder).Append(float32(float())) })
	column("float64", p.Float64, addFloat)
	column("infinite", p.Float64, func(b array.Builder) { b.(*array.Float64Builder).Append([]float64{1, math.Inf(1), -2}[r.IntN(3)]) })
	column("text", arrow.BinaryTypes.String, addText)
	column("ints", list(p.Int64), addID)
	column("floats", list(p.Float64), addFloat)
	column("texts", list(arrow.BinaryTypes.String), addText)
	column("nothing", p.Int32, func(b array.Builder) { b.AppendNull() })
	for range testRows {
		for _, add := range adds {
			add()
		}
	}
	var arrays []arrow.Array
	for _, b := range builders {
		arrays = append(arrays, b.NewArray())
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), arrays, testRows)
}

// asked is all that can be asked of the table's columns.
func asked() []Column {
	kinds := []struct {
		name string
		kind pb.Kind
	}{
		{"bool", pb.Kind_BOOL},
		{"int32", pb.Kind_INT32},
		{"int64", pb.Kind_INT64},
		{"extreme", pb.Kind_INT64},
		{"unsigned", pb.Kind_INT64},
		{"float32", pb.Kind_FLOAT32},
		{"float64", pb.Kind_FLOAT64},
		{"infinite", pb.Kind_FLOAT64},
		{"text", pb.Kind_BINARY},
		{"ints", pb.Kind_INT64},
		{"floats", pb.Kind_FLOAT64},
		{"texts", pb.Kind_BINARY},
		{"nothing", pb.Kind_INT32},
	}
	var columns []Column
	for _, k := range kinds {
		c := Column{Name: k.name, Kind: k.kind, Unsigned: k.name == "unsigned"}
		if k.kind != pb.Kind_BINARY && !c.Unsigned {
			c.Statistics = append(
				c.Statistics, fitted.Statistic{Name: fitted.Moments},
				fitted.Statistic{Name: fitted.Quantiles, Shares: []float64{0, 0.01, 0.29, 0.5, 0.999, 1}},
				fitted.Statistic{Name: fitted.Quantiles, Parts: 7})
		}
		c.Statistics = append(
			c.Statistics, fitted.Statistic{Name: fitted.MostFrequent}, fitted.Statistic{Name: fitted.Vocabulary},
			fitted.Statistic{Name: fitted.Vocabulary, MinCount: 3, MaxSize: 100})
		columns = append(columns, c)
	}
	return columns
}

// feed adds rows from up to to, in parts of some size.
func feed(t testing.TB, f *Fit, rec arrow.Record, from, to, part int64) {
	t.Helper()
	for ; from < to; from += part {
		if err := f.AddRecord(rec.NewSlice(from, min(to, from+part))); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t testing.TB, columns []Column, o Options) *Fit {
	t.Helper()
	f, err := Open(columns, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// finish writes the results, and closes the fit.
func finish(t testing.TB, f *Fit) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := fitted.NewWriter(&out, fitted.Info{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Write(t.Context(), w), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSameBitsWhateverTheWay: with plenty of memory in one part, with so little that all spills and in other orders, and
// with stops at checkpoints, the file is the same.
func TestSameBitsWhateverTheWay(t *testing.T) {
	rec := testTable()
	whole := open(t, asked(), Options{})
	feed(t, whole, rec, 0, testRows, testRows)
	want := finish(t, whole)

	spilling := open(t, asked(), Options{Memory: 1, Folder: t.TempDir()})
	feed(t, spilling, rec, 12_345, testRows, 999)
	feed(t, spilling, rec, 0, 12_345, 37)
	if n := len(runs(t, spilling.folder.dir)); n < 20 {
		t.Errorf("%d runs were spilled", n)
	}
	if !bytes.Equal(finish(t, spilling), want) {
		t.Error("spilled counts in another order make another file")
	}
	if left := runs(t, spilling.folder.dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	folder := t.TempDir()
	for at := int64(0); at < testRows; at += 4_000 {
		f := open(t, asked(), Options{Folder: folder, Memory: 4 << 20, Identity: "one"})
		state, ok := f.Restored()
		if ok != (at > 0) || ok && string(state) != fmt.Sprint(at) {
			t.Fatalf("at %d the state is %q", at, state)
		}
		feed(t, f, rec, at, at+4_000, 1_000)
		if err := f.Checkpoint(fmt.Append(nil, at+4_000)); err != nil {
			t.Fatal(err)
		}
		feed(t, f, rec, 0, 3_000, 1_000) // after it: forgotten
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(finish(t, open(t, asked(), Options{Folder: folder, Memory: 4 << 20, Identity: "one"})), want) {
		t.Error("a fit with stops makes another file")
	}
	_, err := Open(asked(), Options{Folder: folder, Identity: "two"})
	if err == nil || !strings.Contains(err.Error(), `it read "one", and this one reads "two"`) {
		t.Errorf("another fit's checkpoint: %v", err)
	}
}

func runs(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+runEnding))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestAsDuckDB compares all results with DuckDB's.
func TestAsDuckDB(t *testing.T) {
	rec := testTable()
	f := open(t, asked(), Options{Memory: 2 << 20})
	feed(t, f, rec, 0, testRows, 5_000)
	data := finish(t, f)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fitted.parquet"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "data.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	rows := array.NewTableFromRecords(rec.Schema(), []arrow.Record{rec})
	if err := pqarrow.WriteTable(rows, out, testRows, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps()); err != nil {
		t.Fatal(err)
	}
	program, err := exec.CommandContext(t.Context(), "python", "testdata/compare.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, program)
	}
	var compared int
	if err := json.Unmarshal(program, &compared); err != nil || compared < 12*5 {
		t.Errorf("compared %s", program)
	}
}

// TestTooManyForExactQuantiles: beyond MaxExact quantiles are near, whatever the order, the parts and the memory.
func TestTooManyForExactQuantiles(t *testing.T) {
	rec := testTable()
	columns := []Column{}
	for _, c := range asked() {
		if c.Name == "int64" || c.Name == "float64" || c.Name == "extreme" {
			c.Statistics = c.Statistics[1:3]
			columns = append(columns, c)
		}
	}
	exact := open(t, columns, Options{})
	feed(t, exact, rec, 0, testRows, testRows)
	want := finish(t, exact)

	const limit = 3_000 // extreme has fewer, and the others more
	var files [][]byte
	for i, memory := range []int64{0, 1, 1 << 20} {
		folder := t.TempDir()
		f := open(t, columns, Options{MaxExact: limit, Memory: memory, Folder: folder})
		feed(t, f, rec, 5_000, testRows, 700+int64(i))
		if i == 2 { // the decision outlives a checkpoint
			if err := errors.Join(f.Checkpoint(nil), f.Close()); err != nil {
				t.Fatal(err)
			}
			f = open(t, columns, Options{MaxExact: limit, Memory: memory, Folder: folder})
		}
		feed(t, f, rec, 0, 5_000, 5_000)
		files = append(files, finish(t, f))
		if !bytes.Equal(files[0], files[i]) {
			t.Errorf("way %d makes another file", i)
		}
	}
	a, err := fitted.OpenBytes("exact", want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := fitted.OpenBytes("near", files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Entries {
		isNear := b.Entries[i].Of != "extreme"
		if (b.Entries[i].Error > 0) != isNear {
			t.Fatalf("%s says its error is %v", b.Entries[i], b.Entries[i].Error)
		}
		x, err1 := a.Rows(t.Context(), &a.Entries[i], 100)
		y, err2 := b.Rows(t.Context(), &b.Entries[i], 100)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		for j := range x {
			u, v := number(x[j].Value), number(y[j].Value)
			if math.Abs(u-v) > b.Entries[i].Error*math.Abs(u) {
				t.Errorf("%s of %s: %v instead of %v", x[j].Name, a.Entries[i], v, u)
			}
		}
	}
}

func number(v fitted.Value) float64 {
	if v.Kind == fitted.AnInt {
		return float64(v.Int)
	}
	return v.Float
}

// How the process works that is killed: rows in all and of a part, and parts between checkpoints.
const (
	killedRows  = 6_000
	killedPart  = 100
	killedEvery = 4
)

func fitAndBeKilled() {
	rec := testTable()
	f, err := Open(asked(), Options{Folder: os.Getenv("PENSTOCK_TEST_FIT"), Memory: 1})
	if err != nil {
		panic(err)
	}
	state, _ := f.Restored()
	var at int64
	_, _ = fmt.Sscan(string(state), &at)
	for n := 1; at < killedRows; n++ {
		if err := f.AddRecord(rec.NewSlice(at, at+killedPart)); err != nil {
			panic(err)
		}
		at += killedPart
		if n%killedEvery == 0 {
			if err := f.Checkpoint(fmt.Append(nil, at)); err != nil {
				panic(err)
			}
			fmt.Println(at)
		}
	}
	if err := f.Checkpoint(fmt.Append(nil, at)); err != nil {
		panic(err)
	}
	fmt.Println("done")
	if err := f.Close(); err != nil {
		panic(err)
	}
}

// TestKilled kills a process with SIGKILL after some checkpoints, again and again, until one gets to the end.
func TestKilled(t *testing.T) {
	folder := t.TempDir()
	kills := 0
	for done := false; !done; {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "PENSTOCK_TEST_FIT="+folder)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var lines int
		for line := ""; lines < 5 && !done; lines++ {
			if _, err := fmt.Fscanln(out, &line); err != nil {
				t.Fatal(err)
			}
			done = line == "done"
		}
		if !done {
			kills++
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait()
	}
	if kills < 2 {
		t.Fatalf("%d were killed", kills)
	}
	rec := testTable()
	whole := open(t, asked(), Options{})
	feed(t, whole, rec, 0, killedRows, killedRows)
	if !bytes.Equal(finish(t, open(t, asked(), Options{Folder: folder})), finish(t, whole)) {
		t.Error("a fit that was killed makes another file")
	}
}

package fitted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type statistic struct {
	Statistic
	kind pb.Kind
	rows []Row
}

func write(t testing.TB, statistics []statistic) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Info{Spec: "dataset: s3://b/d\n", Dataset: "sha256:12"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statistics {
		if err := w.Begin(s.Statistic, s.kind, 0); err != nil {
			t.Fatal(err)
		}
		for _, r := range s.rows {
			if err := w.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// several are statistics of all kinds, one of more rows than a row group.
func several() []statistic {
	words := statistic{Statistic: Statistic{Of: "word", Name: Vocabulary, MinCount: 2}, kind: pb.Kind_BINARY}
	for i, w := range []string{"", "ü", "a\x00b", "\xff\xfe", strings.Repeat("long", 5000)} {
		words.rows = append(words.rows, Row{ID: int64(i), Value: Text([]byte(w)), Count: int64(9 - i)})
	}
	many := statistic{Statistic: Statistic{Of: "id", Name: Vocabulary}, kind: pb.Kind_INT64}
	for i := range groupRows + 7 {
		many.rows = append(many.rows, Row{ID: int64(i), Value: Int(rand.Int64() - 1<<62), Count: int64(1e6 - i)})
	}
	sum := Summary{
		Values: 3, Nulls: 1, NaNs: 2, Mean: Float(0.1), Std: Float(math.Pi), Min: Int(math.MinInt64), Max: Int(7),
	}
	return []statistic{
		{Statistic{Of: "x", Name: Moments}, pb.Kind_INT64, sum.Rows()},
		words, many,
		{Statistic{Of: "none", Name: Vocabulary}, pb.Kind_INT32, nil},
		{
			Statistic{Of: "x", Name: Quantiles, Shares: []float64{0.5}},
			pb.Kind_FLOAT32,
			[]Row{{Name: "0.5", ID: -1, Count: -1, Value: Float(math.Inf(-1))}},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	want := several()
	data := write(t, want)
	if !bytes.Equal(data[:4], []byte(magic)) {
		t.Fatal("no Parquet file")
	}
	f, err := OpenBytes("f", data)
	if err != nil {
		t.Fatal(err)
	}
	if f.Spec != "dataset: s3://b/d\n" || f.Dataset != "sha256:12" || len(f.Entries) != len(want) {
		t.Fatalf("got %+v", f.Info)
	}
	for _, s := range want {
		e := f.Find(s.Statistic)
		if e == nil {
			t.Fatalf("%s is not found", s)
		}
		rows, err := f.Rows(t.Context(), e, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.rows, rows, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", s, diff)
		}
	}
	sum, err := f.Summary(t.Context(), f.Find(want[0].Statistic))
	if err != nil || cmp.Diff(want[0].rows, sum.Rows()) != "" {
		t.Errorf("summary %+v, %v", sum, err)
	}
	if _, err := f.Rows(t.Context(), f.Find(want[2].Statistic), 10); err == nil {
		t.Error("more rows were read than allowed")
	}
}

// TestCopy also shows that the same statistics are the same bytes.
func TestCopy(t *testing.T) {
	data := write(t, several())
	f, err := OpenBytes("f", data)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, f.Info)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Copy(t.Context(), f), w.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := OpenBytes("copy", out.Bytes())
	if err != nil || !bytes.Equal(out.Bytes(), data) || again.Digest != f.Digest {
		t.Errorf("a copy has other bytes, or the digest %s: %v", again.Digest, err)
	}
	changed := several()
	changed[0].rows[0].Count++
	if again, err = OpenBytes("changed", write(t, changed)); err != nil || again.Digest == f.Digest {
		t.Errorf("other rows have the same digest, %v", err)
	}
}

// TestOneStatisticIsReadAlone counts the bytes that are asked for.
func TestOneStatisticIsReadAlone(t *testing.T) {
	data := write(t, several())
	var read int
	f, err := Open(t.Context(), "f", int64(len(data)), func(_ context.Context, buf []byte, at int64) error {
		read += len(buf)
		copy(buf, data[at:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e := f.Find(Statistic{Of: "x", Name: Moments})
	read = 0
	if _, err := f.Summary(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if int64(read) != e.Groups[0].Bytes || len(e.Groups) != 1 || read > 4096 {
		t.Errorf("read %d bytes for %d", read, e.Groups[0].Bytes)
	}
}

// TestOthersReadIt has DuckDB and pyarrow read what was written.
func TestOthersReadIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.parquet")
	if err := os.WriteFile(path, write(t, several()), 0o600); err != nil {
		t.Fatal(err)
	}
	const program = `
import sys, json, duckdb, pyarrow.parquet as pq
rows = duckdb.sql(f"select of, statistic, count(*), count(text), count(bytes), sum(id), sum(count), min(float), min(int) "
                  f"from '{sys.argv[1]}' group by all order by all").fetchall()
print(rows)
t = pq.read_table(sys.argv[1])
m = json.loads(t.schema.metadata[b"penstock.fitted"])
print(t.num_rows, m["version"], [s["identity"] for s in m["statistics"]])
`
	out, err := exec.CommandContext(t.Context(), "python", "-c", program, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var ids, counts int64
	for _, r := range several()[2].rows {
		ids, counts = ids+r.ID, counts+r.Count
	}
	for _, s := range []string{
		fmt.Sprintf("('id', 'vocabulary', %d, 0, 0, %d, %d, None, ", groupRows+7, ids, counts),
		"('word', 'vocabulary', 5, 4, 1, 10, 35, None, None)",
		"('x', 'quantiles', 1, 0, 0, None, None, -inf, None)",
		"('x', 'moments', 8, 0, 0, None, 6, 0.1, -9223372036854775808)",
		fmt.Sprintf("%d 1 ['moments(\"x\")', ", groupRows+7+5+1+8),
	} {
		if !strings.Contains(string(out), s) {
			t.Errorf("%q is not in %s", s, out)
		}
	}
}

// TestDamage changes bytes of a file: it is refused, and by an error that says so, or has what was written.
func TestDamage(t *testing.T) {
	data := write(t, several()[:2])
	changed := 0
	for i := 0; i < len(data); i += 1 + len(data)/400 {
		bad := bytes.Clone(data)
		bad[i] ^= 0x55
		if err := readAll(bad); err != nil {
			changed++
			if !strings.Contains(err.Error(), "no fitted file, or damaged") && !strings.Contains(err.Error(), "version") {
				t.Errorf("byte %d: %v", i, err)
			}
		}
	}
	if changed < 300 {
		t.Errorf("%d changes of 400 were found", changed)
	}
	for _, n := range []int{0, 3, 11, len(data) / 2, len(data) - 1} {
		if err := readAll(data[:n]); err == nil {
			t.Errorf("%d bytes of %d were read", n, len(data))
		}
	}
}

func readAll(data []byte) error {
	f, err := OpenBytes("f", data)
	if err != nil {
		return err
	}
	for i := range f.Entries {
		if err := f.Each(context.Background(), &f.Entries[i], func(Row) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// FuzzRead reads files with true hashes, so that what lies behind them is reached, too.
func FuzzRead(f *testing.F) {
	few := several()[:2]
	few[1].rows = few[1].rows[:4]
	data := write(f, few)
	f.Add(data, uint32(100), byte(3))
	f.Add(data, uint32(len(data)-30), byte(0xff))
	f.Fuzz(func(t *testing.T, data []byte, at uint32, flip byte) {
		_ = readAll(data)
		if len(data) == 0 {
			return
		}
		data = bytes.Clone(data)
		data[int(at)%len(data)] ^= flip
		file, err := OpenBytes("f", data)
		if err != nil {
			return
		}
		for _, e := range file.Entries {
			for i, g := range e.Groups {
				if e.Group+i < len(file.footer.RowGroups) {
					d, err := file.decode(e.Group+i, g, data[g.Offset:g.Offset+g.Bytes])
					for r := 0; err == nil && r < int(g.Rows); r++ {
						d.row(r)
					}
				}
			}
		}
	})
}

func TestWhatIsAskedIsChecked(t *testing.T) {
	for _, c := range []struct {
		Statistic
		kind pb.Kind
		want string
	}{
		{Statistic{Of: "x", Name: "mode"}, pb.Kind_INT32, "no such statistic"},
		{Statistic{Of: "x", Name: Moments}, pb.Kind_BINARY, "texts have none"},
		{Statistic{Of: "x", Name: Vocabulary}, pb.Kind_PICTURE, "cast"},
		{Statistic{Of: "x", Name: Quantiles}, pb.Kind_INT32, "either"},
		{Statistic{Of: "x", Name: Quantiles, Parts: 1}, pb.Kind_INT32, "2 to"},
		{Statistic{Of: "x", Name: Quantiles, Shares: []float64{1.5}}, pb.Kind_INT32, "1.5"},
		{Statistic{Of: "x", Name: Moments, Parts: 2}, pb.Kind_INT32, "leave them out"},
		{Statistic{Of: "x", Name: Moments, MinCount: 2}, pb.Kind_INT32, "leave them out"},
	} {
		if err := c.Check(c.kind); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "column x") {
			t.Errorf("%s of %s: %v, expected %q", c.Statistic, c.kind, err, c.want)
		}
	}
	ok := Statistic{Of: "a\"b", Name: Quantiles, Shares: []float64{0.01, 1}}
	if err := ok.Check(pb.Kind_FLOAT32); err != nil || ok.String() != `quantiles("a\"b", 0.01, 1)` {
		t.Errorf("%s: %v", ok, err)
	}
}

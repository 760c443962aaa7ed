package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli/clitest"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
)

// wide writes a file of n columns of text of several lengths, as CSV.
func wide(t *testing.T, n, rows int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var out strings.Builder
	for row := range rows + 1 {
		for c := range n {
			if c > 0 {
				out.WriteByte(',')
			}
			if row == 0 {
				fmt.Fprintf(&out, "c%d", c)
				continue
			}
			for range 1 + c%7*8 {
				fmt.Fprintf(&out, "%x", random.Uint64())
			}
		}
		out.WriteByte('\n')
	}
	return written(t, "in.csv", out.String())
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// counted counts what is read.
type counted struct {
	storage.Storage
	bytes, requests atomic.Int64
}

func (c *counted) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	c.bytes.Add(int64(len(buf)))
	c.requests.Add(1)
	return c.Storage.ReadAt(ctx, profile, f, buf, offset)
}

// What is foretold of an order is what its file shows, and what reading it costs.
func TestForetold(t *testing.T) {
	const columns = 40
	in := wide(t, columns, 600)
	reads := features.Load(nil)
	for job := range 5 {
		note := features.Note{Sessions: 1, Rows: int64(1 + job), UnixMs: 1}
		for c := job; c < columns; c += 5 + job {
			note.Features = append(note.Features, fmt.Sprint("c", c))
		}
		reads.Add(features.Of(note))
	}
	report, err := json.Marshal(features.ReportOf(reads.Proto(), true))
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{in, "--order", "popularity=" + written(t, "f.json", string(report)), "--row-group-rows", "300", "--output", "json"}
	made := filepath.Join(t.TempDir(), "out.parquet")
	var plan, done struct {
		Columns []string
		Order   struct{ Costs features.ReportOrders }
	}
	for _, of := range []struct {
		into  any
		flags []string
	}{{&plan, []string{"--out", made, "--dry-run"}}, {&done, []string{"--out", made}}} {
		if _, err := os.Stat(made); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("before anything is written: %v", err)
		}
		out, err := clitest.Run(t, Convert(), append(of.flags, flags...)...)
		if err == nil {
			err = json.Unmarshal([]byte(out), of.into)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if len(plan.Columns) != columns || !reflect.DeepEqual(plan, done) {
		t.Errorf("planned %v\nmade %v", plan, done)
	}
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	counts := &counted{Storage: store}
	files, err := store.List(t.Context(), "", []string{made})
	if err != nil {
		t.Fatal(err)
	}
	file, err := formats.Load(t.Context(), store, "", files[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	reads.Proto().Columns = features.Columns([]format.File{file})
	now, then := plan.Order.Costs.Now, plan.Order.Costs.Ordered
	near(t, "the file says", features.LayoutOf(reads.Proto()).Cost(nil, storage.Reading{}), then)
	if then.Requests >= now.Requests || then.Bytes >= now.Bytes {
		t.Errorf("it saves nothing: %+v, then %+v", now, then)
	}
	cost, rows := features.Cost{Wanted: then.Wanted}, 0.0
	for _, set := range reads.Proto().GetSets() {
		var ranges []storage.Range
		for i := range features.Members(set) {
			ranges = append(ranges, rangeOf(t, file, reads.Proto().GetFeatures()[i].GetName()))
		}
		counts.bytes.Store(0)
		counts.requests.Store(0)
		if _, err := storage.ReadRanges(t.Context(), counts, "", files[0], ranges, storage.Reading{},
			func(n int64) ([]byte, error) { return make([]byte, n), nil }); err != nil {
			t.Fatal(err)
		}
		cost.Bytes += float64(set.GetRows() * counts.bytes.Load())
		cost.Requests += float64(set.GetRows() * counts.requests.Load())
		rows += float64(set.GetRows())
	}
	near(t, "to read it takes", features.Cost{Wanted: cost.Wanted, Bytes: cost.Bytes / rows, Requests: cost.Requests / rows}, then)
}

// near compares costs: row groups differ a little from the first one.
func near(t *testing.T, what string, got, want features.Cost) {
	t.Helper()
	apart := func(a, b float64) bool { return a < 0.99*b || a > 1.01*b }
	if apart(got.Wanted, want.Wanted) || apart(got.Bytes, want.Bytes) || apart(got.Requests, want.Requests) {
		t.Errorf("%s %+v; foretold was %+v", what, got, want)
	}
}

// rangeOf is where a column of the first row group lies.
func rangeOf(t *testing.T, f format.File, name string) storage.Range {
	t.Helper()
	for _, c := range f.Columns().Schema.Columns {
		if c.Name != name {
			continue
		}
		bound, err := f.Bind([]*pb.Source{{Name: name, Path: c.Path, Type: c.Type.Proto()}})
		if err != nil {
			t.Fatal(err)
		}
		return bound.Chunk(0, 0).Range
	}
	t.Fatalf("no column %s", name)
	return storage.Range{}
}

// A list of names is an order, of which nothing is foretold. What is no order says where and what to do.
func TestOrderFlag(t *testing.T) {
	in := written(t, "in.csv", "a,b,c\n1,2,3\n")
	for _, test := range []struct{ name, text, want string }{
		{"o.txt", "c\nx\na\n", "order popularity=$: 2 of 3 columns are read, and come first\n1 feature that was read lies in " +
			"none of the columns\nwhat it saves is not known"},
		{"o.txt", "c\na\n", "3 columns:\n  c: int64\n  a: int64\n  b: int64\nnothing is written"},
		{"o.txt", "x\ny\n", "--order popularity=$: none of its 2 names is one of the 3 columns, which are a, b, c, ...: give"},
		{"o.txt", "a\na\n", "--order: $:2: a is on line 1 already"},
		{"o.json", `{"features": [`, "--order: $:1: not what"},
	} {
		file := written(t, test.name, test.text)
		out, err := clitest.Run(t, Convert(), in, "--out", t.TempDir()+"/out", "--order", "popularity="+file, "--dry-run")
		if err != nil {
			out += err.Error()
		}
		if want := strings.ReplaceAll(test.want, "$", file); !strings.Contains(out, want) {
			t.Errorf("%q: %s\nlacks %s", test.text, out, want)
		}
	}
	for flag, want := range map[string]string{
		"size":               "there is popularity, which asks a master, and popularity=FILE",
		"popularity=":        "there is popularity",
		"popularity=missing": "no such file",
		"popularity":         "nothing listens there",
	} {
		_, err := clitest.Run(t, Convert(), in, "--out", t.TempDir()+"/out", "--order", flag, "--master", "127.0.0.1:1")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--order %s: %v, want %s", flag, err, want)
		}
	}
}

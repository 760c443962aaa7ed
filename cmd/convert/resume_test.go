package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// numbered are inputs of each format with the numbers from 0 to 29,999, in files of several lengths, one of them empty.
func numbered(t *testing.T) map[string][]string {
	t.Helper()
	inputs := map[string][]string{}
	schema := arrow.NewSchema([]arrow.Field{nullable("x", arrow.PrimitiveTypes.Int64)}, nil)
	from := 0
	for i, rows := range []int{9000, 0, 1, 20_000, 999} {
		text, json := "x\n", []string{}
		for x := range rows {
			text += fmt.Sprintln(from + x)
			json = append(json, fmt.Sprintf(`{"x": %d}`, from+x))
		}
		from += rows
		all := "[" + strings.Join(json, ",") + "]"
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(all))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), fmt.Sprintf("%d.arrow", i))
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < rec.NumRows(); at += 3000 {
			if err := w.Write(rec.NewSlice(at, min(at+3000, rec.NumRows()))); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		inputs["arrow"] = append(inputs["arrow"], name)
		inputs["text"] = append(inputs["text"], write(t, fmt.Sprintf("%d.csv", i), text))
		copied := run(t, Options{Inputs: []string{name}, Output: filepath.Join(t.TempDir(), "a.parquet")})
		inputs["parquet"] = append(inputs["parquet"], copied.Files[0])
	}
	return inputs
}

// isNumbered checks the rows of files.
func isNumbered(t *testing.T, files []string) {
	t.Helper()
	rows := table(t, files...)
	if len(rows) != 30_001 {
		t.Fatalf("%d rows", len(rows)-1)
	}
	for i, row := range rows[1:] {
		if row != fmt.Sprint(i) {
			t.Fatalf("row %d is %s", i, row)
		}
	}
}

// stopAfter runs a conversion that is cancelled after so many rows.
func stopAfter(t *testing.T, o Options, rows int64) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = func(p Progress) {
		if p.Rows >= rows {
			cancel()
		}
	}
	_, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("after %d rows: %v", rows, err)
	}
	return err
}

// A conversion that was stopped goes on behind its last finished file, and makes the same files.
func TestResume(t *testing.T) {
	for format, in := range numbered(t) {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			o := Options{Inputs: in, Output: filepath.Join(dir, "out"), FileRows: 4000}
			for _, rows := range []int64{1, 9000, 12_500, 29_001} {
				err := stopAfter(t, o, rows)
				if kept := strings.Contains(err.Error(), "are finished and kept"); rows > 9000 && !kept {
					t.Errorf("after %d rows: %v", rows, err)
				}
			}
			other := o
			other.FileRows = 5000
			if _, err := Run(t.Context(), other); !errors.Is(err, errOtherWork) {
				t.Errorf("with other options: %v", err)
			}
			r := run(t, o)
			isNumbered(t, r.Files)
			if len(r.Files) != 8 || r.Rows != 30_000 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "went on behind") {
				t.Errorf("result %+v", r)
			}
			for _, name := range r.Files[:7] {
				if groups := groupsOf(t, name); !slices.Equal(groups, []int64{4000}) {
					t.Errorf("%s has row groups of %v", name, groups)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			_ = stopAfter(t, Options{Inputs: in, Output: filepath.Join(dir, "new"), FileRows: 4000}, 20_000)
			isNumbered(t, run(t, Options{Inputs: in, Output: filepath.Join(dir, "new"), FileRows: 5000, Restart: true}).Files)
		})
	}
}

// TestKilled kills a process that converts, which is this test in another process.
func TestKilled(t *testing.T) {
	const variable = "PENSTOCK_TEST_KILLED"
	in := write(t, "a.csv", "x\n"+strings.Repeat("1\n", 30_000))
	o := Options{Inputs: []string{in}, Output: filepath.Join(t.TempDir(), "out"), FileRows: 4000}
	if given := os.Getenv(variable); given != "" {
		o.Inputs, o.Output = []string{given}, filepath.Join(filepath.Dir(given), "outputs")
		o.Progress = func(p Progress) {
			if p.Rows > 20_000 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		run(t, o)
	}
	o.Output = filepath.Join(filepath.Dir(in), "outputs")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), variable+"="+in)
	if err := cmd.Run(); err == nil {
		t.Fatal("it was not killed")
	}
	if _, err := os.Stat(o.Output); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is an output: %v", err)
	}
	if r := run(t, o); r.Rows != 30_000 || len(r.Notes) != 1 || len(table(t, r.Files...)) != 30_001 {
		t.Errorf("result %+v", r)
	}
}

// lake is a store whose profile of that name may write below s3://outputs/derived/.
func lake(t *testing.T) *storage.Store {
	t.Helper()
	store, err := storage.New(storage.Config{Profiles: map[string]storage.Profile{
		"lake": &s3.Profile{Write: []string{"s3://outputs/derived/"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// Into a bucket: nothing is seen before all is written, what was begun is gone on with, and nothing is overwritten.
func TestIntoBucket(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	m.MakeBucket(t, "outputs")
	store := lake(t)
	o := Options{
		Store: store, Inputs: numbered(t)["parquet"], Output: "s3://outputs/derived/a/", OutProfile: "lake", FileRows: 4000,
	}
	list := func() (string, error) {
		files, err := store.List(t.Context(), "lake", []string{"s3://outputs/derived/a"})
		var names []string
		for _, f := range files {
			names = append(names, strings.TrimPrefix(f.GetUri(), "s3://outputs/derived/a/"))
		}
		return strings.Join(names, " "), err
	}
	_ = stopAfter(t, o, 1)
	if names, err := list(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after nothing was finished there are %s, %v", names, err)
	}
	_ = stopAfter(t, o, 20_000)
	if names, err := list(); err == nil || !strings.Contains(err.Error(), "a conversion to s3://outputs/derived/a/ is not finished") {
		t.Errorf("while it is not finished there are %s, %v", names, err)
	}
	r := run(t, o)
	if r.Rows != 30_000 || len(r.Files) != 8 || len(r.Notes) != 1 || r.Files[1] != "s3://outputs/derived/a/part-00001.parquet" {
		t.Errorf("result %+v", r)
	}
	if names, err := list(); err != nil || !strings.HasPrefix(names, "part-00000.parquet part-00001") {
		t.Errorf("there are %s, %v", names, err)
	}
	all, _, err := (&bucket{store: store, profile: "lake"}).find(t.Context(), "s3://outputs/derived/a/_*")
	if err != nil || len(all) != 1 || all[0].GetUri() != "s3://outputs/derived/a/"+manifestName {
		t.Errorf("beside the files there are %v, %v", all, err)
	}
	// a run that dies while it removes its journal leaves some of it
	work, err := find(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	filled := o
	if err := filled.check(); err != nil {
		t.Fatal(err)
	}
	left := []byte(`{"work":"` + workOf(filled, &work) + `"}`)
	m.Put(t, "outputs", "derived/a/_penstock_converting/00000.json", left)
	m.Put(t, "outputs", "derived/a/_penstock_converting/00003.json", []byte(`{"whole":true}`))
	if again := run(t, o); again.Rows != 30_000 || !slices.Equal(again.Files, r.Files) || again.Bytes != r.Bytes {
		t.Errorf("after its journal was left: %+v", again)
	}
	if names, err := list(); err != nil || !strings.HasPrefix(names, "part-00000.parquet part-00001") {
		t.Errorf("there are %s, %v", names, err)
	}
	back := run(t, Options{Store: store, Inputs: []string{"s3://outputs/derived/a"}, Profile: "lake"})
	isNumbered(t, back.Files)

	for name, bad := range map[string]Options{
		"holds files already":  o,
		"does not let":         {Output: "s3://outputs/raw"},
		"are overwritten":      {Output: o.Output, Overwrite: true},
		"lets nothing be writ": {Output: "s3://outputs/derived/b", OutProfile: "default"},
	} {
		bad.Store, bad.Inputs = store, o.Inputs
		if bad.OutProfile == "" {
			bad.OutProfile = "lake"
		}
		if _, err := Run(t.Context(), bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	single := run(t, Options{Store: store, Inputs: o.Inputs, Output: "s3://outputs/derived/one.parquet", OutProfile: "lake"})
	again := Options{Store: store, Inputs: o.Inputs, Output: "s3://outputs/derived/one.parquet", OutProfile: "lake"}
	again.Progress = func(Progress) { t.Error("rows are read in vain") }
	fails(t, again, "is there already")
	odd := Options{Store: store, Inputs: o.Inputs, Output: "s3://outputs/derived/[b]*", OutProfile: "lake", FileRows: 4000}
	_ = stopAfter(t, odd, 20_000)
	if r := run(t, odd); r.Rows != 30_000 || len(r.Notes) != 1 {
		t.Errorf("of a place with wildcards in its name: %+v", r)
	}
	if !slices.Equal(single.Files, []string{"s3://outputs/derived/one.parquet"}) {
		t.Errorf("files %v", single.Files)
	}
	shards := Options{
		Store: store, Inputs: numbers(t, 30_000), Output: "s3://outputs/derived/shards", OutProfile: "lake", To: "mds",
		FileRows: 4500, Compression: "zstd", Verify: true,
	}
	_ = stopAfter(t, shards, 20_000)
	if r := run(t, shards); !r.Verified || len(r.Notes) != 1 || r.Files[1] != shards.Output+"/shard.00001.mds.zstd" {
		t.Errorf("shards: %+v", r)
	}
	index, _, err := (&bucket{store: store, profile: "lake"}).find(t.Context(), shards.Output+"/index.json")
	if err != nil || len(index) != 1 {
		t.Errorf("beside the shards there is %v, %v", index, err)
	}
}

// One process at a time writes an output, and another one does it no harm.
func TestOneAtATime(t *testing.T) {
	in := write(t, "a.csv", "x\n"+strings.Repeat("1\n", 30_000))
	o := Options{Inputs: []string{in}, Output: filepath.Join(t.TempDir(), "out"), FileRows: 4000}
	second := o
	tried := false
	o.Progress = func(p Progress) {
		if p.Rows < 20_000 || tried {
			return
		}
		tried = true
		if _, err := Run(t.Context(), second); err == nil || !strings.Contains(err.Error(), "another conversion writes") {
			t.Errorf("meanwhile: %v", err)
		}
	}
	if r := run(t, o); r.Rows != 30_000 || !tried || len(table(t, r.Files...)) != 30_001 {
		t.Errorf("result %+v", r)
	}
}

package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
)

const others = "../../internal/formats/filetest/others/"

// TestRecordsWrittenByOthers holds files of records against the tables of Parquet that lie beside them: each column of
// a table is in the file, with the same values.
func TestRecordsWrittenByOthers(t *testing.T) {
	for _, folder := range []string{"csv", "jsonl", "mds", "tfrecord", "tokens", "webdataset"} {
		for _, o := range filetest.Others(t, folder) {
			t.Run(o.File, func(t *testing.T) { compareTwin(t, o) })
		}
	}
}

func compareTwin(t *testing.T, o filetest.Other) {
	store, how := memoryStore{}, o.How(t)
	paths := []string{others + o.File}
	if strings.HasSuffix(o.File, "/") {
		paths, _ = filepath.Glob(others + o.File + "*.mds*")
	}
	besides, _ := filepath.Glob(others + "tokens/*")
	for _, path := range append(besides, paths...) {
		store["mem://"+path] = readFile(t, path)
	}
	twin := others + o.Twin
	store["mem://"+twin] = readFile(t, twin)
	if o.File == "csv/numbers.csv" { // whose numbers begin with zeros
		how.Columns = map[string]string{"i": "int64"}
	}
	if o.Options["header"] != nil {
		names := &pb.List{}
		for _, name := range []string{"id", "price", "name", "count", "flag", "note"} {
			names.Values = append(names.Values, &pb.Value{Kind: &pb.Value_Text{Text: name}})
		}
		how.Options["names"] = &pb.Value{Kind: &pb.Value_List{List: names}}
	}
	want := shownColumns(t, &Interpreter{store: store}, nil, twin)
	if len(want) == 0 {
		t.Fatal("the twin has no columns")
	}
	if strings.HasPrefix(o.File, "tokens/flat") {
		how.Name = "tokens"
	}
	of := &Interpreter{store: store, spec: &pb.Spec{Dataset: &pb.Dataset{Format: how}}}
	got := shownColumns(t, of, want, paths...)
	for name := range want {
		if o.File == "jsonl/uint64.jsonl" && got[name] == nil { // int64 does not have them
			continue
		}
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("column %s is\n%.300q, want\n%.300q", name, got[name], want[name])
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shownColumns are the values of columns in files, as texts: of all that can be read, or those that are wanted.
func shownColumns(t *testing.T, in *Interpreter, wanted map[string][]string, paths ...string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, path := range paths {
		file := &pb.File{Uri: "mem://" + path, Size: int64(len(in.store.(memoryStore)["mem://"+path]))}
		f, err := in.open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		fill, columns := map[string]filler{}, map[string]column{}
		for _, c := range f.all() {
			if _, ok := wanted[c.name]; (ok || wanted == nil) && c.supported() && !c.isMap {
				if fill[c.name], err = f.find(c, "", &cell{null: true}); err != nil {
					t.Fatal(err)
				}
				columns[c.name] = c
			}
		}
		err = f.rows(t.Context(), func(int64) {}, func() error {
			for name, fill := range fill {
				var c cell
				if err := fill(&c); err != nil {
					return fmt.Errorf("column %s: %w", name, err)
				}
				out[name] = append(out[name], shown(&c, columns[name]))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

package parquet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// pythonFiles lets testdata/write.py write its files and returns their folder.
func pythonFiles(t *testing.T) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "import pyarrow, duckdb").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 with pyarrow and duckdb: %v", err)
		}
		t.Skipf("needs python3 with pyarrow and duckdb: %v", err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("python3", "testdata/write.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("testdata/write.py: %v\n%s", err, out)
	}
	return dir
}

func openFile(t *testing.T, path string) ([]byte, *footer.Footer) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := readFooter(data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data, f
}

// TestAgainstPython decodes one table as pyarrow and DuckDB write it, and compares with its plainest form as
// arrow reads that.
func TestAgainstPython(t *testing.T) {
	dir := pythonFiles(t)
	data, f := openFile(t, filepath.Join(dir, "plain.parquet"))
	sources := withOwn(f)
	want, err := decodeAll(NewDecoder(sources, testMemory), f, data, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	table := readTable(t, data)
	for i, s := range sources {
		if field := table.Schema().FieldIndices(s.GetName()); len(field) == 1 { // and not one of a struct
			compare(t, "plain "+s.GetName(), want[i], arrowRows(table.Column(field[0]).Data(), s.GetType().GetKind()))
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".parquet")
		t.Run(name, func(t *testing.T) {
			data, f := openFile(t, path)
			for _, window := range []int{1, 33, 64, 5000} {
				got, err := decodeAll(NewDecoder(sources, testMemory), f, data, window, 0)
				if err != nil {
					t.Fatal(err)
				}
				for i, s := range sources {
					rows := want[i]
					switch {
					case name == "empty":
						rows = nil
					case strings.HasPrefix(name, "duckdb") && (strings.HasPrefix(s.GetName(), "doubled") ||
						s.GetName() == "f16" || s.GetName() == "halves"):
						rows = make([]any, len(rows)) // absent
					}
					compare(t, s.GetName(), got[i], rows)
				}
			}
		})
	}
}

// TestMapKeys compares keys of a map with what its entries say.
func TestMapKeys(t *testing.T) {
	dir := pythonFiles(t)
	data, f := openFile(t, filepath.Join(dir, "zstd_v1.parquet"))
	list := func(path string, kind pb.Kind) *pb.Source {
		return &pb.Source{Name: path, Path: strings.Split(path, "."), Type: &pb.Type{Kind: kind, List: true}}
	}
	key := func(path, key string, kind pb.Kind) *pb.Source {
		return &pb.Source{Name: path + "." + key, Path: []string{path}, Key: &key, Type: &pb.Type{Kind: kind}}
	}
	sources := []*pb.Source{
		list("doubled.key", pb.Kind_BINARY), list("doubled.value", pb.Kind_FLOAT32),
		list("counts.key", pb.Kind_INT64), list("counts.value", pb.Kind_FLOAT64),
		key("doubled", "b", pb.Kind_FLOAT32), key("doubled", "d", pb.Kind_FLOAT64), key("doubled", "none",
			pb.Kind_FLOAT32),
		key("counts", "0", pb.Kind_FLOAT64), key("counts", "3", pb.Kind_FLOAT64), key("doubled", "b", pb.Kind_FLOAT32),
	}
	got, err := decodeAll(NewDecoder(sources, testMemory), f, data, 37, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sources[4:] {
		keys, values := got[0], got[1]
		wanted := any(s.GetKey())
		if s.GetPath()[0] == "counts" {
			keys, values = got[2], got[3]
			wanted = int64(s.GetKey()[0] - '0')
		}
		compare(t, s.GetName(), got[4+i], lookUp(keys, values, wanted, s.GetType().GetKind()))
	}
}

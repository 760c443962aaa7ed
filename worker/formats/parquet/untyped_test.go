package parquet

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// untypedWriter writes columns of which it sees no value, as pandas does for a partition that has none.
const untypedWriter = `
import sys
import pyarrow as pa, pyarrow.parquet as pq
lists = [[], None, [None, None], [None]] * 25
table = pa.table({"nulls": pa.nulls(100), "lists": pa.array(lists, pa.list_(pa.null())), "nested": pa.array([[[None], []], None, [None], []] * 25, pa.list_(pa.list_(pa.null()))), "boxes": pa.array([[], None] * 50, pa.list_(pa.struct([("x", pa.null())])))})
for page in "1.0", "2.0":
    for dictionary in True, False:
        pq.write_table(table, f"{sys.argv[1]}/{page}-{dictionary}.parquet", data_page_version=page, use_dictionary=dictionary, row_group_size=60)
`

func TestUntyped(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("python3", "-c", untypedWriter, dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 with pyarrow: %v\n%s", err, out)
		}
		t.Skipf("needs python3 with pyarrow: %v", err)
	}
	var lists, boxes []any
	for range 25 {
		lists = append(lists, []any{}, nil, []any{nil, nil}, []any{nil})
		boxes = append(boxes, []any{}, nil, []any{}, nil)
	}
	key := "5"
	inMap := source("nulls", pb.Kind_FLOAT32, false)
	inMap.Key = &key
	withDefault := source("nulls", pb.Kind_INT32, false)
	withDefault.Default = &pb.Value{Kind: &pb.Value_Int{Int: 7}}
	lacking := source("lacking", pb.Kind_INT32, false)
	lacking.Default = withDefault.Default
	sources := []*pb.Source{
		source("nulls", pb.Kind_BINARY, false), source("nulls", pb.Kind_INT64, true), source("nulls.field",
			pb.Kind_BOOL, false), inMap, withDefault,
	}
	want := make([][]any, len(sources), 20)
	for i := range want {
		want[i] = make([]any, 100)
	}
	sevens := make([]any, 100)
	for i := range sevens {
		sevens[i] = int32(7)
	}
	sources, want = append(sources, lacking), append(want, sevens)
	for _, kind := range []pb.Kind{
		pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64,
		pb.Kind_BINARY, pb.Kind_UINT8, pb.Kind_UINT32, pb.Kind_FLOAT16,
	} {
		sources, want = append(sources, source("lists", kind, true), source("boxes.x", kind, true)), append(want,
			lists, boxes)
	}
	nested := []any{[]any{[]any{nil}, []any{}}, nil, []any{nil}, []any{}}
	ofLists := source("nested", pb.Kind_INT16, true)
	ofLists.Type.Nested = 1
	deeper, boxesOfLists := source("nested", pb.Kind_BINARY, true), source("boxes.x", pb.Kind_UINT8, true)
	deeper.Type.Nested, boxesOfLists.Type.Nested = 3, 1 // the nulls could be lists
	sources = append(sources, ofLists, deeper, boxesOfLists)
	want = append(want, slices.Repeat(nested, 25), slices.Repeat(nested, 25), boxes)
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, path := range files {
		data, f := openFile(t, path)
		for _, window := range []int{1, 7, 1000} {
			got, err := decodeAll(NewDecoder(sources, testMemory), f, data, window, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range sources {
				compare(t, filepath.Base(path)+" "+s.GetName(), got[i], want[i])
			}
		}
		plan, err := explain(f, 0, sources)
		if err != nil || plan[0] != "nulls without a type" || plan[5] != "absent from the file" ||
			!strings.HasSuffix(plan[6], ", without a type: no element") {
			t.Errorf("%q, %v", plan, err)
		}
		for want, s := range map[string]*pb.Source{
			"a list without a type":   source("lists", pb.Kind_INT32, false),
			"column boxes.x cannot":   source("boxes", pb.Kind_INT32, false),
			"cannot be read: a list ": source("lists.x", pb.Kind_INT32, true),
		} {
			if _, err := f.Bind([]*pb.Source{s}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", s.GetName(), err)
			}
		}
	}
}

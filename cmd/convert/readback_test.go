package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
)

// nestedFile has a column of each of many types. The row of a number has it in all of them.
func nestedFile(t *testing.T, numbers ...string) string {
	t.Helper()
	var rows []string
	for _, n := range numbers {
		rows = append(rows, strings.ReplaceAll(`{"id": N, "small": N, "big": N, "half": N.5, "price": "N.10",
			"at": "2024-01-02T03:04:0N.5Z", "here": "2024-01-02T03:04:05.00N",
			"user": {"age": N, "tags": ["aN", ""], "born": "200N-01-01"},
			"items": [{"id": N, "price": 0.N}, {"id": null, "price": null}], "grid": [[N], []], "none": []}`, "N", n))
	}
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	return jsonParquet(t, arrow.NewSchema([]arrow.Field{
		field("id", arrow.PrimitiveTypes.Int64),
		field("small", arrow.PrimitiveTypes.Uint8),
		field("big", arrow.PrimitiveTypes.Uint64),
		field("half", arrow.PrimitiveTypes.Float32),
		field("price", &arrow.Decimal128Type{Precision: 10, Scale: 2}),
		field("at", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}),
		field("here", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: local}),
		field("user", arrow.StructOf(
			field("age", arrow.PrimitiveTypes.Int32),
			field("tags", arrow.ListOf(arrow.BinaryTypes.String)),
			field("born", arrow.FixedWidthTypes.Date32),
		)),
		field("items", arrow.ListOf(arrow.StructOf(
			field("id", arrow.PrimitiveTypes.Int64), field("price", arrow.PrimitiveTypes.Float64),
		))),
		field("grid", arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64))),
		field("none", arrow.ListOf(arrow.PrimitiveTypes.Float32)),
	}, nil), "["+strings.Join(rows, ",")+"]")
}

// TestVerifyOtherFormats: what a format does not keep is compared with what stands for it, and what differs is found.
func TestVerifyOtherFormats(t *testing.T) {
	file, others := nestedFile(t, "1", "2", "3"), []string{"1", "2", "4"}
	for _, to := range []string{"jsonl", "tar", "mds"} {
		for name, o := range map[string]Options{
			"plain":       {FileRows: 2},
			"sorted":      {SortBy: []string{"at:desc"}},
			"shuffled":    {Shuffle: new(int64)},
			"partitioned": {PartitionBy: []string{"small"}},
		} {
			if to == asMDS && name == "partitioned" {
				continue
			}
			o.Inputs, o.To, o.Verify, o.Output = []string{file}, to, true, filepath.Join(t.TempDir(), "out")
			r, err := Run(t.Context(), o)
			if err != nil || !r.Verified {
				t.Errorf("%s %s: %v", to, name, err)
				continue
			}
			o.Inputs, o.Store = []string{nestedFile(t, others...)}, newStore(t)
			if err := o.check(); err != nil {
				t.Fatal(err)
			}
			in, err := find(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			err = verify(t.Context(), o, &in, r.Files)
			if err == nil || !strings.Contains(err.Error(), "does not hold what the inputs do") {
				t.Errorf("%s %s: another row is not found: %v", to, name, err)
			}
		}
	}
}

// TestVerifyKeys: a column of samples' names is read back as the names, and numbers of that name as a part.
func TestVerifyKeys(t *testing.T) {
	for _, text := range []string{"__key__,a\nx,1\ny,2\n", "__key__,a\n7,1\n8,2\n"} {
		o := Options{Inputs: []string{write(t, "a.csv", text)}, To: "tar", Verify: true}
		if r := run(t, o); !r.Verified || r.Rows != 2 {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

package reference

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
)

// End to end: what a faithful trainer writes down compares equal, and each single fault is found.
func TestVerification(t *testing.T) {
	var rows []string
	for i := range 50 {
		rows = append(rows, fmt.Sprintf(`{"x": %d}`, i))
	}
	store := memoryStore{"mem://a": parquetOf(t, "["+strings.Join(rows, ",")+"]",
		field("x", arrow.PrimitiveTypes.Int64))}
	e := expected(t, &pb.Spec{Filter: "x >= 10", Features: []*pb.Feature{feature(pb.Layout_LABEL, "x")}}, store)
	deliver := func(xs []int64) Report {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
			{Name: "_row", Type: arrow.PrimitiveTypes.Int64},
			{Name: "_file", Type: arrow.PrimitiveTypes.Int32},
			{Name: "x", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.NewMetadata([]string{"penstock.layout"},
				[]string{"label"})},
		}, nil))
		for _, x := range xs {
			b.Field(0).(*array.Int64Builder).Append(x % 1000)
			b.Field(1).(*array.Int32Builder).Append(0)
			b.Field(2).(*array.Int64Builder).Append(x)
		}
		records, err := NewRecords(b.Schema())
		if err != nil {
			t.Fatal(err)
		}
		path := t.TempDir() + "/ledger"
		ledger, err := CreateLedger(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := records.Each(b.NewRecord(), ledger.Add); err != nil {
			t.Fatal(err)
		}
		if err := ledger.Close(); err != nil {
			t.Fatal(err)
		}
		rep, err := Compare(e, path)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	var all []int64
	for x := int64(49); x >= 10; x-- {
		all = append(all, x)
	}
	if rep := deliver(all); !rep.OK() || rep.Delivered != 40 {
		t.Fatalf("faithful delivery: %v", rep)
	}
	if rep := deliver(all[1:]); rep.OK() || rep.Missing != 1 {
		t.Errorf("one row dropped: %v", rep)
	}
	if rep := deliver(append(slices.Clone(all), 20)); rep.OK() || rep.Doubled != 1 {
		t.Errorf("one row doubled: %v", rep)
	}
	if rep := deliver(append(slices.Clone(all[1:]), all[0]+1000)); rep.OK() || rep.Altered != 1 {
		t.Errorf("one row altered: %v", rep)
	}
	if rep := deliver(append(slices.Clone(all), 9)); rep.OK() || rep.Unexpected != 1 {
		t.Errorf("one row that the filter leaves out: %v", rep)
	}
	if rep := deliver(append(slices.Clone(all), 77)); rep.OK() || rep.Unexpected != 1 {
		t.Errorf("one row invented: %v", rep)
	}
}

func TestProgressAndCancel(t *testing.T) {
	store := memoryStore{}
	for i := range 4 {
		store[fmt.Sprint("mem://", i)] = parquetOf(t, `[{"x": 1}, {"x": 2}, {"x": 3}]`,
			field("x", arrow.PrimitiveTypes.Int64))
	}
	in, err := New(t.Context(), &pb.Spec{Features: []*pb.Feature{feature(pb.Layout_LABEL, "x")}}, store)
	if err != nil {
		t.Fatal(err)
	}
	var last, calls int64
	_, err = in.Expected(t.Context(), 0, func(done, total int64) {
		if done <= last || total != 12 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
		calls++
	})
	if err != nil || last != 12 || calls != 8 { // one for each row group
		t.Errorf("progress ended at %d after %d calls: %v", last, calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.Expected(ctx, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkExpected(b *testing.B) {
	const rows = 250_000
	paths, err := dataset.Criteo(b.Context(), b.TempDir(), rows, nil)
	if err != nil {
		b.Fatal(err)
	}
	store := memoryStore{}
	for _, p := range paths {
		if store["file://"+p], err = os.ReadFile(p); err != nil {
			b.Fatal(err)
		}
	}
	in, err := New(b.Context(), &pb.Spec{
		Features: []*pb.Feature{
			feature(pb.Layout_LABEL, "label"), feature(pb.Layout_DENSE, "int_*"),
			feature(pb.Layout_SPARSE, "cat_*"),
		},
		Transforms: []*pb.Transform{
			{Op: "fill_null", In: []string{"int_*"}, Params: params("value", 0)},
			{Op: "log1p", In: []string{"int_*"}},
			{Op: "sigrid_hash", In: []string{"cat_*"}, Params: params("max", 1_000_000)},
			{Op: "first_x", In: []string{"cat_*"}, Params: params("x", 20)},
		},
	}, store)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := in.Expected(b.Context(), 0, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

package plan_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/plan"
)

func TestPruning(t *testing.T) {
	i64 := func(v int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: v}} }
	absent := func(kind pb.Kind, def *pb.Value) *pb.Source {
		s := source("absent", kind, false)
		s.Default = def
		return s
	}
	id := source("id", pb.Kind_INT64, false)
	tests := []struct {
		filter string
		source *pb.Source
		pruned int64 // of the row groups [10, 19] and [20, 29] of id
	}{
		{"", id, 0},
		{"id == 15", id, 1},
		{"id > 5", id, 0},
		{"id in (1, 2, 30)", id, 2},
		{"id is null", id, 2},
		{"not (id >= 20)", id, 1},
		// Statistics say nothing of single keys, and those of binary values are missing here.
		{"`scores.1` > 5.0", mapKey("scores", "1", pb.Kind_FLOAT32), 0},
		{"name == 'x'", source("name", pb.Kind_BINARY, false), 0},
		// A column that the file lacks is null, or its default.
		{"absent == 1", absent(pb.Kind_INT64, nil), 2},
		{"absent is null", absent(pb.Kind_INT64, nil), 0},
		{"absent == 1", absent(pb.Kind_INT64, i64(1)), 0},
		{"absent == 1", absent(pb.Kind_INT32, i64(2)), 2},
		{"absent is null", absent(pb.Kind_INT64, i64(1)), 2},
		{"absent < 1.0", absent(pb.Kind_FLOAT32, i64(1)), 2},
		{"absent < 1.0", absent(pb.Kind_FLOAT64, i64(1)), 2},
		{"absent < 1.0", absent(pb.Kind_FLOAT64, i64(1<<60)), 0}, // not exact: left to the worker
		{"absent < 0.1", absent(pb.Kind_FLOAT64, &pb.Value{Kind: &pb.Value_Float{Float: 0.1}}), 2},
		{"absent <= 0.1", absent(pb.Kind_FLOAT32, &pb.Value{Kind: &pb.Value_Float{Float: 0.1}}), 0},
		{"absent == 'x'", absent(pb.Kind_BINARY, &pb.Value{Kind: &pb.Value_Text{Text: "y"}}), 2},
		{"absent == true", absent(pb.Kind_BOOL, &pb.Value{Kind: &pb.Value_Bool{Bool: true}}), 0},
		{"absent == false", absent(pb.Kind_BOOL, &pb.Value{Kind: &pb.Value_Bool{Bool: true}}), 2},
	}
	f := makeFile(t, "file:///a", 1, schema(), uniform(10, 80).within(10, 19), uniform(10, 80).within(20, 29))
	for _, test := range tests {
		t.Run(test.filter+" "+test.source.String(), func(t *testing.T) {
			prog := program(test.source)
			prog.Filter = test.filter
			_, counts, err := plan.Shards(plan.Config{}, prog, []plan.File{f}, 0)
			check(t, err)
			if counts.PrunedExtents != test.pruned || counts.PrunedRows != 10*test.pruned ||
				counts.Extents != 2-test.pruned {
				t.Errorf("%+v, want %d pruned", counts, test.pruned)
			}
		})
	}
}

// A file whose column is narrower than the session's is pruned by the values that the worker compares: widened.
func TestPruningOfWidenedColumns(t *testing.T) {
	narrow := arrow.NewSchema([]arrow.Field{
		{Name: "f", Type: arrow.PrimitiveTypes.Float32}, {Name: "i", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
	tenth := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.1)) // above 0.1
	seven := binary.LittleEndian.AppendUint32(nil, 7)
	f := makeFile(t, "file:///a", 1, narrow, rowGroup{rows: 1, chunks: []chunk{
		{values: 1, stored: 1, min: tenth, max: tenth}, {values: 1, stored: 1, min: seven, max: seven},
	}})
	tests := []struct {
		filter string
		kind   pb.Kind
		kept   int64
	}{
		{"f > 0.1", pb.Kind_FLOAT64, 1},
		{"f == 0.1", pb.Kind_FLOAT64, 0},
		{"f > 0.1", pb.Kind_FLOAT32, 0},
		{"f == 0.1", pb.Kind_FLOAT32, 1},
		{"i == 7", pb.Kind_INT64, 1},
		{"i > 7", pb.Kind_INT64, 0},
	}
	for _, test := range tests {
		prog := program(source(test.filter[:1], test.kind, false))
		prog.Filter = test.filter
		_, counts, err := plan.Shards(plan.Config{}, prog, []plan.File{f}, 0)
		check(t, err)
		if counts.Extents != test.kept {
			t.Errorf("%s as %v keeps %d row groups, want %d", test.filter, test.kind, counts.Extents, test.kept)
		}
	}
}

// Statistics that contradict themselves exclude nothing, and are counted where the filter would have used them.
func TestStatisticsThatContradictThemselves(t *testing.T) {
	f := makeFile(t, "file:///a", 1, schema(), uniform(10, 80).within(19, 10), uniform(10, 80).within(20, 29),
		uniform(10, 80).within(40, 30))
	for filter, want := range map[string]plan.Counts{
		"id > 100": {
			Files: 1, Shards: 1, Extents: 2, Rows: 20, PrunedExtents: 1, PrunedRows: 10,
			UntrustedChunks: 2, Untrusted: "file:///a row group 0 column id: its minimum is above its maximum",
		},
		"name is null": {Files: 1, Shards: 1, Extents: 3, Rows: 30},
		"":             {Files: 1, Shards: 1, Extents: 3, Rows: 30},
	} {
		prog := program(source("id", pb.Kind_INT64, false), source("name", pb.Kind_BINARY, false))
		prog.Filter = filter
		if _, counts, err := plan.Shards(plan.Config{}, prog, []plan.File{f}, 0); err != nil || counts != want {
			t.Errorf("%q: %+v, %v; want %+v", filter, counts, err, want)
		}
	}
}

func TestAFilterThatDoesNotParse(t *testing.T) {
	prog := program()
	prog.Filter = "id ="
	if _, _, err := plan.Shards(plan.Config{}, prog, nil, 0); err == nil {
		t.Error("no error")
	}
}

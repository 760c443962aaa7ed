package spec

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestBatchSize(t *testing.T) {
	for _, tc := range []struct {
		text          string
		opened, world uint32
		lanes         uint32
		global, batch int64
		says          string // instead of batch
	}{
		{"batch_size: 10", 4, 3, 0, 0, 10, ""},
		{"global_batch_size: 24", 4, 3, 0, 24, 8, ""},
		{"global_batch_size: 24", 4, 5, 0, 24, 0, "world size 5 does not divide global_batch_size 24"},
		{"global_batch_size: 33554432", 2, 1, 0, 32 << 20, 0, "batches of 33554432 rows for each of 1 ranks"},
		{"batch_size: 10", 4, 0, 0, 0, 0, "world size 0; want 1 to 65536 ranks"},
		{"batch_size: 10", 4, 65537, 0, 0, 0, "world size 65537; want 1 to 65536 ranks"},
		{"{batch_size: 10, order: deterministic}", 4, 2, 4, 40, 20, ""},
		{"{batch_size: 10, order: deterministic}", 4, 8, 4, 40, 0, "world size 8 does not divide the 4 lanes"},
		{
			"{batch_size: 10, order: deterministic}",
			8193, 8193, 8193, 81930, 0, "lanes: order deterministic has 8193, one for each rank",
		},
		{"{batch_size: 10, order: deterministic, lanes: 8}", 4, 8, 8, 40, 5, ""},
		{
			"{batch_size: 10, order: deterministic, lanes: 8}",
			3, 3, 8, 30, 0, "world size 3 does not divide the 8 lanes",
		},
		{
			"{batch_size: 10, order: deterministic, lanes: 8}",
			1, 1, 8, 10, 0, "the 8 lanes of the deterministic order do not divide the 10 rows of a step",
		},
		{"{global_batch_size: 24, order: deterministic, lanes: 6}", 1, 3, 6, 24, 8, ""},
	} {
		s := mustParse(t, tc.text)
		if got := Lanes(s, tc.opened); got != tc.lanes {
			t.Errorf("%s: %d lanes, want %d", tc.text, got, tc.lanes)
		}
		if got := GlobalBatch(s, tc.opened); got != tc.global {
			t.Errorf("%s: %d rows a step, want %d", tc.text, got, tc.global)
		}
		got, err := BatchSize(s, tc.opened, tc.world)
		if got != tc.batch || (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s for %d ranks: %d, %v; want %d, %q", tc.text, tc.world, got, err, tc.batch, tc.says)
		}
	}
}

func TestSizesThatDoNotFit(t *testing.T) {
	for text, want := range map[string]string{
		"batch_size: 4\nglobal_batch_size: 8":  "global_batch_size: found 8, and batch_size 4; want one of them",
		"global_batch_size: -1":                "global_batch_size: found -1",
		"":                                     "batch_size: found 0; want the rows of a batch",
		"batch_size: 4\non_error: {skip: 300}": "on_error.skip: found 300; want 0 to 256",
		"batch_size: 4\nlanes: 2":              "lanes: found 2 in order fast",
		"global_batch_size: 9\norder: deterministic\nlanes: 2": "lanes: found 2, which do not " +
			"divide global_batch_size 9",
		"batch_size: 4\norder: deterministic\nlanes: 8193": "lanes: found 8193; want 1 to 8192",
		"batch_size: 4\nlast_batch: drop\non_error: {skip: 1}": "on_error.skip: found 1 with " +
			"last_batch: drop",
		"batch_size: 4\norder: deterministic\nlanes: 1\non_error: {skip: 2}": "on_error.skip: found 2 with order: " +
			"deterministic",
		"batch_size: 4\norder: deterministic\nlast_batch: pad\non_error: fail": "",
		"global_batch_size: 8\norder: fast\non_error: {skip: 2}":               "",
		"batch_size: 4\non_error: {skip_rows: 1000001}":                        "on_error.skip_rows: found 1000001; want 0 to 1000000 rows",
		"batch_size: 4\norder: deterministic\nlanes: 1\non_error: {skip_rows: 2}": "on_error.skip_rows: found 2 with " +
			"order: deterministic, where steps follow from rows that are counted before they are read, and counting " +
			"does not see null labels label; want a default of the label, order: fast with last_batch: pad or uneven",
		"batch_size: 4\nlast_batch: drop\non_error: {skip_rows: 1}": "on_error.skip_rows: found 1 with last_batch: drop",
		"batch_size: 4\non_error: {skip: 2, skip_rows: 1000000}":    "",
	} {
		_, err := Resolve(mustParse(t, "dataset: {uri: a}\n"+ok+text), Given{Schema: newSchema(), Catalog: newCatalog()})
		var problems Problems
		switch {
		case want == "":
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		case !errors.As(err, &problems) || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), want):
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestOnError(t *testing.T) {
	for text, want := range map[string]*pb.OnError{
		"on_error: fail": {}, "on_error: {skip: 3}": {Skip: 3}, "on_error:": nil, "{}": nil,
		"on_error: {skip_rows: 3}": {SkipRows: 3}, "on_error: {skip: 1, skip_rows: 3}": {Skip: 1, SkipRows: 3},
	} {
		s := mustParse(t, text)
		if !proto.Equal(s.GetOnError(), want) {
			t.Errorf("%s: got %v", text, s)
		}
		if len(Diff(s, &pb.Spec{})) != 0 && want.GetSkip()+want.GetSkipRows() == 0 {
			t.Errorf("%s differs from the default", text)
		}
	}
	_, err := Parse([]byte("on_error: skip"))
	compareProblems(t, err, []string{`on_error: found "skip" (line 1); want fail, or a mapping such as {skip: 3}`})
	if text, err := Format(mustParse(t, "on_error: {skip: 0}")); err != nil || string(text) != "on_error: fail\n" {
		t.Errorf("got %s, %v", text, err)
	}
}

// Bad rows may be left out with last_batch: drop, and in order deterministic, where counting sees all that may fail on
// one.
func TestSkippedRowsAreCounted(t *testing.T) {
	drop := mustParse(t, "last_batch: drop\non_error: {skip_rows: 2}")
	picture := &pb.Step{Op: "decode_jpeg", Name: "photo", Outs: 1, Type: &pb.Type{Kind: pb.Kind_PICTURE}}
	maps := &pb.Step{Op: "python", At: "transforms[1]", Outs: 1, Python: &pb.Function{Name: "f"}}
	keeps := &pb.Step{Op: "python", Python: &pb.Function{Name: "g", Kind: pb.FunctionKind_FILTER}}
	reads := &pb.Step{Op: "python", In: []uint32{4}, Python: &pb.Function{Name: "g", Kind: pb.FunctionKind_FILTER}}
	ordered := mustParse(t, "order: deterministic\non_error: {skip_rows: 2}")
	integer, ids := &pb.Type{Kind: pb.Kind_INT64}, &pb.Type{Kind: pb.Kind_INT64, List: true}
	filled := &pb.Source{Type: integer, Default: &pb.Value{Kind: &pb.Value_Int{Int: 1}}}
	sources := []*pb.Source{{Type: integer}, filled, {Type: ids}, {Type: &pb.Type{Kind: pb.Kind_FLOAT32}}}
	output := func(layout pb.Layout, slot uint32) *pb.Output {
		return &pb.Output{Name: "o", Layout: layout, Slots: []uint32{slot}}
	}
	weights := output(pb.Layout_SPARSE, 2)
	weights.Weights = proto.Uint32(2)
	tensor := output(pb.Layout_TENSOR, 0)
	tensor.Fill = filled.GetDefault()
	for _, c := range []struct {
		spec    *pb.Spec
		steps   []*pb.Step
		outputs []*pb.Output
		says    string
	}{
		{drop, []*pb.Step{{Op: "clamp", Outs: 1}, keeps}, nil, ""},
		{drop, []*pb.Step{maps, reads}, nil, ""},
		{drop, []*pb.Step{keeps, maps}, nil, "counting does not see where python f fails (transforms[1]); want last_batch: pad"},
		{ordered, []*pb.Step{keeps, maps}, nil, "python f fails (transforms[1]); want order: fast with last_batch: pad"},
		{drop, []*pb.Step{picture}, nil, "where decode_jpeg fails (photo)"},
		{drop, []*pb.Step{{Op: "score_sum", In: []uint32{0, 0, 0}, Outs: 1, At: "transforms[0]"}}, nil, "where score_sum fails"},
		{drop, nil, []*pb.Output{output(pb.Layout_LABEL, 0)}, "null labels o; want a default of the label, last_batch"},
		{drop, nil, []*pb.Output{output(pb.Layout_LABEL, 1), output(pb.Layout_LABEL, 3), tensor}, ""},
		{ordered, nil, []*pb.Output{output(pb.Layout_LABEL, 1), output(pb.Layout_SPARSE, 2)}, ""},
		{drop, []*pb.Step{{Op: "fill_null", Outs: 1, Type: integer}}, []*pb.Output{output(pb.Layout_LABEL, 4)}, ""},
		{drop, nil, []*pb.Output{output(pb.Layout_TENSOR, 2)}, "values of other shapes than that of tensor o"},
		{drop, nil, []*pb.Output{output(pb.Layout_TENSOR, 0)}, "nulls of tensor o; want a default of it"},
		{drop, nil, []*pb.Output{weights}, "more or fewer weights than ids of o"},
		{mustParse(t, "last_batch: pad\non_error: {skip_rows: 2}"), []*pb.Step{picture, maps}, nil, ""},
		{mustParse(t, "last_batch: drop"), []*pb.Step{picture, maps}, nil, ""},
	} {
		r := &resolver{}
		r.checkSkippedRows(c.spec, &pb.Program{Sources: sources, Steps: c.steps, Outputs: c.outputs})
		if err := r.problems.err(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v %v: got %v, want %q", c.steps, c.outputs, err, c.says)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, tc := range []struct {
		text   string
		opened uint32
		want   string
	}{
		{
			"batch_size: 10", 4,
			"fast: ranks get rows as they take them; batches of 10 rows for each rank; the last of an epoch are as " +
				"short as they are",
		},
		{
			"{global_batch_size: 10, last_batch: drop}",
			0,
			"fast: ranks get rows as they take them; steps of 10 rows over all ranks, whose number must divide that; " +
				"the last, shorter ones are left out, so that all ranks get equally many",
		},
		{
			"{batch_size: 10, order: deterministic, last_batch: pad}",
			0, "deterministic: the same global batches for every number of ranks that divides the lanes; " +
				"as many lanes as the session is opened with ranks; batches of 10 rows for each rank; the last ones are " +
				"padded, so that all ranks get equally many",
		},
		{
			"{batch_size: 10, order: deterministic}",
			4, "deterministic: the same global batches for every number of ranks that divides the lanes; " +
				"4 lanes; steps of 40 rows over all ranks; the last of an epoch are as short as they are",
		},
	} {
		if got := Describe(mustParse(t, tc.text), tc.opened); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.text, got, tc.want)
		}
	}
}

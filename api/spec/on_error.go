package spec

import (
	"cmp"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	maxSkip     = 256
	maxSkipRows = 1_000_000
)

// checkOnError checks what is to become of rows that cannot be read.
func (r *resolver) checkOnError(s *pb.Spec) {
	switch n := s.GetOnError().GetSkip(); {
	case n > maxSkip:
		r.problems.add("on_error.skip",
			"found %d; want 0 to %d row groups: each that is left out is listed as long as the session lives",
			n, maxSkip)
	case n > 0 && Counted(s):
		with := "last_batch: drop"
		if s.GetOrder() == pb.Order_DETERMINISTIC {
			with = "order: deterministic"
		}
		r.problems.add("on_error.skip",
			"found %d with %s, where steps follow from rows that are counted before they are read: "+
				"rows that are left out would break them; want on_error: fail, and files that cannot be "+
				"read out of the "+
				"dataset", n, with)
	}
	if n := s.GetOnError().GetSkipRows(); n > maxSkipRows {
		r.problems.add("on_error.skip_rows", "found %d; want 0 to %d rows of an epoch", n, maxSkipRows)
	}
}

// checkSkippedRows refuses bad rows that counting does not see, where steps follow from it. Counting runs what decides
// which rows there are, and nothing else; and it decodes records, where files have such.
func (r *resolver) checkSkippedRows(s *pb.Spec, p *pb.Program) {
	if s.GetOnError().GetSkipRows() == 0 || !Counted(s) {
		return
	}
	unseen, instead := unseenStep(p), ""
	if unseen == "" {
		unseen, instead = unseenOutput(p)
	}
	if unseen == "" {
		return
	}
	with, want := "last_batch: drop", "last_batch: pad or uneven"
	if s.GetOrder() == pb.Order_DETERMINISTIC {
		with, want = "order: deterministic", "order: fast with last_batch: pad or uneven"
	}
	r.problems.add("on_error.skip_rows",
		"found %d with %s, where steps follow from rows that are counted before they are read, and counting does not see "+
			"%s; want %s%s, or on_error: fail", s.GetOnError().GetSkipRows(), with, unseen, instead, want)
}

// unseenStep names a step that may fail on a row, and that counting does not run.
func unseenStep(p *pb.Program) string {
	decides, _ := Deciding(p)
	for i, st := range p.GetSteps() {
		name := st.GetOp()
		switch f := st.GetPython(); {
		case decides[i]:
			continue
		case f != nil:
			name += " " + f.GetName()
		case st.GetType().GetKind() == pb.Kind_PICTURE:
		case !TakesScores(st.GetOp()) || len(st.GetIn()) < 2:
			continue
		}
		return fmt.Sprintf("where %s fails (%s)", name, cmp.Or(st.GetAt(), st.GetName()))
	}
	return ""
}

// TakesScores reports whether an op fails on rows that have more or fewer scores than ids, if it gets both.
func TakesScores(op string) bool {
	switch op {
	case "cosine_similarity", "score_sum", "score_min", "score_max", "sort_by_score":
		return true
	}
	return false
}

// unseenOutput names what may have no place in an output, and what to do about it.
func unseenOutput(p *pb.Program) (unseen, instead string) {
	for _, o := range p.GetOutputs() {
		t, filled := outputType(p, o.GetSlots()[0])
		switch layout := o.GetLayout(); {
		case layout == pb.Layout_LABEL && t.Kind != pb.Kind_FLOAT32 && t.Kind != pb.Kind_FLOAT64 && !filled:
			return "null labels " + o.GetName(), "a default of the label, "
		case layout == pb.Layout_TENSOR && !t.List && t.Kind != pb.Kind_BINARY && o.GetFill() == nil && !filled:
			return "nulls of tensor " + o.GetName(), "a default of it, "
		case layout == pb.Layout_TENSOR && (t.List || t.Kind == pb.Kind_BINARY):
			return "values of other shapes than that of tensor " + o.GetName(), ""
		case layout == pb.Layout_IMAGE:
			return "values of other shapes than that of image " + o.GetName(), ""
		case o.Weights != nil && t.List:
			return "more or fewer weights than ids of " + o.GetName(), ""
		}
	}
	return "", ""
}

// outputType is the type of a slot, and whether it has a value in each row, as far as the program tells.
func outputType(p *pb.Program, slot uint32) (t Type, filled bool) {
	if sources := p.GetSources(); int(slot) < len(sources) {
		return TypeFromProto(sources[slot].GetType()), sources[slot].GetDefault() != nil
	}
	for i, first := range FirstSlots(p) {
		st := p.GetSteps()[i]
		switch at := slot - first; {
		case slot < first || at >= st.GetOuts():
			continue
		case at > 0:
			return TypeFromProto(st.GetMore()[at-1]), false
		}
		return TypeFromProto(st.GetType()), st.GetOp() == "fill_null"
	}
	return Type{}, false
}

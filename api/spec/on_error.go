package spec

import (
	"cmp"

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
	switch n := s.GetOnError().GetSkipRows(); {
	case n > maxSkipRows:
		r.problems.add("on_error.skip_rows", "found %d; want 0 to %d rows of an epoch", n, maxSkipRows)
	case n > 0 && s.GetOrder() == pb.Order_DETERMINISTIC:
		r.problems.add("on_error.skip_rows",
			"found %d with order: deterministic, where a rank's rows follow from what is counted before they are "+
				"read; want order: fast, or on_error: fail and the bad rows out of the files", n)
	}
}

// checkSkippedRows refuses bad rows that counting does not see, where steps follow from it: counting runs what decides
// which rows there are, and nothing else.
func (r *resolver) checkSkippedRows(s *pb.Spec, p *pb.Program) {
	if s.GetOnError().GetSkipRows() == 0 || !Counted(s) {
		return
	}
	decides, _ := Deciding(p)
	for i, st := range p.GetSteps() {
		if decides[i] || st.GetPython() == nil && st.GetType().GetKind() != pb.Kind_PICTURE {
			continue
		}
		name := st.GetOp()
		if f := st.GetPython(); f != nil {
			name += " " + f.GetName()
		}
		r.problems.add("on_error.skip_rows",
			"found %d with last_batch: drop, where steps follow from rows that are counted before they are read, and "+
				"counting does not run %s (%s), which may fail on a row; want last_batch: pad or uneven, or "+
				"on_error: fail",
			s.GetOnError().GetSkipRows(), name, cmp.Or(st.GetAt(), st.GetName()))
		return
	}
}

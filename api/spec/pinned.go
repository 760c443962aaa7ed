package spec

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// anew is how refusals of what is not pinned end.
const anew = ", or train with what is here and pin the spec anew"

// PinTo returns a copy of a spec that is pinned to a program of it: serving by it is refused where an op, a side table
// or a function by name is another one. A spec's code says which functions there are.
func PinTo(s *pb.Spec, p *pb.Program) *pb.Spec {
	out := proto.CloneOf(s)
	before := out.GetPinned()
	out.Pinned = &pb.Pinned{Ops: map[string]uint32{}, Functions: before.GetFunctions()}
	for _, st := range p.GetSteps() {
		out.Pinned.Ops[st.GetOp()] = st.GetVersion()
		if st.GetOp() != LookupRowOp || int(st.GetTable()) >= len(p.GetTables()) {
			continue
		}
		of := p.GetTables()[st.GetTable()]
		f := of.GetFile()
		t := &pb.PinnedTable{Uri: f.GetUri(), Storage: of.GetStorage(), Size: f.GetSize(), Etag: f.GetEtag()}
		t.Digest = pinnedTable(before, s.GetDataset().GetStorage(), t).GetDigest() // it was held against that
		if t.GetStorage() == s.GetDataset().GetStorage() {
			t.Storage = ""
		}
		if pinnedTable(out.Pinned, s.GetDataset().GetStorage(), t) == nil {
			out.Pinned.Tables = append(out.Pinned.Tables, t)
		}
	}
	if c := s.GetCode(); c != nil && ByName(s) {
		out.Code, out.Pinned.Functions = nil, map[string]string{}
		for _, f := range c.GetFunctions() {
			out.Pinned.Functions[f.GetName()] = DigestText(f.GetDigest())
		}
		for _, t := range out.GetTransforms() { // what marks alone say, the mark of the same function says again
			if f := t.GetPython(); f != nil {
				f.Name, f.Index, f.Deterministic, f.Rng = "", 0, false, false
			}
		}
	}
	return out
}

// PinnedSession is the spec that a session was opened with, pinned to what it was resolved to.
func PinnedSession(of *pb.Session) (*pb.Spec, error) {
	p := &pb.Program{}
	if err := proto.Unmarshal(of.GetProgram(), p); err != nil {
		return nil, fmt.Errorf("the program of session %s: %w", of.GetId(), err)
	}
	out := PinTo(of.GetSpec(), p)
	if out.GetEpochs() == Unlimited {
		out.Epochs = 0
	}
	if of.GetDefaultLastBatch() {
		out.LastBatch = pb.LastBatch_LAST_BATCH_UNSPECIFIED
	}
	return out, nil
}

// HeldTo returns a session's spec as if it had been opened with the pins of another one, to compare the two: pins say
// what a session was resolved to anyway. Digests of tables, which it may not know, are those of the pins.
func HeldTo(of *pb.Session, pins *pb.Pinned) (*pb.Spec, error) {
	out := proto.CloneOf(of.GetSpec())
	if pins == nil {
		return out, nil
	}
	out.Pinned = proto.CloneOf(pins)
	resolved, err := PinnedSession(&pb.Session{Id: of.GetId(), Spec: out, Program: of.GetProgram()})
	if err != nil {
		return nil, err
	}
	out.Pinned = resolved.GetPinned()
	if len(pins.GetFunctions()) == 0 {
		out.Pinned.Functions = nil
	}
	return out, nil
}

// pinnedTable finds a table of the same name, where a profile that is left out is the dataset's.
func pinnedTable(in *pb.Pinned, profile string, like *pb.PinnedTable) *pb.PinnedTable {
	i := slices.IndexFunc(in.GetTables(), func(t *pb.PinnedTable) bool {
		return t.GetUri() == like.GetUri() &&
			cmp.Or(t.GetStorage(), profile) == cmp.Or(like.GetStorage(), profile)
	})
	if i < 0 {
		return nil
	}
	return in.GetTables()[i]
}

// checkPins reports which ops and functions of a program are others than the spec is pinned to, and of which tables it
// says nothing. Whether those are the same, is for who reads them.
func (r *resolver) checkPins(s *pb.Spec, p *pb.Program) {
	pinned := s.GetPinned()
	if pinned == nil {
		return
	}
	told := map[string]bool{}
	for _, st := range p.GetSteps() {
		op := st.GetOp()
		want, ok := pinned.GetOps()[op]
		switch {
		case told[op] || ok && want == st.GetVersion():
		case !ok:
			r.problems.add(st.GetAt(), "runs op %s of version %d, and the spec is pinned without it; pin the spec anew",
				op, st.GetVersion())
		default:
			r.problems.add(st.GetAt(), "op %s is of version %d here, and the spec is pinned to version %d; use the "+
				"release, or the ops, of the training"+anew, op, st.GetVersion(), want)
		}
		told[op] = true
		if op == LookupRowOp {
			r.checkPinnedTable(st, p.GetTables()[st.GetTable()].GetFile())
		}
	}
	checkFunctions(&r.problems, s, s.GetCode())
}

func (r *resolver) checkPinnedTable(st *pb.Step, f *pb.File) {
	for _, side := range r.tables {
		if side.File == f && !side.Pinned {
			r.problems.add(st.GetAt()+".table", "the spec is pinned, and says nothing of %s; pin it anew, or name the "+
				"table of the training", f.GetUri())
		}
	}
}

// checkFunctions reports which functions by name are others than a spec is pinned to, as far as it is known which ones
// there are.
func checkFunctions(problems *Problems, s *pb.Spec, has *pb.Code) {
	pinned := s.GetPinned().GetFunctions()
	if len(pinned) == 0 || !ByName(s) {
		return
	}
	told := map[string]bool{}
	for _, f := range has.GetFunctions() {
		name, digest := f.GetName(), DigestText(f.GetDigest())
		want, ok := pinned[name]
		if told[name] || digest == want {
			continue
		}
		told[name] = true
		if !ok {
			problems.add("pinned.functions", "the spec is pinned without %s; pin it anew", name)
			continue
		}
		problems.add("pinned.functions", "%s is %s here, and the spec is pinned to %s: its files, or those that it "+
			"imports, are others; use the modules of the training"+anew, name, digest, want)
	}
}

// DigestText is a SHA-256 as specs have it: "sha256:" and hexadecimal digits.
func DigestText(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

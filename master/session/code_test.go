package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func codeOf(does byte) *pb.Code {
	return &pb.Code{Digest: slices.Repeat([]byte{does}, 32), Python: "3.12"}
}

// ofCode is a job as another one, whose session has functions that do something, and the states of its ranks.
func ofCode(t *testing.T, does byte) (*job, []Checkpoint) {
	t.Helper()
	j, states := twoRanks(t)
	j.s.id.Code = codeOf(does)
	for i := range states {
		states[i].Code = codeOf(does)
	}
	return j, states
}

func TestRestoreOfOtherCode(t *testing.T) {
	for name, change := range map[string]func(*Checkpoint){
		"other functions": func(c *Checkpoint) { c.Code = codeOf(2) },
		"none":            func(c *Checkpoint) { c.Code = nil },
		"another python":  func(c *Checkpoint) { c.Code = codeOf(1); c.Code.Python = "3.11" },
	} {
		j, states := ofCode(t, 1)
		change(&states[1])
		j.refuses(restoring(0, 1, "x", states...), ErrRestore, "accept_code_change")
		accepted := restoring(0, 1, "x", states...)
		accepted.AcceptCode = true
		if r := j.do(accepted); r.Kind != pb.JoinKind_RESTORED || len(r.OtherCode) == 0 {
			t.Errorf("%s: accepted: %+v", name, r)
		}
	}
	j, states := ofCode(t, 1)
	accepted := restoring(0, 1, "x", states...)
	accepted.AcceptCode = true
	if r := j.do(accepted); r.Kind != pb.JoinKind_RESTORED || len(r.OtherCode) > 0 {
		t.Errorf("the same: %+v", r)
	}
}

// TestOtherCodeIsToldByWhoEndsTheRestore holds that what one rank accepts is known when the last one comes, to another
// master.
func TestOtherCodeIsToldByWhoEndsTheRestore(t *testing.T) {
	j, states := ofCode(t, 1)
	states[0].Code = codeOf(2)
	first := restoring(0, 2, "x", states[0])
	j.refuses(first, ErrRestore, "rank 0 is of other Python functions")
	first.AcceptCode = true
	if r := j.do(first); r.Kind != pb.JoinKind_JOIN_KIND_UNSPECIFIED || len(r.OtherCode) > 0 {
		t.Errorf("the first: %+v", r)
	}
	j.s = j.reload()
	last := restoring(1, 2, "y", states[1])
	r := j.do(last)
	if r.Kind == pb.JoinKind_JOIN_KIND_UNSPECIFIED { // until the first has called again
		r = j.do(first)
	}
	if r.Kind != pb.JoinKind_RESTORED || !strings.Contains(strings.Join(r.OtherCode, ""), "code") {
		t.Errorf("the last: %+v", r)
	}
}

// TestCodeOfACheckpoint holds that a named checkpoint says of which functions it is.
func TestCodeOfACheckpoint(t *testing.T) {
	j := two(t)
	j.s.id.Code = codeOf(1)
	j.do(CreateCheckpoint{Name: "noon", Nonce: "n", Now: 7})
	for r := range uint32(2) {
		c := j.part(r, j.do(j.got(r, 0)).Order, shard(0, 0, r))
		j.refuses(c, ErrRestore, "other Python functions") // a part without
		c.Part.State.Code = codeOf(1)
		j.do(c)
	}
	n := j.s.Named("noon")
	if n == nil || string(n.Proto().GetState().GetCode().GetDigest()) != string(codeOf(1).GetDigest()) {
		t.Fatalf("the checkpoint is %+v", n)
	}
	j.do(Restore{Checkpoint: Named{Name: "noon"}, Nonce: "x"})
	j.s.id.Code = codeOf(2)
	j.refuses(Restore{Checkpoint: Named{Name: "noon"}, Nonce: "y"}, ErrRestore, "other Python functions")
}

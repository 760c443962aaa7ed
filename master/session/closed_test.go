package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// endings are sessions of two epochs with each way to end one.
var endings = map[string]Identity{
	"uneven": {}, "pad": {LastBatch: pb.LastBatch_PAD}, "drop": {LastBatch: pb.LastBatch_DROP, BatchSize: 10},
	"lanes": {Lanes: 2, GlobalBatch: 4},
}

// ended is a session whose epochs are closed.
func ended(t *testing.T, id Identity) (*State, Identity) {
	t.Helper()
	id.Session, id.Epochs, id.FirstWorldSize = "s", 2, 2
	s, err := New(id)
	if err != nil {
		t.Fatal(err)
	}
	must(t, s, Restore{Nonce: "n", World: 2, Checkpoint: Named{Name: "end", Step: 7, World: 2, State: Checkpoint{
		Version: checkpointVersion, Session: "another", Generation: 1, World: 1, Closed: 2, GlobalBatch: id.GlobalBatch,
		Start: LaneStart{Epoch: 2, Rows: make([]uint64, id.Lanes)},
	}}})
	if !s.Finished() {
		t.Fatal("the test does not end the session")
	}
	return s, id
}

// TestAClosedSessionAnswersWhoComesLate holds that a rank that comes when all is over is told so, with any ending, and
// that one of before is fenced, if it does not just leave.
func TestAClosedSessionAnswersWhoComesLate(t *testing.T) {
	for name, id := range endings {
		t.Run(name, func(t *testing.T) {
			open, id := ended(t, id)
			reopened := func() *State {
				t.Helper()
				s, err := Reopened(id, open.Remains(), nil)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			before, live := reopened().Generation(), must(t, open, Join{Rank: 1, World: 2, Nonce: "late"})
			if want := open.Generation() + 1; before != want {
				t.Errorf("generation %d, want %d", before, want)
			}
			joined := must(t, reopened(), Join{Rank: 1, World: 2, Nonce: "late"})
			if joined.Closed != 2 || joined.Begun != live.Begun || joined.Kind != pb.JoinKind_FRESH ||
				len(joined.Starts) != len(live.Starts) {
				t.Errorf("joined: %+v, want what it is told while the session is open: %+v", joined, live)
			}
			sync := Sync{
				Rank: 1, Generation: joined.Generation, Incarnation: joined.Incarnation, Nonce: "late",
				Steps: &joined.Begun,
			}
			if r, err := reopened().Late(sync); err != nil || !r.Finished || r.Closed != 2 ||
				len(r.Grants)+len(r.Pieces) > 0 {
				t.Errorf("Sync: %+v, %v", r, err)
			}
			sync.Generation = open.Generation()
			if _, err := reopened().Late(sync); !errors.Is(err, ErrFenced) {
				t.Errorf("a rank of before: %v, want it fenced", err)
			}
			sync.Leave = true
			if r, err := reopened().Late(sync); err != nil || !r.Finished || r.Generation != sync.Generation ||
				r.Incarnation != sync.Incarnation {
				t.Errorf("a rank of before that leaves: %+v, %v", r, err)
			}
		})
	}
}

// TestWhatRemainsOfAFailedSession holds that it is small whatever the session had, says why it failed, and can be
// restored.
func TestWhatRemainsOfAFailedSession(t *testing.T) {
	for name, id := range endings {
		t.Run(name, func(t *testing.T) {
			id.Skip = 100
			open, id := ended(t, id)
			state := Checkpoint{
				Version: checkpointVersion, Session: "s", Generation: 1, World: 1, GlobalBatch: id.GlobalBatch,
				Start: LaneStart{Rows: make([]uint64, id.Lanes)},
			}
			noon := Named{Name: "noon", Step: 3, World: 2, State: state}
			must(t, open, Restore{Checkpoint: noon, Nonce: "m"})
			for i := range uint32(100) {
				open.base = open.base.Union(position.Set{shard(0, 0, 2*i)})
				open.skipped = append(open.skipped, Skipped{
					File: "s3://bucket/file.parquet", RowGroup: i,
					Set: position.Set{shard(0, 0, 2*i)},
				})
			}
			fails(t, open, Fail{Reason: "bad file", BadData: true})
			remains := open.Remains()
			if n := proto.Size(remains); n > 700 {
				t.Errorf("%d bytes remain: %v", n, remains)
			}
			s, err := Reopened(id, remains, []*pb.Checkpoint{noon.Proto()})
			if err != nil {
				t.Fatal(err)
			}
			if list, n := s.Skipped(); len(list) != maxSkippedKept || n != 100 || s.Failure() != "bad file" ||
				!s.BadData() || !s.Over() {
				t.Errorf("%d of %d skipped row groups are named, failure %q", len(list), n, s.Failure())
			}
			if _, _, err := s.Apply(Join{Rank: 0, World: 2, Nonce: "a"}); !errors.Is(err, ErrFailed) ||
				!strings.Contains(err.Error(), "bad file") {
				t.Errorf("a rank that joins: %v", err)
			}
			if r, err := s.Late(Sync{Rank: 0, Generation: 1, Incarnation: 1, Nonce: "old"}); err != nil ||
				r.Failure != "bad file" || !r.BadData {
				t.Errorf("a rank of before is told %+v, %v", r, err)
			}
			if _, _, ok := s.NeedsPlan(); ok {
				t.Error("it is planned")
			}
			was := s.Generation()
			must(t, s, Restore{Checkpoint: Named{Name: "noon"}, Nonce: "again"})
			if must(t, s, Join{Rank: 0, World: 2, Nonce: "a"}).Closed != 0 || s.Generation() <= was || s.Over() ||
				s.From().Name != "noon" {
				t.Errorf("restored: generation %d, from %+v", s.Generation(), s.From())
			}
		})
	}
}

// summarized holds that what remains of a session, wherever it is, says what can be seen of it.
func summarized(s *State) error {
	again, err := Reopened(s.id, s.Remains(), nil)
	if err != nil {
		return fmt.Errorf("what remains cannot be read: %w", err)
	}
	_, skipped := s.Skipped()
	if _, n := again.Skipped(); n != skipped || again.World() != s.World() || again.Closed() != s.Closed() ||
		again.Failure() != s.Failure() {
		return fmt.Errorf("what remains says: %d ranks, %d epochs closed, %d row groups skipped, failure %q",
			again.World(), again.Closed(), n, again.Failure())
	}
	if !s.Between() && again.From() != s.From() {
		return fmt.Errorf("what remains says that it was restored from %+v, not %+v", again.From(), s.From())
	}
	return nil
}

// fails is must for a state that no session comes to by itself.
func fails(t *testing.T, s *State, c Command) {
	t.Helper()
	if _, _, err := s.Apply(c); err != nil {
		t.Fatal(err)
	}
}

// TestLeft holds when a session has been left: when those who ever came are gone by themselves.
func TestLeft(t *testing.T) {
	j := newJob(t, 3, 1)
	if j.s.Left() {
		t.Error("nobody has come yet")
	}
	j.join(0, "a")
	j.join(1, "b")
	leave := func(rank uint32) {
		s := j.sync(rank)
		s.Leave = true
		j.do(s)
	}
	leave(0)
	j.do(Expire{Rank: 1, Incarnation: 1})
	if j.s.Left() {
		t.Error("a rank whose lease ended may come back")
	}
	leave(1)
	if !j.s.Left() {
		t.Error("both have left")
	}
	j.do(Join{Rank: 0, World: 2, Nonce: "c", Restoring: true})
	if j.s.Left() {
		t.Error("a restore waits for its other rank")
	}
}

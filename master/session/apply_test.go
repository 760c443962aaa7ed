package session

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// job drives a State in a test and checks what always holds.
type job struct {
	*testing.T
	s *State
}

func newJob(t *testing.T, world, epochs uint32) *job {
	t.Helper()
	id := testID
	id.Epochs, id.FirstWorldSize = epochs, world
	s, err := New(id)
	if err != nil {
		t.Fatal(err)
	}
	return &job{T: t, s: s}
}

func (j *job) do(c Command) Reply {
	j.Helper()
	r, _, err := j.s.Apply(c)
	if err != nil {
		j.Fatalf("%T: %v", c, err)
	}
	if err := j.s.Check(); err != nil {
		j.Fatalf("after %T: %v", c, err)
	}
	if back := j.reload(); !reflect.DeepEqual(back, j.s) {
		if diff := cmp.Diff(j.s, back, comparing); diff != "" {
			j.Fatalf("after %T: the state read back differs: -want +got:\n%s", c, diff)
		}
	}
	return r
}

// refuses expects an error of a kind that says something, and that nothing changed.
func (j *job) refuses(c Command, kind error, says string) {
	j.Helper()
	before := j.reload()
	_, ch, err := j.s.Apply(c)
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
		j.Errorf("%T: got error %v, want %v that says %q", c, err, kind, says)
	}
	if !ch.Empty() {
		j.Errorf("%T: refused, but changed %+v", c, ch)
	}
	if diff := cmp.Diff(before, j.s, comparing); diff != "" {
		j.Errorf("%T: refused, but changed: -before +after:\n%s", c, diff)
	}
}

func (j *job) reload() *State {
	j.Helper()
	ranks := map[uint32]*pb.SessionRank{}
	for r := range uint32(max(8, len(j.s.ranks))) {
		if m := j.s.Rank(r); m != nil {
			ranks[r] = m
		}
	}
	var named []*pb.Checkpoint
	for _, n := range j.s.named {
		named = append(named, n.Proto())
	}
	s, err := Load(j.s.id, j.s.Head(), ranks, nil, named)
	if err != nil {
		j.Fatal(err)
	}
	return s
}

func (j *job) plan(epoch, block, blocks, shards uint32) {
	j.Helper()
	j.do(Planned{Epoch: epoch, Block: block, Blocks: blocks, Shards: shards, Rows: 10 * int64(shards)})
}

func (j *job) join(r uint32, nonce string) Reply {
	j.Helper()
	return j.do(Join{Rank: r, World: j.s.World(), Nonce: nonce})
}

// sync is a Sync of a rank's present start.
func (j *job) sync(r uint32, consumed ...position.Interval) Sync {
	k := j.s.ranks[r]
	return Sync{
		Rank: r, Generation: j.s.generation, Incarnation: k.incarnation, Nonce: k.nonce,
		Consumed: position.NewSet(consumed...),
	}
}

func (j *job) more(r uint32, consumed ...position.Interval) []position.Interval {
	j.Helper()
	c := j.sync(r, consumed...)
	c.WantsMore = true
	return j.do(c).Grants
}

// pos is a position of a shard's start.
func pos(epoch, block, shard uint32) position.Position {
	return position.Position{Epoch: epoch, Block: block, Shard: shard}
}

func shard(epoch, block, s uint32) position.Interval {
	return position.Interval{From: pos(epoch, block, s), To: pos(epoch, block, s+1)}
}

func TestNew(t *testing.T) {
	for _, id := range []Identity{{Epochs: 1}, {FirstWorldSize: 1}, {Epochs: 1, FirstWorldSize: maxWorld + 1}} {
		if _, err := New(id); err == nil {
			t.Errorf("%+v was accepted", id)
		}
	}
}

func TestFencing(t *testing.T) {
	j := newJob(t, 2, 1)
	j.plan(0, 0, 1, 4)
	j.join(0, "a")
	j.join(0, "b")
	stale := Sync{Rank: 0, Generation: 1, Incarnation: 1}
	j.refuses(stale, ErrFenced, "generation 1, incarnation 2")
	var fenced *FencedError
	if _, _, err := j.s.Apply(stale); !errors.As(err, &fenced) || fenced.Generation != 1 || fenced.Incarnation != 2 ||
		fenced.Expired {
		t.Errorf("got %+v", fenced)
	}
	j.refuses(Sync{Rank: 0, Generation: 2, Incarnation: 1}, ErrInvalid, "etcd is older")
	j.refuses(Sync{Rank: 0, Generation: 1, Incarnation: 3}, ErrInvalid, "etcd is older")
	j.refuses(Sync{Rank: 1, Generation: 1, Incarnation: 1}, ErrInvalid, "call Join first")
	j.refuses(Sync{Rank: 9, Generation: 1, Incarnation: 1}, ErrInvalid, "call Join first")
}

// A trainer that outlived its session cannot speak for one of the same id that was opened since, though both count from
// 1.
func TestFencingOfADeletedSession(t *testing.T) {
	var late []Sync
	for _, nonce := range []string{"a", "b"} {
		j := newJob(t, 1, 1)
		j.plan(0, 0, 1, 4)
		j.join(0, nonce)
		late = append(late, j.sync(0, j.more(0)...))
		for _, c := range late[:len(late)-1] {
			j.refuses(c, ErrFenced, "opened anew")
		}
		j.s = j.reload()
		j.do(late[len(late)-1])
	}
}

func TestRefusals(t *testing.T) {
	j := newJob(t, 2, 2)
	j.plan(0, 0, 2, 4)
	j.join(0, "a")
	j.more(0)
	held := j.s.ranks[0].held[0]
	j.refuses(Join{Rank: 0, World: 2}, ErrInvalid, "nonce")
	j.refuses(Join{Rank: 2, World: 2, Nonce: "x"}, ErrInvalid, "rank 2 of 2")
	j.refuses(Join{Rank: 2, World: 3, Nonce: "x"}, ErrInvalid, "collective restore")
	j.refuses(Join{Rank: 0, World: maxWorld + 1, Nonce: "x", Restoring: true}, ErrInvalid, "world size")
	j.refuses(Planned{Epoch: 0, Block: 2, Blocks: 2}, ErrInvalid, "2 blocks")
	j.refuses(Planned{Epoch: 2, Block: 0, Blocks: 2}, ErrInvalid, "2 epochs")
	j.refuses(Planned{Epoch: 0, Block: 1, Blocks: 3}, ErrInvalid, "earlier one said 2")
	j.refuses(Planned{Epoch: 0, Block: 0, Blocks: 2, Shards: 5}, ErrInvalid, "with 4 shards, and now with 5")
	j.refuses(Recall{Rank: 1}, ErrInvalid, "has not joined")
	j.refuses(j.sync(0, position.Interval{From: held.From, To: pos(0, 0, 4)}), ErrInvalid, "does not hold")
	c := j.sync(0, position.Interval{From: held.To, To: pos(0, 0, 2)})
	c.Leave, c.WantsMore, c.Counters = true, true, Counters{Rows: 7}
	j.refuses(c, ErrInvalid, "does not hold")
	j.do(Fail{Reason: "file x is corrupt"})
	j.do(Fail{Reason: "later"})
	j.refuses(Join{Rank: 1, World: 2, Nonce: "x"}, ErrFailed, "file x is corrupt")
	if r := j.do(j.sync(0)); r.Failure != "file x is corrupt" {
		t.Errorf("got failure %q", r.Failure)
	}
}

// Why a session fails may come from a file: whatever bytes these are, and however many, etcd takes them.
func TestAnyReasonCanBeKept(t *testing.T) {
	j := newJob(t, 1, 1)
	j.do(Fail{Reason: "column \xff" + strings.Repeat("x", 1<<20)})
	kept, err := proto.Marshal(j.s.Head())
	if err != nil || len(kept) > 2*maxReason || !strings.HasPrefix(j.s.Failure(), "column \uFFFDx") {
		t.Errorf("the head has %d bytes (%v), and the reason begins with %.20q", len(kept), err, j.s.Failure())
	}
}

func TestLateAndRepeatedCalls(t *testing.T) {
	j := newJob(t, 1, 1)
	j.plan(0, 0, 1, 8)
	j.join(0, "a")
	j.more(0)
	first, second := shard(0, 0, 0), shard(0, 0, 1)
	j.do(j.sync(0, first, second))
	before := j.reload()
	j.do(j.sync(0, first)) // sent earlier
	j.do(j.sync(0))
	j.join(0, "a")
	if diff := cmp.Diff(before, j.s, comparing); diff != "" {
		t.Errorf("late calls changed: -before +after:\n%s", diff)
	}
	c := j.sync(0, first, second)
	c.Leave = true
	j.do(c)
	before = j.reload()
	for _, late := range []Sync{c, j.sync(0, first)} {
		late.WantsMore = true
		if r := j.do(late); len(r.Grants) > 0 {
			t.Errorf("a rank that left was granted %v", r.Grants)
		}
	}
	if diff := cmp.Diff(before, j.s, comparing); diff != "" {
		t.Errorf("calls after leaving changed: -before +after:\n%s", diff)
	}
	if r := j.join(0, "b"); r.Kind != pb.JoinKind_FRESH || len(r.Consumed) > 0 || len(r.Base) != 1 ||
		r.Incarnation != 2 {
		t.Errorf("joined again: %+v", r)
	}
}

func TestRejoin(t *testing.T) {
	j := newJob(t, 2, 1)
	j.plan(0, 0, 1, 8)
	j.join(0, "a")
	j.more(0)
	half := position.Interval{From: pos(0, 0, 0), To: position.Position{Window: 2, K: 3}}
	j.do(j.sync(0, half))
	r := j.join(0, "b")
	if r.Kind != pb.JoinKind_REJOIN || !r.Consumed.Equal(position.Set{half}) || r.Incarnation != 2 {
		t.Fatalf("rejoined: %+v", r)
	}
	j.join(1, "c")
	want := []position.Interval{{From: half.To, To: pos(0, 0, 1)}}
	if got := j.more(1); !slices.Equal(got, want) {
		t.Errorf("the returned rest was granted as %v, want %v", got, want)
	}
}

func TestConsumedPlacesAreMadeCanonical(t *testing.T) {
	j := newJob(t, 1, 1)
	j.plan(0, 0, 2, 2)
	j.plan(0, 1, 2, 1)
	j.join(0, "a")
	for range 3 {
		j.more(0)
	}
	j.do(j.sync(0, position.Interval{To: pos(0, 0, 2)}))
	if r := j.do(j.sync(0, position.Interval{To: pos(0, 0, 2)},
		position.Interval{From: pos(0, 1, 0), To: pos(0, 2, 0)})); !r.Finished {
		t.Errorf("not finished: %v", j.s.Held(0))
	}
}

package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

// TestModelFindsBugsInQuarantine shows that the model can fail where data are bad.
func TestModelFindsBugsInQuarantine(t *testing.T) {
	findsBugs(t, 20000, bugsInQuarantine(), func(seed uint64, execute executor) error {
		c := chaos{steps: 150, bad: true, deaths: true, restores: true, execute: execute}
		if seed%2 == 0 { // long enough to meet a part again that went round
			c = chaos{steps: 400, bad: true, execute: execute}
		}
		return run(rand.New(rand.NewPCG(seed, 0)).IntN, c)
	})
}

func bugsInQuarantine() map[string]executor {
	return map[string]executor{
		"late reports count": func(s *State, c Command) (Reply, Changes, error) {
			var ch Changes
			if q, ok := c.(Sync); ok {
				if k, err := q.fence(s); err == nil {
					q.Revision = s.revision(k)
					quarantine{s}.refused(q, k, &ch)
				}
			}
			r, more, err := s.Apply(c)
			return r, ch.Merge(more), err
		},
		"what was skipped is granted again": behind(func(s *State, _ Command, _ *Reply) {
			for _, k := range s.skipped {
				again := k.Set.Intersect(s.base)
				s.base, s.returned = s.base.Subtract(again), s.returned.Union(again)
			}
			s.skipped = nil
		}),
		"the rest of the shard is skipped": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Sync); ok {
				for i := range q.Refused {
					at := q.Refused[i].At
					q.Refused[i].End = position.Position{Epoch: at.Epoch, Block: at.Block, Shard: at.Shard + 1}
				}
			}
			return s.Apply(c)
		},
		"one extent too many is skipped": func(s *State, c Command) (Reply, Changes, error) {
			s.id.Skip++
			defer func() { s.id.Skip-- }()
			return s.Apply(c)
		},
		"what was skipped is not listed": behind(func(s *State, _ Command, _ *Reply) { s.skipped = nil }),
		"a restore forgets what was skipped before": behind(func(s *State, c Command, _ *Reply) {
			if q, ok := c.(Join); ok && q.Restoring {
				s.skipped = nil
			}
		}),
	}
}

// window is the start of a window of a shard of the first block.
func window(shard, window uint32) position.Position {
	return position.Position{Shard: shard, Window: window}
}

// badShard is a job of one rank, which holds the shards of one block, and the refusal of the second row group of the
// first.
func badShard(t *testing.T, skip, epochs uint32) (*job, Refusal) {
	t.Helper()
	j := newJob(t, 1, epochs)
	j.s.id.Skip = skip
	j.plan(0, 0, 1, 2)
	j.join(0, "a")
	for len(j.s.Held(0)) < 2 {
		j.more(0)
	}
	return j, Refusal{
		At: window(0, 2), End: window(0, 4), File: "s3://b/part-7", Index: 7, RowGroup: 1, FirstRow: 20, Rows: 20,
		Words: "s3://b/part-7 extent 1 column price: page at byte 4: its checksum does not fit",
	}
}

// report is a Sync of rank 0 that knows of all that the rank holds.
func (j *job) report(refused ...Refusal) Sync {
	c := j.sync(0)
	c.Revision, c.Refused = j.s.revision(j.s.ranks[0]), refused
	return c
}

func TestRefusedFails(t *testing.T) {
	j, bad := badShard(t, 0, 1)
	r := j.do(j.report(bad))
	for _, words := range []string{bad.Words, "s3://b/part-7 extent 1, rows 20 to 39", "on_error: {skip: 1}"} {
		if !strings.Contains(r.Failure, words) || !r.BadData {
			t.Errorf("failure %q of bad data %v; want %q", r.Failure, r.BadData, words)
		}
	}
	if list, n := j.s.Skipped(); len(list) > 0 || n > 0 {
		t.Errorf("skipped %+v", list)
	}
}

func TestRefusedIsSkipped(t *testing.T) {
	j, bad := badShard(t, 1, 2)
	for range 2 { // the second is a repetition
		r := j.do(j.report(bad))
		if r.Failure != "" || len(r.Skipped) != 1 || r.SkippedRowGroups != 1 ||
			!r.Base.Equal(position.NewSet(position.Interval{From: bad.At, To: bad.End})) {
			t.Fatalf("reply %+v", r)
		}
		want := "[[0/0/0/0+0, 0/0/0/2+0) [0/0/0/4+0, 0/0/1/0+0) [0/0/1/0+0, 1/0/0/0+0)]"
		if got := fmt.Sprint(j.s.Held(0)); got != want {
			t.Errorf("holds %s, want %s", got, want)
		}
	}
	again := bad
	again.At.K = 3 // another rank's part of the same row group
	j.do(j.report(again))
	if _, n := j.s.Skipped(); n != 1 {
		t.Errorf("%d extents were skipped, want 1", n)
	}
	other := bad
	other.At, other.End, other.RowGroup = window(1, 0), window(1, 2), 0
	if r := j.do(j.report(other)); !strings.Contains(r.Failure,
		"on_error lets 1 extents be left out, and 1 were already, s3://b/part-7 extent 1") {
		t.Errorf("failure %q", r.Failure)
	}
}

func TestChangedFilesFailWhateverThePolicy(t *testing.T) {
	j, bad := badShard(t, 9, 1)
	bad.Changed = true
	if r := j.do(j.report(bad)); !strings.Contains(r.Failure, "changed or vanished since it was listed") || !r.BadData {
		t.Errorf("failure %q", r.Failure)
	}
}

// TestLateRefusal: a report that was made with older grants may be about rows that were read since.
func TestLateRefusal(t *testing.T) {
	j, bad := badShard(t, 1, 1)
	late := j.report(bad)
	j.do(Recall{Rank: 0, Set: position.NewSet(position.Interval{From: window(1, 0), To: window(2, 0)})})
	if j.do(late); len(j.s.base) > 0 {
		t.Errorf("base %v after a late report", j.s.base)
	}
	if j.do(j.report(bad)); len(j.s.base) != 1 {
		t.Errorf("base %v after a report in time", j.s.base)
	}
}

// TestSkippedCountsOverRestores: what states know of counts, in another session as a number; what is to be read again
// does not.
func TestSkippedCountsOverRestores(t *testing.T) {
	j, bad := badShard(t, 2, 1)
	before := Checkpoint{
		Version: checkpointVersion, Session: testID.Session, Generation: 1, World: 1, BaseVersion: j.s.baseVersion,
		ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest, PlannerDigest: testID.PlannerDigest,
	}
	r := j.do(j.report(bad))
	after := before
	after.Base, after.BaseVersion, after.Skipped = r.Base, r.BaseVersion, r.SkippedRowGroups
	for name, c := range map[string]struct {
		state      Checkpoint
		other      bool // session
		listed     int
		rowGroups  uint32
		quarantine bool // lies in base
	}{
		"before":             {before, false, 0, 0, false},
		"after":              {after, false, 1, 1, true},
		"after, in another":  {after, true, 0, 1, true},
		"before, in another": {before, true, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := &job{T: t, s: j.reload()}
			if c.other {
				k = newJob(t, 1, 1)
				k.s.id.Session, k.s.id.Skip = "other", 2
			}
			k.do(Join{Rank: 0, World: 1, Nonce: "b", Restore: []Checkpoint{c.state}})
			list, n := k.s.Skipped()
			part := position.NewSet(position.Interval{From: bad.At, To: bad.End})
			if len(list) != c.listed || n != c.rowGroups || k.s.base.Covers(part) != c.quarantine {
				t.Errorf("%d listed, %d extents, base %v", len(list), n, k.s.base)
			}
		})
	}
}

// TestATracebackFailsTheSessionWhole holds that what a function raised is told to its end.
func TestATracebackFailsTheSessionWhole(t *testing.T) {
	j := two(t)
	words := strings.Repeat("  File \"train.py\", line 7, in tokenize\n", 50) + "ValueError: the last line"
	c := j.sync(0)
	c.Revision = j.s.revision(j.s.ranks[0])
	c.Refused = []Refusal{{At: shard(0, 0, 0).From, End: shard(0, 0, 0).To, File: "f", Rows: 7, Words: words}}
	if r := j.do(c); !strings.Contains(r.Failure, words) || !r.BadData {
		t.Errorf("it failed since %q", r.Failure)
	}
}

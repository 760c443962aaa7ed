package cluster_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
)

// The trainers of these tests share one fleet. Its lease is short, but long beside what a busy machine makes a Sync
// wait.
const trainersLease = 4 * time.Second

// trained is a session whose trainers are processes.
type trained struct {
	*fleet
	t      *testing.T
	id     string
	spec   *pb.Spec
	master pb.MasterClient
	seen   map[row]int
}

// start runs a rank of the session.
func (j *trained) start(rank, world uint32, syncEvery time.Duration) *trainer {
	j.t.Helper()
	return j.trainer(j.t, assignment{Session: j.id, Rank: rank, World: world, SyncEvery: syncEvery}, j.spec)
}

// rank is what the master knows of a rank.
func (j *trained) rank(rank int) *pb.RankProgress {
	j.t.Helper()
	got, err := j.master.GetSession(j.t.Context(), &pb.GetSessionRequest{Session: j.id})
	if err != nil {
		j.t.Fatal(err)
	}
	for _, r := range got.GetProgress().GetRanks() {
		if int(r.GetRank()) == rank {
			return r
		}
	}
	return &pb.RankProgress{}
}

// hang stops a rank's process until its lease has ended.
func (j *trained) hang(rank int, tr *trainer) {
	j.t.Helper()
	tr.signal(syscall.SIGSTOP)
	eventually(j.t, "the lease ends", func() bool { return !j.rank(rank).GetPresent() })
}

// maxAgain holds that all rows were handed over, and that no more of them came again than the master says of the
// rank.
func (j *trained) maxAgain(rank, rows int) (again int) {
	j.t.Helper()
	for _, n := range j.seen {
		again += n - 1
	}
	bound := j.rank(rank).GetMayRepeat()
	j.t.Logf("%d rows came again, at most %d may", again, bound)
	if len(j.seen) != rows || int64(again) > bound {
		j.t.Errorf("%d different rows of %d; %d came again, of at most %d", len(j.seen), rows, again, bound)
	}
	return again
}

// TestTrainersGo lets trainers hang past their lease and wake, die, be started twice, leave, and come back.
func TestTrainersGo(t *testing.T) {
	t.Parallel()
	const rows = 40_000
	f := startFleet(t, nil, 2, "--lease="+trainersLease.String())
	s, master := provenanceSpec(t, rows, 1), f.dial(f.first.Address)
	tests := map[string]func(j *trained){
		// Nobody got its shards: what it consumed counts, and it goes on.
		"hangs and goes on": func(j *trained) {
			tr := j.start(0, 1, 0)
			tr.take(j.seen)
			tr.take(j.seen)
			j.hang(0, tr)
			tr.signal(syscall.SIGCONT)
			j.together(tr)
			exactlyOnce(j.t, j.seen, rows)
		},
		// Others have what it handed over and told nobody of: it is fenced.
		"hangs and is fenced": func(j *trained) {
			// It tells late what it consumed, and so what it tells is late.
			tr := j.start(0, 2, trainersLease/2)
			other := j.start(1, 2, 0)
			tr.take(j.seen)
			j.hang(0, tr)
			j.together(other) // it gets all
			again := j.maxAgain(0, rows)
			tr.signal(syscall.SIGCONT)
			why := tr.end(j.seen) // without a failure, if it had told all in time
			if again > 0 && !strings.Contains(why,
				"rank 0 is fenced: its lease ended, and other ranks were granted rows that it handed over since") {
				j.t.Errorf("%d rows came again, and it says %q", again, why)
			}
			j.maxAgain(0, rows)
		},
		"is started twice": func(j *trained) {
			first := j.start(0, 1, 0)
			first.take(j.seen)
			second := j.start(0, 1, 0)
			second.take(j.seen)
			why := first.end(j.seen)
			if !strings.Contains(why,
				"rank 0 is fenced by generation 1, incarnation 2: another start of it has joined") {
				j.t.Errorf("the first start ends with: %s", why)
			}
			j.together(second)
			j.maxAgain(0, rows)
		},
		"dies and is started again": func(j *trained) {
			other := j.start(1, 2, 0)
			for range 3 {
				tr := j.trainer(j.t, assignment{Session: j.id, World: 2, SyncEvery: time.Minute, DieAfter: 1}, j.spec)
				tr.take(j.seen)
				tr.kill()
				other.take(j.seen)
			}
			last := j.start(0, 2, 0)
			j.together(last, other)
			if j.maxAgain(0, rows) == 0 {
				j.t.Error("no row came again, though three trainers died that had told nobody of theirs")
			}
		},
		"leaves and joins": func(j *trained) {
			other := j.start(1, 2, 0)
			for range 2 {
				tr := j.start(0, 2, 0)
				tr.take(j.seen)
				tr.leave()
				if j.rank(0).GetPresent() {
					j.t.Error("the rank that left is present")
				}
				other.take(j.seen)
			}
			j.together(j.start(0, 2, 0), other)
			exactlyOnce(j.t, j.seen, rows)
			if n := j.rank(0).GetMayRepeat(); n != 0 {
				j.t.Errorf("%d rows may repeat of ranks that left in order", n)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&trained{f, t, strings.ReplaceAll(name, " ", "-"), s, master, map[row]int{}})
		})
	}
}

// together has trainers read to the end, each at its own pace, and leave.
func (j *trained) together(trainers ...*trainer) {
	j.t.Helper()
	all := make([][]handed, len(trainers))
	var group errgroup.Group
	for i, tr := range trainers {
		group.Go(func() error {
			for {
				h, err := tr.next()
				if err != nil || h.End {
					return err
				}
				all[i] = append(all[i], h)
			}
		})
	}
	if err := group.Wait(); err != nil {
		j.t.Fatal(err)
	}
	for i, tr := range trainers {
		for _, h := range all[i] {
			h.count(j.seen)
		}
		tr.leave()
	}
}

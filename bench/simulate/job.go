package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/master/session"
)

// shardsAtOnce is how many shards of the default size are simulated as one, so that a tick is short beside it. Trainers
// are granted them in runs anyway.
const shardsAtOnce = 16

// blockShards is how many shards a block of the default 1 GiB has.
const blockShards = 16

// job is a session and its trainers, which take their steps together: each waits in the collective for the one that
// waits for data.
type job struct {
	Job
	world    *world
	number   int
	work     Workload
	shard    float64 // rows
	state    *session.State
	trainers []*trainer
	uri      map[uint32]string // of blocks in flight
	present  bool
	drift    float64 // of the demand, as a logarithm
	cursor   pb.Shard
	streams  uint32 // that each trainer may open

	handed, lost, lived float64 // rows; seconds of trainers that waited for data, and all of them
	seen                totals  // as the leader hears of it
	cost                float64 // that the leader knows
}

// totals grow. The leader compares them as they are now and as they were.
type totals struct{ rows, busy, active, storage, handed, waited, time float64 }

// trainer takes rows from its buffer, and keeps streams open that fill it.
type trainer struct {
	job                *job
	rank               uint32
	buffer, room       float64 // rows
	received, handed   float64
	streams, reopen    []*stream
	held               []position.Interval // granted, not opened
	taken              map[position.Position]bool
	finished           []finished
	consumed           position.Set
	revision, base     uint64
	generation, number uint64 // incarnation
	nonce              string
	synced             time.Duration
	waited             float64 // seconds, as it measures itself
	told               totals  // in its last Sync
	dead               bool
}

// finished is a shard that was received. It is consumed when all rows before `at` are handed over.
type finished struct {
	shard position.Interval
	at    float64
}

func newJob(w *world, number int) (*job, error) {
	spec := w.Jobs[number]
	work, ok := w.rec.Workloads[spec.Workload]
	if !ok {
		return nil, fmt.Errorf("nothing was recorded of workload %q", spec.Workload)
	}
	j := &job{Job: spec, world: w, number: number, work: work, uri: map[uint32]string{}}
	if spec.Dearer > 0 {
		j.work.CPU *= spec.Dearer
	}
	j.shard = max(1, shardsAtOnce*float64(w.rec.ShardBytes)/work.Tensors/max(1, spec.Dearer))
	j.cursor = pb.Shard{File: &pb.File{}, Extents: []*pb.Extent{{}}}
	state, err := session.New(session.Identity{Session: j.Name, Epochs: 1 << 20, FirstWorldSize: uint32(spec.Trainers)})
	if err != nil {
		return nil, err
	}
	j.state = state
	for r := range spec.Trainers {
		j.trainers = append(j.trainers, &trainer{job: j, rank: uint32(r), taken: map[position.Position]bool{}})
	}
	return j, nil
}

// demand is the rows/s that its trainers could take now.
func (j *job) demand() float64 {
	factor := 1.0
	for _, s := range j.Steps {
		if s.At <= j.world.now {
			factor = s.Factor
		}
	}
	if j.Swing > 0 {
		factor *= 1 + j.Swing*math.Sin(2*math.Pi*j.world.now.Hours()/24)
	}
	return factor * j.Load * j.world.CPUs / j.work.CPU * math.Exp(j.drift)
}

// attend lets trainers come, go, die and come back.
func (j *job) attend() error {
	now := j.world.now
	if on := now >= j.From && (j.To == 0 || now < j.To); on != j.present {
		j.present = on
		for _, t := range j.trainers {
			if err := t.turn(on); err != nil {
				return err
			}
		}
	}
	for _, d := range j.Dies {
		switch now {
		case d.At:
			j.trainers[0].stop()
		case d.At + d.For:
			if err := j.trainers[0].join(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *trainer) turn(on bool) error {
	if on {
		return t.join()
	}
	if err := t.sync(true); err != nil {
		return err
	}
	t.stop()
	return nil
}

// join begins the trainer, or begins it again after it died.
func (t *trainer) join() error {
	t.dead = false
	t.number++
	t.nonce = strconv.Itoa(int(t.rank)) + "/" + strconv.FormatUint(t.number, 10)
	t.revision, t.base, t.consumed = 0, 0, nil
	clear(t.taken)
	r, err := t.job.apply(session.Join{Rank: t.rank, World: uint32(len(t.job.trainers)), Nonce: t.nonce})
	t.generation, t.consumed = r.Generation, r.Consumed
	t.number = max(t.number, r.Incarnation)
	if err != nil {
		return err
	}
	return t.sync(false)
}

// stop forgets all that the trainer had received.
func (t *trainer) stop() {
	t.dead = true
	for len(t.streams) > 0 {
		t.streams[0].unlink()
	}
	t.reopen, t.held, t.finished, t.buffer = nil, nil, nil, 0
	t.handed = t.received
}

// apply has the session's state machine do what a call asks for.
func (j *job) apply(c session.Command) (reply session.Reply, err error) {
	j.world.master.often(func() { reply, _, err = j.state.Apply(c) })
	return reply, err
}

// plan plans the blocks that the next grants need. The leader, too, looks for them once for all calls of a tenth of a
// second.
func (j *job) plan() (err error) {
	j.world.master.time(func() {
		for err == nil {
			epoch, block, ok := j.state.NeedsPlan()
			if !ok {
				break
			}
			_, _, err = j.state.Apply(session.Planned{
				Epoch: epoch, Block: block, Blocks: uint32((j.Shards + blockShards - 1) / blockShards),
				Shards: j.shardsOf(block),
				Rows:   int64(j.shard * blockShards),
			})
		}
	})
	return err
}

func (j *job) shardsOf(block uint32) uint32 {
	return uint32(min(blockShards, j.Shards-int(block)*blockShards))
}

// consume lets the training loops go on for a tick.
func (j *job) consume() {
	if !j.present {
		return
	}
	const dt = float64(tick) / float64(time.Second)
	w := j.world
	if n := w.Noise; n.Demand > 0 { // an Ornstein-Uhlenbeck process
		j.drift += -j.drift*dt/n.Lasts.Seconds() + n.Demand*math.Sqrt(2*dt/n.Lasts.Seconds())*w.random.NormFloat64()
	}
	step := j.demand() * dt / float64(len(j.trainers))
	done := 1.0
	for _, t := range j.trainers {
		if t.dead {
			return // the others wait for it in the collective, and not for data
		}
		done = min(done, t.buffer/step)
	}
	for _, t := range j.trainers {
		rows := step * done
		if own := t.buffer / step; own < 1 {
			t.waited += dt * (1 - own)
		}
		t.buffer -= rows
		t.handed += rows
		t.room = max(0, t.capacity()-t.buffer)
		for len(t.finished) > 0 && t.finished[0].at <= t.handed+1e-6*t.received {
			t.consumed = t.consumed.Union(position.Set{t.finished[0].shard})
			t.finished = t.finished[1:]
		}
	}
	j.handed += step * done * float64(len(j.trainers))
	j.lost += dt * (1 - done)
	j.lived += dt
}

// capacity is how many rows the client's budget holds, and two batches that the rebatcher does.
func (t *trainer) capacity() float64 {
	return float64(t.job.world.rec.BudgetBytes)/t.job.work.Tensors + 2*float64(t.job.work.Batch)
}

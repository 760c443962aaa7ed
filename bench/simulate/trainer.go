package main

import (
	"math"
	"strconv"

	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/master/session"
)

// serve ends the streams that are through, opens others, and tells the master.
func (j *job) serve() error {
	if !j.present {
		return nil
	}
	if err := j.plan(); err != nil {
		return err
	}
	for i := range j.trainers {
		t := j.trainers[(i+int(j.world.now/tick))%len(j.trainers)] // none is always first
		if t.dead {
			continue
		}
		t.finish()
		streams := int(max(1, j.streams))
		t.open(streams)
		if wants := len(t.held) < streams; wants && j.world.now > t.synced || j.world.now-t.synced >= trainerReports {
			if err := t.sync(false); err != nil {
				return err
			}
			t.open(streams)
		}
	}
	return nil
}

func (t *trainer) finish() {
	for i := 0; i < len(t.streams); {
		s := t.streams[i]
		if s.left > 1e-6*t.job.shard {
			i++
			continue
		}
		s.unlink()
		t.finished = append(t.finished, finished{s.shard, t.received})
	}
}

// open opens streams: those that were lost, and then of shards that were granted, as far as workers have slots. A
// stream whose candidates are all busy tries again, and keeps no other from being opened.
func (t *trainer) open(streams int) {
	if t.room < 0.1*t.capacity() { // clients go on when there is room
		return
	}
	w := t.job.world
	for ; len(t.held) > 0 && len(t.streams)+len(t.reopen) < streams; t.held = t.held[1:] {
		t.reopen = append(t.reopen, &stream{
			trainer: t, shard: t.held[0], left: max(1, t.job.shard*spread(w, w.Noise.Shards)),
			cost: t.job.work.CPU * spread(w, w.Noise.Costs),
		})
	}
	waiting := t.reopen[:0]
	for _, s := range t.reopen {
		if len(t.streams) == streams || !w.connect(s) {
			waiting = append(waiting, s)
		}
	}
	clear(t.reopen[len(waiting):])
	t.reopen = waiting
}

// spread draws a factor of mean 1.
func spread(w *world, sigma float64) float64 {
	if sigma == 0 {
		return 1
	}
	return math.Exp(sigma*w.random.NormFloat64() - sigma*sigma/2)
}

// connect opens a stream on the first of its candidates that has a slot.
func (w *world) connect(s *stream) bool {
	j := s.trainer.job
	at := s.shard.From
	uri, ok := j.uri[at.Block]
	if !ok {
		uri = "s3://data/" + j.Name + "/" + strconv.Itoa(int(at.Block)) + ".parquet"
		j.uri[at.Block] = uri
	}
	j.cursor.File.Uri, j.cursor.Extents[0].Index = uri, at.Shard
	names := w.candidates(j)
	for _, c := range names {
		if k := w.byName[c]; k != nil && !k.draining && len(k.streams) < k.slots {
			w.link(s, k)
			return true
		}
	}
	for _, c := range names {
		if k := w.byName[c]; k != nil && !k.draining && k.yield(s.trainer) {
			w.link(s, k)
			return true
		}
	}
	return false
}

func (w *world) link(s *stream, k *worker) {
	s.worker, s.opening, s.began = k, w.Latency.Seconds(), s.left
	k.streams = append(k.streams, s)
	s.trainer.streams = append(s.trainer.streams, s)
}

// yield has a stream make place for one that waits, as workers do: one whose trainer is slow to take a batch, or one
// that is through with a shard of the usual size, of which a simulated one has several.
func (k *worker) yield(to *trainer) bool {
	for _, s := range k.streams {
		j := s.trainer.job
		slow := s.want*j.work.Tensors < batchBytes*tick.Seconds()/heldBack.Seconds()
		through := s.began-s.left >= j.shard/shardsAtOnce
		if s.trainer != to && s.opening <= 0 && s.can > 0 && (slow && s.want < s.can || through) {
			s.close()
			return true
		}
	}
	return false
}

func (w *world) candidates(j *job) (names [4]string) {
	w.master.often(func() {
		for i, c := range w.places.For(&j.cursor, "") {
			names[i] = c.GetName()
		}
	})
	return names
}

// sync tells the master what was consumed, and takes what it grants.
func (t *trainer) sync(leave bool) error {
	j := t.job
	streams := int(max(1, j.streams))
	reply, err := j.apply(session.Sync{
		Rank: t.rank, Generation: t.generation, Incarnation: t.number, Nonce: t.nonce, Consumed: t.consumed,
		Leave:    leave,
		Counters: session.Counters{Rows: int64(t.handed)}, Revision: t.revision, BaseVersion: t.base,
		WantsMore: len(t.held) < streams, Streams: uint32(streams),
	})
	if err != nil {
		return err
	}
	t.synced, t.base = j.world.now, reply.BaseVersion
	now := totals{handed: t.handed, waited: t.waited, time: j.world.now.Seconds()}
	j.seen.handed += now.handed - t.told.handed
	j.seen.waited += now.waited - t.told.waited
	t.told = now
	if !reply.Unchanged {
		t.revision = reply.Revision
		t.take(reply.Grants)
	}
	if open := (position.Position{Epoch: reply.Closed}); len(t.consumed) > 0 && t.consumed[0].From.Less(open) {
		t.consumed = t.consumed.Subtract(position.Set{{To: open}})
	}
	return nil
}

// take notes the shards that were not granted before.
func (t *trainer) take(grants []position.Interval) {
	now := make(map[position.Position]bool, len(grants))
	for _, g := range grants {
		now[g.From] = true
		if !t.taken[g.From] {
			t.held = append(t.held, g)
		}
	}
	t.taken = now
}

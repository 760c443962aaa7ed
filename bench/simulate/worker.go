package main

import (
	"time"

	"github.com/penstock-ml/penstock/api/position"
)

// worker has CPUs that its streams share evenly. A stream takes at most as many as was recorded of a single one.
type worker struct {
	name           string
	born           time.Duration
	cpus           float64
	slots          int
	speed          float64 // of its CPUs
	streams        []*stream
	draining, gone bool

	cpu     float64       // seconds since the last report
	jobs    []usage       // by job, since the last report
	said    time.Duration // the last report
	reports time.Duration // the next
	busy    float64       // at the last report
}

// usage is what a session's streams did on a worker.
type usage struct{ rows, active, storage float64 }

// stream reads one shard for one trainer.
type stream struct {
	trainer *trainer
	worker  *worker
	shard   position.Interval
	left    float64 // rows
	began   float64 // what was left when its worker began
	cost    float64 // CPU seconds a row
	opening float64 // seconds until storage gives its first byte

	want, can float64 // rows of this tick: with the trainer's room, and without
	sated     bool    // it has the CPU time for what it wants
}

// close takes a stream off its worker. Its trainer opens it again, where it was.
func (s *stream) close() {
	s.unlink()
	s.trainer.reopen = append(s.trainer.reopen, s)
}

func (s *stream) unlink() {
	drop(&s.worker.streams, s)
	drop(&s.trainer.streams, s)
	s.worker = nil
}

func drop(list *[]*stream, s *stream) {
	l := *list
	for i := range l {
		if l[i] == s {
			copy(l[i:], l[i+1:])
			l[len(l)-1] = nil
			*list = l[:len(l)-1]
			return
		}
	}
}

// produce lets all workers work for a tick.
func (w *world) produce() {
	const dt = float64(tick) / float64(time.Second)
	bytes := 0.0
	for _, k := range w.workers {
		bytes += k.plan(dt)
	}
	given := 1.0
	if cap := w.storageCap(); cap >= 0 && bytes > cap*dt {
		given = cap * dt / bytes
	}
	w.stuck = 1 - given
	for _, k := range w.workers {
		k.work(dt, given)
	}
}

// storageCap is what storage can give now, in bytes/s; negative: all that is asked for.
func (w *world) storageCap() float64 {
	limit := -1.0
	for _, c := range w.Storage {
		if c.At <= w.now {
			limit = c.Bytes
		}
	}
	return limit
}

// plan says how many rows each stream could make in a tick if storage gave all, and returns the bytes that this takes.
func (k *worker) plan(dt float64) (bytes float64) {
	for _, s := range k.streams {
		s.want, s.can = 0, 0
		if s.opening > 0 {
			continue
		}
		s.can = min(s.left, s.trainer.job.work.StreamCPUs*k.speed*dt/s.cost)
		s.want = min(s.can, s.trainer.room/float64(max(1, len(s.trainer.streams))))
	}
	share := k.share(k.cpus * k.speed * dt)
	for _, s := range k.streams {
		if s.want*s.cost > share {
			s.want = share / s.cost
		}
		s.can = max(s.want, min(s.can, share/s.cost))
		bytes += s.want * s.trainer.job.work.Stored
	}
	return bytes
}

// share divides CPU seconds evenly among the streams; what a stream does not need is for the others.
func (k *worker) share(left float64) (limit float64) {
	open := 0
	for _, s := range k.streams {
		if s.sated = s.want <= 0; !s.sated {
			open++
		}
	}
	for limit = left; open > 0; {
		limit = left / float64(open)
		before := open
		for _, s := range k.streams {
			if need := s.want * s.cost; !s.sated && need <= limit {
				s.sated = true
				left -= need
				open--
			}
		}
		if open == before {
			break
		}
	}
	return limit
}

// work makes the rows for which storage gave the bytes.
func (k *worker) work(dt, given float64) {
	for _, s := range k.streams {
		u := &k.jobs[s.trainer.job.number]
		if s.opening > 0 {
			s.opening -= dt
			u.active += dt
			u.storage += dt
			continue
		}
		rows := s.want * given
		s.left -= rows
		s.trainer.received += rows
		s.trainer.buffer += rows
		k.cpu += rows * s.cost / k.speed
		u.rows += rows
		if s.can > 0 {
			active := dt * min(1, s.want/s.can)
			u.active += active
			u.storage += active * (1 - given)
		}
	}
}

// report sends what workers did to the leader.
func (w *world) report() {
	for _, k := range w.workers {
		if w.now < k.reports || w.silent() {
			continue
		}
		dt := (w.now - k.said).Seconds()
		k.said, k.reports = w.now, w.now+workerReports
		active := 0.0
		for i := range k.jobs {
			active += k.jobs[i].active
		}
		k.busy = min(1, max(k.cpu/(k.cpus*dt), active/(float64(k.slots)*dt)))
		for i := range k.jobs {
			u, j := &k.jobs[i], w.jobs[i]
			j.seen.rows += u.rows
			j.seen.active += u.active
			j.seen.storage += u.storage
			if active > 0 {
				j.seen.busy += k.busy * dt * u.active / active
			}
			*u = usage{}
		}
		k.cpu = 0
	}
}

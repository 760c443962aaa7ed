package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/memory"
)

const (
	// remembered is for how long a session's counters are told of behind its last stream.
	remembered = 5 * time.Minute
	// sessionsKept bounds how many sessions without a stream are told of.
	sessionsKept = 64
)

// sessions are the counters of each session whose streams run, or ran lately.
type sessions struct {
	began time.Time

	mu        sync.Mutex
	known     map[sessionName]*counted
	forgotten *pb.WorkerCounters // the sum of the others
}

// sessionName tells sessions apart: ids are unique within a namespace.
type sessionName struct{ namespace, id string }

// shardName tells a session's shards apart.
type shardName struct {
	uri    string
	extent uint32 // the first
}

func shardOf(t *pb.Ticket) shardName {
	s := shardName{uri: t.GetFile().GetUri()}
	if groups := t.GetExtents(); len(groups) > 0 {
		s.extent = groups[0].GetIndex()
	}
	return s
}

// counted is a session.
type counted struct {
	stats
	abreast sync.Map  // of shardNames: their streams do not read ahead, for that takes memory which decoding needs
	streams int       // that are open
	ended   time.Time // of the last one, if none is
	refusal atomic.Pointer[string]
}

func newSessions() sessions {
	return sessions{began: time.Now(), known: map[sessionName]*counted{}, forgotten: &pb.WorkerCounters{}}
}

// enter counts a stream that opens.
func (s *sessions) enter(t *pb.Ticket) *counted {
	session := sessionName{t.GetNamespace(), t.GetSession()}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known[session]
	if c == nil {
		c = &counted{stats: stats{began: s.began}}
		s.known[session] = c
	}
	c.streams++
	c.open.start(&c.stats)
	return c
}

// leave is the end of enter's stream.
func (s *sessions) leave(c *counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.open.stop(&c.stats)
	if c.streams--; c.streams == 0 {
		c.ended = time.Now()
	}
	s.forget()
}

// forget drops sessions that had no stream for long, and the oldest if there are too many. s.mu must be held.
func (s *sessions) forget() {
	var idle []sessionName
	for id, c := range s.known {
		if c.streams == 0 {
			idle = append(idle, id)
		}
	}
	slices.SortFunc(idle, func(a, b sessionName) int { return s.known[b].ended.Compare(s.known[a].ended) })
	for i, id := range idle {
		if i >= sessionsKept || time.Since(s.known[id].ended) > remembered {
			s.forgotten = total(s.forgotten, s.known[id].counters())
			delete(s.known, id)
		}
	}
}

// counters are those of each session, by name, and the sum of all that there ever were.
func (s *sessions) counters() (all *pb.WorkerCounters, each []*pb.SessionCounters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	all = total(s.forgotten, nil)
	for id, c := range s.known {
		own := c.counters()
		all = total(all, own)
		each = append(each, &pb.SessionCounters{
			Session: id.id, Namespace: id.namespace, Counters: own, Refusal: c.refused(),
		})
	}
	slices.SortFunc(each, func(a, b *pb.SessionCounters) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetSession(), b.GetSession()))
	})
	return all, each
}

// total adds up two counters.
func total(a, b *pb.WorkerCounters) *pb.WorkerCounters {
	out := &pb.WorkerCounters{}
	ops := map[string]int64{}
	for _, c := range []*pb.WorkerCounters{a, b} {
		c.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if f.Kind() == protoreflect.Int64Kind {
				sum := out.ProtoReflect().Get(f).Int() + v.Int()
				out.ProtoReflect().Set(f, protoreflect.ValueOfInt64(sum))
			}
			return true
		})
		for _, op := range c.GetOps() {
			ops[op.GetOp()] += op.GetNs()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ops)) {
		out.Ops = append(out.Ops, &pb.OpTime{Op: name, Ns: ops[name]})
	}
	return out
}

// Counters returns what this worker has done since its start, but for cpu_ns.
func (p *Pipeline) Counters() *pb.WorkerCounters {
	all, _ := p.sessions.counters()
	return all
}

// Sessions returns the same, and each session's part. It is called every few seconds, and so lets go of kits that
// nobody took for long.
func (p *Pipeline) Sessions() (*pb.WorkerCounters, []*pb.SessionCounters) {
	p.memory.Pool(func(pool *memory.Pool) { pool.Expire(time.Now().Add(-kitKept)) })
	return p.sessions.counters()
}

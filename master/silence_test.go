package master

import (
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store"
)

// While etcd takes no writes nobody can be heard, for as long as that lasts: trainers have time to report after it,
// too.
func TestSilenceAfterATroubleOfEtcd(t *testing.T) {
	const ttl = 16 * time.Minute
	begin := time.Unix(1_000_000, 0)
	stored := &store.Session{Head: &pb.SessionHead{HeardUnixMs: begin.UnixMilli()}, Meta: &pb.SessionMeta{}}
	var s silence
	s.load(begin, stored, ttl)
	again := begin.Add(2 * ttl)
	if !s.ended(again, ttl) {
		t.Error("nobody was heard for twice the time, and the session has not ended")
	}
	s.load(again, stored, ttl)
	if s.ended(again, ttl) || !s.ended(again.Add(2*time.Minute), ttl) {
		t.Error("trainers have no time to report after the session was loaded again, or too much")
	}
}

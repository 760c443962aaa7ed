package master

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/master/plan"
)

// Sessions share the index of a file, in memory and in etcd, unless its ETag is weak: others may mean other bytes by it.
func TestWeakIndexesAreASessionsOwn(t *testing.T) {
	for etag, shared := range map[string]bool{`"x"`: true, `W/"x"`: false, "lm:Mon, 30 Nov 2026 21:00:00 GMT": false} {
		keys := map[indexKey]bool{}
		names := map[string]bool{}
		sessions := []*pb.Session{{Id: "a", CreatedUnix: 1}, {Id: "a", CreatedUnix: 2}, {Id: "b", CreatedUnix: 1}}
		for _, session := range append(sessions, sessions...) {
			x := &indexing{session: session, program: &pb.Program{}}
			f := &scanned{File: &plan.File{File: &pb.File{Uri: "https://h/a", Etag: etag}}, of: index.Of{ETag: etag}}
			key, name := x.key(f), x.key(f).name()
			keys[key], names[string(name[:])] = true, true
		}
		want := len(sessions)
		if shared {
			want = 1
		}
		if len(keys) != want || len(names) != want {
			t.Errorf("%s: %d keys and %d names, want %d", etag, len(keys), len(names), want)
		}
	}
}

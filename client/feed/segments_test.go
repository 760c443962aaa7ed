package feed

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// TestMemoryOfSessionsInTurn is kept for the next one.
func TestMemoryOfSessionsInTurn(t *testing.T) {
	refused := func() (*os.File, error) { return nil, unix.EPERM }
	cannot := func(*os.File, int64, int64) error { return errors.ErrUnsupported }
	for name, pool := range map[string]*segments{
		"memory":                                 memory(),
		"files":                                  newSegments(refused, punch),
		"files that are not shrunk, as on macOS": newSegments(refused, cannot),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			d := fake.NewDataset(3, 1, 6)
			var fleets []*fleet
			for range 3 {
				fleets = append(fleets, newFleet(t, &fake.Master{
					Data: d, Spec: &pb.Spec{BatchSize: 32},
				}, &fake.Worker{}))
			}
			s := start(t, pool)
			var used []int
			for _, fl := range fleets {
				p := s.connect(t)
				p.open(fl.join(t, 0, 1))
				exactlyOnce(t, d, p.drain())
				_ = p.conn.Close()
				if used = append(used, returned(t, pool)); !slices.Equal(p.seen, []uint32{1}) {
					t.Errorf("the session was told of the segments %d", p.seen)
				}
			}
			// streams come in another order, so that there may be a batch more
			if peak := slices.Max(used); peak > used[0]+2*minExtent {
				t.Errorf("after each session %d bytes have been used", used)
			}
			if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
				t.Errorf("files are left: %v, %v", files, err)
			}
		})
	}
}

// TestNoMemory is the session's end. No rows are consumed for nothing.
func TestNoMemory(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, newSegments(func() (*os.File, error) { return nil, unix.EMFILE }, punch)).connect(t)
	p.open(fl.join(t, 0, 1))
	for range 2 {
		if words := p.next().Error.Words; !strings.Contains(words, "missing") {
			t.Errorf("next without memory: %q", words)
		}
	}
	p.ask(closing())
	fl.master.Look(func() {
		if r := fl.master.Ranks[0]; r.Counters.GetRows() > 32 {
			t.Errorf("%d rows count as handed over", r.Counters.GetRows())
		}
	})
}

// TestMemoryOfFinishedSessions is the next one's at once, but for what the program holds.
func TestMemoryOfFinishedSessions(t *testing.T) {
	d := fake.NewDataset(3, 1, 12)
	pool := memory()
	var fleets []*fleet
	for range 2 {
		fleets = append(fleets, newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{}))
	}
	s := start(t, pool)
	first := s.connect(t)
	first.open(fleets[0].join(t, 0, 1))
	held := first.next().Batch
	values := slices.Clone(first.ids(held))
	reply := first.next()
	for !reply.Finished {
		reply = first.next(released(reply)...)
	}
	had, _ := extents(pool)
	second := s.connect(t)
	second.open(fleets[1].join(t, 0, 1))
	exactlyOnce(t, d, second.drain())
	if now, _ := extents(pool); now > had+minExtent {
		t.Errorf("the first session had %d bytes, both together %d", had, now)
	}
	if !slices.Equal(first.ids(held), values) {
		t.Error("a batch that the program holds was changed")
	}
	first.next(held.Number)
	returned(t, pool)
}

func TestArena(t *testing.T) {
	pool := memory()
	defer pool.close()
	of := &arenas{pool: pool}
	if _, err := of.next().Take(1); err != nil {
		t.Fatal(err)
	}
	memory := of.next()
	var all [][]byte
	for _, n := range []int{1, 64, 65, 2 * minExtent, maxExtent, segmentBytes - 1024, 1000, 2*segmentBytes + 1, 7} {
		m, err := memory.Take(n)
		if err != nil || len(m) != n || cap(m) != n {
			t.Fatalf("%d bytes of %d in place of %d, %v", len(m), cap(m), n, err)
		}
		m[0], m[n-1] = byte(len(all)), byte(len(all))
		all = append(all, m)
	}
	a := of.of(all)
	if a != of.all[1] {
		t.Error("the arrays lie in another arena")
	}
	for i, m := range all {
		g, at, ok := a.find(m)
		if !ok || at%64 != 0 || m[0] != byte(i) || m[len(m)-1] != byte(i) || &g.mem[at] != &m[0] {
			t.Errorf("array %d lies at %d of %d, and has the values %d and %d", i, at, g.id, m[0], m[len(m)-1])
		}
	}
	if _, _, ok := a.find(make([]byte, 8)); ok {
		t.Error("Go's memory is shared")
	}
	of.release(map[*arena]bool{a: true})
	if _, free := extents(pool); free != minExtent || len(of.all) != 1 {
		t.Errorf("%d bytes came back; expected those of the other arena", free)
	}
	of.release(nil)
	if all, free := extents(pool); all != free || len(of.all) > 0 {
		t.Errorf("%d of %d bytes came back", free, all)
	}
}

// TestKeptMemoryIsBounded: what nobody asked for for the longest time goes back, of whatever size it is.
func TestKeptMemoryIsBounded(t *testing.T) {
	pool := memory()
	defer pool.close()
	of := &arenas{pool: pool}
	batch := func(bytes int) []byte {
		m, err := of.next().Take(bytes)
		if err != nil {
			t.Fatal(err)
		}
		m[0], m[len(m)-1] = 1, 1
		return m
	}
	kept := func(m []byte) bool { return m[0] == 1 && m[len(m)-1] == 1 }
	var large [][]byte
	for range 3 {
		large = append(large, batch(keptBytes/2))
	}
	of.release(nil)
	if kept(large[0]) || !kept(large[1]) || !kept(large[2]) {
		t.Error("other memory is kept than the last")
	}
	if m := batch(keptBytes / 2); &m[0] != &large[2][0] {
		t.Error("other memory is used again than the last")
	}
	small := batch(keptBytes / 4)
	of.release(nil)
	if kept(large[1]) || !kept(large[2]) || !kept(small) {
		t.Error("other memory is kept than the last, of two sizes")
	}
	if pool.kept != keptBytes/2+keptBytes/4 {
		t.Errorf("%d bytes are kept", pool.kept)
	}
	before, _ := extents(pool)
	for range 3 {
		batch(keptBytes / 2)
	}
	if after, _ := extents(pool); after != before {
		t.Errorf("%d bytes are taken though there is memory that was given back", after-before)
	}
}

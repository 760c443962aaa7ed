package feed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// TestMemoryOfSessionsInTurn is kept for the next one where holes can be punched, and else made anew.
func TestMemoryOfSessionsInTurn(t *testing.T) {
	refused := func() (*os.File, error) { return nil, unix.EPERM }
	cannot := func(*os.File, int64, int64) error { return errors.ErrUnsupported }
	for name, c := range map[string]struct {
		pool *segments
		told string // of segments, by three sessions
	}{
		"memory":                                 {memory(), "[1][1][1]"},
		"files":                                  {&segments{memory: refused, punch: punch}, "[1][1][1]"},
		"files that are not shrunk, as on macOS": {&segments{memory: refused, punch: cannot}, "[1][2][3]"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			d := fake.NewDataset(3, 1, 6)
			var fleets []*fleet
			for range 3 {
				fleets = append(fleets, newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{}))
			}
			back := returned(c.pool)
			s := start(t, c.pool)
			told := ""
			for _, fl := range fleets {
				p := s.connect(t)
				p.open(fl.join(t, 0, 1))
				exactlyOnce(t, d, p.drain())
				_ = p.conn.Close()
				<-back
				told += fmt.Sprint(p.told)
			}
			if told != c.told {
				t.Errorf("the sessions were told of the segments %s; expected %s", told, c.told)
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
	p := start(t, &segments{memory: func() (*os.File, error) { return nil, unix.EMFILE }, punch: punch}).connect(t)
	p.open(fl.join(t, 0, 1))
	for range 2 {
		if words := p.next().GetError().GetWords(); !strings.Contains(words, "missing") {
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

func TestArena(t *testing.T) {
	pool := memory()
	defer pool.close()
	a := &arena{pool: pool}
	var all [][]byte
	for _, n := range []int{1, 64, 65, segmentBytes - 1024, 1000, 2*segmentBytes + 1, 7} {
		m := a.allocate(n)
		if len(m) != n || cap(m) != n {
			t.Fatalf("%d bytes of %d in place of %d", len(m), cap(m), n)
		}
		m[0], m[n-1] = byte(len(all)), byte(len(all))
		all = append(all, m)
	}
	var ids []uint32
	for i, m := range all {
		id, at, ok := a.find(m)
		if !ok || at%64 != 0 || m[0] != byte(i) || m[len(m)-1] != byte(i) {
			t.Errorf("array %d lies at %d of %d, and has the values %d and %d", i, at, id, m[0], m[len(m)-1])
		}
		ids = append(ids, id)
	}
	if !slices.Equal(ids, []uint32{1, 1, 1, 1, 2, 3, 4}) {
		t.Errorf("the arrays lie in the segments %d", ids)
	}
	if _, _, ok := a.find(make([]byte, 8)); ok {
		t.Error("Go's memory is shared")
	}
	a.close(true)
	if len(pool.free) != keptSegments {
		t.Errorf("%d segments are kept", len(pool.free))
	}
}

// TestKeptMemoryIsBounded: what a session took beyond that goes back.
func TestKeptMemoryIsBounded(t *testing.T) {
	pool := memory()
	defer pool.close()
	a := &arena{pool: pool}
	m := a.allocate(segmentBytes)
	for _, at := range []int{0, keptBytes - 1, keptBytes, segmentBytes - 1} {
		m[at] = 1
	}
	g := a.segments[0]
	a.close(true)
	var st unix.Stat_t
	if err := unix.Fstat(int(g.file.Fd()), &st); err != nil || st.Blocks*512 > 2*int64(os.Getpagesize()) || st.Size != segmentBytes {
		t.Errorf("the segment takes %d bytes of %d: %v", st.Blocks*512, st.Size, err)
	}
	if g.mem[0] != 1 || g.mem[keptBytes-1] != 1 || g.mem[keptBytes] != 0 || g.mem[segmentBytes-1] != 0 {
		t.Error("other memory is kept")
	}
}

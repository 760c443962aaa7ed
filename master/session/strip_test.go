package session

import (
	"bytes"
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

// cells are n bytes of a value, one run after another.
func cells(runs ...int) (out []byte) {
	for i := 0; i < len(runs); i += 2 {
		out = append(out, bytes.Repeat([]byte{byte(runs[i+1])}, runs[i])...)
	}
	return out
}

func (j *job) strip(done, held []byte) {
	j.Helper()
	if p := j.s.Progress(); !bytes.Equal(p.GetStripDone(), done) || !bytes.Equal(p.GetStripHeld(), held) {
		j.Errorf("done %v\nwant %v\nheld %v\nwant %v", p.GetStripDone(), done, p.GetStripHeld(), held)
	}
}

// Two blocks of four shards: 16 cells a shard.
func TestStripFills(t *testing.T) {
	j := newJob(t, 2, 1)
	j.strip(nil, nil)
	j.plan(0, 0, 2, 4)
	j.plan(0, 1, 2, 4)
	j.join(0, "a")
	j.join(1, "b")
	j.strip(cells(128, 0), cells(128, 0))
	first := j.more(0)
	if len(first) != 1 {
		t.Fatalf("granted %v", first)
	}
	j.strip(cells(128, 0), cells(16, 255, 112, 0))
	j.more(1)
	j.more(0, first...)
	j.strip(cells(16, 255, 112, 0), cells(16, 0, 32, 255, 80, 0))
	left := j.sync(1)
	left.Leave = true
	j.do(left) // and gives the second shard back
	j.strip(cells(16, 255, 112, 0), cells(32, 0, 16, 255, 80, 0))
}

// Cells of many blocks hold several of them each.
func TestStripOfManyBlocks(t *testing.T) {
	j := newJob(t, 1, 1)
	j.join(0, "a")
	var consumed position.Set
	for range 64 {
		for e, b, ok := j.s.NeedsPlan(); ok; e, b, ok = j.s.NeedsPlan() {
			j.plan(e, b, 256, 1)
		}
		consumed = position.NewSet(append(consumed, j.more(0, consumed...)...)...)
	}
	done, held := j.s.strip()
	sum := 0
	for i := range done {
		sum += int(done[i]) + int(held[i])
	}
	// A shard is half a cell: what is done or held is all before the frontier.
	if want := int(j.s.frontier.Block) * 255 / 2; sum < want-64 || sum > want+64 || done[0] != 255 {
		t.Errorf("the strip sums up to %d, want about %d: %v %v", sum, want, done, held)
	}
}

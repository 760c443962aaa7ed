package position

import (
	"cmp"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
)

// Tally counts something by epoch. Like a Set it is never changed.
type Tally []Count

// Count is a Tally's of one epoch: they ascend, and none is 0.
type Count struct {
	Epoch uint32
	N     uint64
}

// Of is the count of an epoch.
func (t Tally) Of(epoch uint32) uint64 {
	if i, ok := t.find(epoch); ok {
		return t[i].N
	}
	return 0
}

func (t Tally) find(epoch uint32) (int, bool) {
	return slices.BinarySearchFunc(t, epoch, func(c Count, e uint32) int { return cmp.Compare(c.Epoch, e) })
}

// Sum is that of all epochs.
func (t Tally) Sum() (n uint64) {
	for _, c := range t {
		n += c.N
	}
	return n
}

// Plus adds two.
func (t Tally) Plus(u Tally) Tally { return t.with(u, func(a, b uint64) uint64 { return a + b }) }

// Max is the larger of two, epoch by epoch.
func (t Tally) Max(u Tally) Tally { return t.with(u, func(a, b uint64) uint64 { return max(a, b) }) }

func (t Tally) with(u Tally, f func(a, b uint64) uint64) Tally {
	if len(u) == 0 {
		return t
	}
	out := slices.Clone(t)
	for _, c := range u {
		if i, ok := out.find(c.Epoch); ok {
			out[i].N = f(out[i].N, c.N)
		} else if c.N > 0 {
			out = slices.Insert(out, i, c)
		}
	}
	return out
}

// From is the part of an epoch and those after it.
func (t Tally) From(epoch uint32) Tally {
	i, _ := t.find(epoch)
	return t[i:]
}

// Before is the part of epochs before one.
func (t Tally) Before(epoch uint32) Tally {
	i, _ := t.find(epoch)
	return t[:i:i]
}

// Equal reports whether two are the same.
func (t Tally) Equal(u Tally) bool { return slices.Equal(t, u) }

// Proto returns t as it crosses the wire.
func (t Tally) Proto() []*pb.EpochRows {
	var out []*pb.EpochRows
	for _, c := range t {
		out = append(out, &pb.EpochRows{Epoch: c.Epoch, Rows: c.N})
	}
	return out
}

const (
	// maxTally bounds how many epochs are read of a tally that comes from outside: few are open at once.
	maxTally = 1 << 10
	// maxCount bounds what is read of an epoch, so that no sum of a world's ranks wraps.
	maxCount = 1 << 40
)

// TallyFromProto reads a tally in any order; of an epoch that comes twice the larger count counts. Of too many epochs
// the newest are read.
func TallyFromProto(m []*pb.EpochRows) Tally {
	if len(m) == 0 {
		return nil
	}
	t := make(Tally, 0, len(m))
	for _, e := range m {
		if e.GetRows() > 0 {
			t = append(t, Count{Epoch: e.GetEpoch(), N: min(e.GetRows(), maxCount)})
		}
	}
	slices.SortFunc(t, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(b.N, a.N)) })
	t = slices.CompactFunc(t, func(a, b Count) bool { return a.Epoch == b.Epoch })
	return t[max(0, len(t)-maxTally):]
}

package lookup

import (
	"slices"
	"sort"

	"github.com/penstock-ml/penstock/worker/vector"
)

// history has the rows of each key, which the index numbers, in the order of the times from which on they count. Of
// rows of one time the file's order is kept, so that the last one is the newest.
type history struct {
	starts []int32 // where the rows of each key begin
	times  []int64
	rows   []int32
}

// newest is the last row of a key that counts at until; Absent if there is none that does not count before from.
func (h *history) newest(key int32, from, until int64) int32 {
	low, high := h.starts[key], h.starts[key+1]
	times := h.times[low:high]
	n := sort.Search(len(times), func(i int) bool { return times[i] > until })
	if n == 0 || times[n-1] < from {
		return Absent
	}
	return h.rows[int(low)+n-1]
}

// asOf is the index from keys to their histories. Rows whose time is null count at no time.
func (b *Builder) asOf() (index, *history, error) {
	firsts := new([]int32) // the first row of each key
	x, err := b.newIndex(firsts)
	if err != nil {
		return nil, nil, err
	}
	// Of each row its key's number, its own and its time; and of each key its first row, its start, and what is next.
	if err := b.take(b.rows * (4 + 4 + 8 + 4 + 4 + 4)); err != nil {
		return nil, nil, err
	}
	keys := make([]int32, 0, b.rows)
	*firsts = make([]int32, 0, b.rows)
	counts := make([]int32, 1, b.rows+1)
	when := b.pieces[b.keys()]
	err = b.each(func(k []*vector.Vector, piece, at int) error {
		if when[piece].IsNull(at) {
			return nil
		}
		next := int32(len(*firsts))
		key := x.put(k, at, next)
		if key == Absent {
			key, counts, *firsts = next, append(counts, 0), append(*firsts, rowAt(piece, at))
		}
		keys = append(keys, key)
		counts[key+1]++
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	h := b.inOrder(keys, counts)
	if _, ok := x.(*texts); ok {
		return x, h, b.take(-8 * b.rows) // keys, and what was next
	}
	err = b.drop(0)
	if err == nil {
		err = b.take(-12 * b.rows) // the first rows, too
	}
	return x, h, err
}

// inOrder makes the history of rows, of which keys has the number of each one's key, and counts how many there are of
// the key before.
func (b *Builder) inOrder(keys, counts []int32) *history {
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	h := &history{starts: counts, times: make([]int64, len(keys)), rows: make([]int32, len(keys))}
	next := slices.Clone(counts)
	i := 0
	when := b.pieces[b.keys()]
	_ = b.each(func(_ []*vector.Vector, piece, at int) error {
		if when[piece].IsNull(at) {
			return nil
		}
		place := next[keys[i]]
		next[keys[i]]++
		h.times[place], h.rows[place] = intOf(when[piece], at), rowAt(piece, at)
		i++
		return nil
	})
	for k := range len(counts) - 1 {
		one := ofKey{h.times[counts[k]:counts[k+1]], h.rows[counts[k]:counts[k+1]]}
		if !slices.IsSorted(one.times) {
			sort.Stable(one)
		}
	}
	return h
}

// ofKey are the rows of one key, to be sorted by time.
type ofKey struct {
	times []int64
	rows  []int32
}

func (o ofKey) Len() int           { return len(o.times) }
func (o ofKey) Less(i, j int) bool { return o.times[i] < o.times[j] }
func (o ofKey) Swap(i, j int) {
	o.times[i], o.times[j] = o.times[j], o.times[i]
	o.rows[i], o.rows[j] = o.rows[j], o.rows[i]
}

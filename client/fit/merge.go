package fit

import (
	"bytes"
	"container/heap"
)

// source shows keys in ascending order, each once. key and count are good until the next next.
type source interface {
	next() (bool, error)
	key() []byte
	count() uint64
}

// merged is one source of several: it adds up the counts of equal keys, which the sources may have many of once they
// are mapped. A mapping keeps their order.
type merged struct {
	heap   sources
	mapped func(key []byte) []byte // nil: as it is
	last   []byte
	n      uint64
}

// newMerged merges sources, which it moves to their first keys.
func newMerged(from []source, mapped func([]byte) []byte) (*merged, error) {
	m := &merged{mapped: mapped}
	for _, s := range from {
		ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if ok {
			m.heap = append(m.heap, s)
		}
	}
	heap.Init(&m.heap)
	return m, nil
}

func (m *merged) key() []byte   { return m.last }
func (m *merged) count() uint64 { return m.n }

func (m *merged) next() (bool, error) {
	if len(m.heap) == 0 {
		return false, nil
	}
	m.last = append(m.last[:0], m.top()...)
	m.n = 0
	for len(m.heap) > 0 && bytes.Equal(m.top(), m.last) {
		m.n += m.heap[0].count()
		if err := m.advance(); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (m *merged) top() []byte {
	if m.mapped != nil {
		return m.mapped(m.heap[0].key())
	}
	return m.heap[0].key()
}

func (m *merged) advance() error {
	ok, err := m.heap[0].next()
	switch {
	case err != nil:
		return err
	case !ok:
		heap.Pop(&m.heap)
	case len(m.heap) > 1:
		heap.Fix(&m.heap, 0)
	}
	return nil
}

type sources []source

func (h sources) Len() int           { return len(h) }
func (h sources) Less(i, j int) bool { return bytes.Compare(h[i].key(), h[j].key()) < 0 }
func (h sources) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sources) Push(x any)        { *h = append(*h, x.(source)) }
func (h *sources) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

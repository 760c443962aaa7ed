package convert

import (
	"bytes"
	"container/heap"
	"context"
	"errors"

	"github.com/apache/arrow/go/v15/arrow"
)

// merge is a sequence of the rows of others. Of equal rows, those of the sequences that come first do.
type merge struct {
	by     []sortKey
	schema *arrow.Schema
	most   int64   // bytes of the records that next makes, about
	heads  []*head // a heap by their next rows
	begun  bool
}

// head is a sequence, and its records that are used.
type head struct {
	rows   sequence
	number int
	rec    arrow.Record
	keys   []byte
	ends   []int // of the keys
	at     int   // row of the record that is next
	// prefix and key are those of that row.
	prefix   uint64
	key      []byte
	rowBytes int64
	// array is the record's number among those that next gathers from; negative: it is none of them yet.
	array int
}

func (s *sorted) merge(sequences []sequence) sequence {
	if len(sequences) == 1 {
		return sequences[0]
	}
	m := &merge{by: s.by, schema: s.schema(), most: s.bounds.record}
	for i, rows := range sequences {
		m.heads = append(m.heads, &head{rows: rows, number: i})
	}
	return m
}

func (m *merge) begin(ctx context.Context) error {
	heads := m.heads
	m.heads = nil
	for _, h := range heads {
		switch err := h.load(ctx, m.by); {
		case err == nil:
			m.heads = append(m.heads, h)
		case !errors.Is(err, errEnd):
			return err
		}
	}
	heap.Init(m)
	m.begun = true
	return nil
}

// next makes a record of the next rows.
func (m *merge) next(ctx context.Context) (arrow.Record, error) {
	if !m.begun {
		if err := m.begin(ctx); err != nil {
			return nil, err
		}
	}
	if len(m.heads) == 0 {
		return nil, errEnd
	}
	for _, h := range m.heads {
		h.array = -1
	}
	var from []arrow.Record
	var order spans
	for size := int64(0); size < m.most && len(m.heads) > 0; {
		h := m.heads[0]
		if h.array < 0 {
			h.array, from = len(from), append(from, h.rec)
		}
		if last := len(order) - 1; last >= 0 && order[last].array == h.array { // whose rows follow one another
			order[last].n++
		} else {
			order = append(order, span{h.array, h.at, 1})
		}
		size += h.rowBytes
		if err := m.advance(ctx); err != nil {
			return nil, err
		}
	}
	return gatherRecord(m.schema, from, order)
}

// advance goes behind the first row.
func (m *merge) advance(ctx context.Context) error {
	h := m.heads[0]
	if h.at++; h.at < len(h.ends) {
		h.useKey()
		heap.Fix(m, 0)
		return nil
	}
	err := h.load(ctx, m.by)
	if errors.Is(err, errEnd) {
		heap.Pop(m)
		return nil
	}
	if err == nil {
		heap.Fix(m, 0)
	}
	return err
}

// load goes to the next record.
func (h *head) load(ctx context.Context, by []sortKey) (err error) {
	if h.rec, err = h.rows.next(ctx); err != nil {
		return err
	}
	h.keys, h.ends = h.keys[:0], h.ends[:0]
	for row := range int(h.rec.NumRows()) {
		h.keys = appendKey(h.keys, by, h.rec, row)
		h.ends = append(h.ends, len(h.keys))
	}
	h.at, h.array = 0, -1
	h.rowBytes = max(1, sizeOf(h.rec)/h.rec.NumRows())
	h.useKey()
	return nil
}

func (h *head) useKey() {
	from := 0
	if h.at > 0 {
		from = h.ends[h.at-1]
	}
	h.key = h.keys[from:h.ends[h.at]]
	h.prefix = prefix(h.key)
}

// Len, Less, Swap, Push and Pop are those of a heap.
func (m *merge) Len() int { return len(m.heads) }

func (m *merge) Less(i, j int) bool {
	a, b := m.heads[i], m.heads[j]
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.number < b.number
}

func (m *merge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }

func (m *merge) Push(x any) { m.heads = append(m.heads, x.(*head)) }

func (m *merge) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}

package fit

import "sync/atomic"

// budget is memory that the tables of all columns share. Each may have a part of it at any time; what is more comes
// from what they have in common.
type budget struct {
	floor  int64
	common atomic.Int64 // free
}

// newBudget gives half to the tables one by one.
func newBudget(bytes int64, tables int) *budget {
	b := &budget{floor: bytes / 2 / int64(max(tables, 1))}
	b.common.Store(bytes - b.floor*int64(tables))
	return b
}

// change asks for memory, or gives it back: a table that held so many bytes is to hold others.
func (b *budget) change(from, to int64) bool {
	more := b.more(from, to)
	if b.common.Add(-more) < 0 && more > 0 {
		b.common.Add(more)
		return false
	}
	return true
}

// settle is change of what is there already, or no longer.
func (b *budget) settle(from, to int64) { b.common.Add(-b.more(from, to)) }

func (b *budget) more(from, to int64) int64 { return max(to, b.floor) - max(from, b.floor) }

package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tables"
)

// held are the side tables of a stream's program; nil in place of those that no step looks values up in.
type held []*tables.Held

// lookups are the tables for the steps.
func (h held) lookups() []*lookup.Table {
	all := make([]*lookup.Table, len(h))
	for i, t := range h {
		if t != nil {
			all[i] = t.Table
		}
	}
	return all
}

// release says that they are not used any more.
func (h held) release() {
	for i, t := range h {
		if t != nil {
			t.Release()
			h[i] = nil
		}
	}
}

// join waits for the tables that the program's steps look values up in. It comes first: what the stream itself may hold
// is what they leave.
func (s *Stream) join(ctx context.Context) error {
	s.tables = make(held, len(s.program.GetTables()))
	for _, step := range s.program.GetSteps() {
		at := int(step.GetTable())
		if step.Table == nil || at >= len(s.tables) || s.tables[at] != nil {
			continue
		}
		t, err := s.pipeline.tables.Hold(ctx, s.program.GetTables()[at])
		switch {
		case errors.Is(err, tables.ErrUnusable): // by no worker: what it holds is no fault of the files
			return fmt.Errorf("%w: %s: %w", ErrProgram, step.GetAt(), err)
		case err != nil:
			return fmt.Errorf("%s: %w", step.GetAt(), err)
		}
		s.tables[at] = t
		s.quota.Beside += t.Bytes
	}
	return nil
}

// caches are several.
type caches []memory.Cache

// Size implements memory.Cache.
func (c caches) Size() (n int64) {
	for _, each := range c {
		n += each.Size()
	}
	return n
}

// Shrink implements memory.Cache: the first ones are given up first.
func (c caches) Shrink(n int64) {
	for _, each := range c {
		before := each.Size()
		if n > 0 {
			each.Shrink(n)
		}
		n -= before - each.Size()
	}
}

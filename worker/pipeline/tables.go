package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tables"
)

// join waits for the tables that the program's steps look values up in. It comes first: what the stream itself may hold
// is what they leave.
func (s *Stream) join(ctx context.Context) (err error) {
	s.tables, err = s.pipeline.tables.All(ctx, s.program)
	if errors.Is(err, tables.ErrUnusable) { // by no worker: what it holds is no fault of the files
		return fmt.Errorf("%w: %w", ErrProgram, err)
	}
	s.quota.Beside += s.tables.Bytes()
	return err
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

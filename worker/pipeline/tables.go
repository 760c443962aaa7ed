package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tables"
)

// join waits for the tables that the program's steps look values up in. It comes first: what the stream itself may hold
// is what they leave.
func (s *Stream) join(ctx context.Context) (err error) {
	s.tables, err = s.pipeline.tables.All(ctx, s.ticket.GetNamespace()+"/"+s.ticket.GetSession(), s.program)
	s.session.tell(err)
	if errors.Is(err, tables.ErrUnusable) { // by no worker: what it holds is no fault of the files
		return fmt.Errorf("%w: %w", ErrProgram, err)
	}
	s.quota.Beside += s.tables.Bytes()
	return err
}

// refusalBytes bounds what masters are told of a refusal.
const refusalBytes = 1 << 10

// tell notes for the masters why this worker refuses the session's streams, as far as others may take them: a table is
// not the one any more that the session was opened with, and those that have that in memory go on; or it cannot be had
// here. What may be over soon is no refusal, and what no worker can do ends the session.
func (c *counted) tell(err error) {
	var words string
	switch {
	case err == nil:
		c.refusal.Store(nil)
		return
	case storage.IsTransient(err) || errors.Is(err, tables.ErrUnusable):
		return
	case storage.IsOurs(err), errors.Is(err, memory.ErrLimit):
		words = clipped(err.Error())
	case errors.Is(err, storage.ErrChanged), errors.Is(err, fs.ErrNotExist):
		words = clipped(err.Error()) + "; bring the table back as it was, or open a session anew"
	default:
		return
	}
	c.refusal.Store(&words)
}

// clipped is a text that a report can carry.
func clipped(text string) string {
	if len(text) > refusalBytes {
		text = text[:refusalBytes] + "..."
	}
	return strings.ToValidUTF8(text, "")
}

// refused is why this worker refuses the session's streams; "": it does not.
func (c *counted) refused() string {
	if words := c.refusal.Load(); words != nil {
		return *words
	}
	return ""
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

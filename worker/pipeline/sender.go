package pipeline

import "context"

// Way is how a stream's batches go to its trainer. Those that lie in shared memory go in that.
type Way uint8

// The ways.
const (
	ByGRPC Way = iota
	ByLink
	InMemory
)

// sender hands batches to the trainer, and counts them.
type sender struct {
	stats     *stats
	crossZone bool // the trainer is in another zone
	way       Way  // to it
}

// run hands the batches to emit; those that were ready when something failed, too.
func (s *sender) run(ctx context.Context, ready <-chan Batch, emit Emit) error {
	for b := range ready {
		b.More = len(ready) > 0
		rows, bytes, way := int64(b.Meta.GetRows()), b.Bytes, s.way
		if b.Shared != nil {
			way = InMemory
		}
		if err := s.stats.timed(&s.stats.send, func() error { return emit(ctx, b) }); err != nil {
			return err
		}
		s.count(rows, bytes, way)
	}
	return nil
}

// count counts a batch that was sent.
func (s *sender) count(rows, bytes int64, way Way) {
	s.stats.rows.Add(rows)
	s.stats.bytesSent.Add(bytes)
	if s.crossZone {
		s.stats.crossZone.Add(bytes)
	}
	switch way {
	case InMemory:
		s.stats.lent.Add(bytes)
	case ByLink:
		s.stats.linked.Add(bytes)
	}
}

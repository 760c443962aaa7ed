package session

import (
	"github.com/penstock-ml/penstock/api/position"
)

// NeedsPlan returns the block to plan next, so that grants need not wait: the block of the next positions to grant
// and the one after it, and more while they have fewer than two shards for each rank.
func (s *State) NeedsPlan() (epoch, index uint32, ok bool) {
	if s.failure != "" {
		return 0, 0, false
	}
	return s.policy().needsPlan()
}

func (c Planned) apply(s *State, ch *Changes) (Reply, error) {
	b := block{epoch: c.Epoch, index: c.Block, blocks: c.Blocks, shards: c.Shards}
	b.counts = s.countsOf(c.Outputs)
	if err := b.checkOutputs(); err != nil {
		return Reply{}, invalid("planned %w", err)
	}
	if c.Block >= c.Blocks || c.Epoch >= s.id.Epochs {
		return Reply{}, invalid("planned block %d/%d: the epoch has %d blocks, the session %d epochs",
			c.Epoch, c.Block, c.Blocks, s.id.Epochs)
	}
	if c.Epoch < s.closed {
		return Reply{}, nil
	}
	of := BlockIndexes{c.Epoch, c.Block, c.Indexes}
	if before := s.IndexesOf(c.Epoch, c.Block); before != "" && before != c.Indexes {
		return Reply{}, invalid("block %d/%d was planned with other indexes of its files than before", c.Epoch, c.Block)
	}
	if e := s.blocks.epoch(c.Epoch); e != nil && e.blocks > 0 && e.blocks != c.Blocks {
		return Reply{}, invalid("planned block %d/%d says that the epoch has %d blocks, an earlier one said %d",
			c.Epoch, c.Block, c.Blocks, e.blocks)
	}
	if have, ok := s.blocks.find(b.start()); ok {
		if !have.same(b) {
			return Reply{}, invalid("block %d/%d was planned with %d shards, and now with %d",
				c.Epoch, c.Block, have.shards, b.shards)
		}
		return Reply{}, nil
	}
	s.policy().plan(b, c.Rows, ch)
	s.noteIndexes(of)
	s.closeEpochs(ch)
	return Reply{}, nil
}

func earlier(p, q position.Position) position.Position {
	if q.Less(p) {
		return q
	}
	return p
}

// reach is the last epoch that may be planned and granted: the one beyond the open one, so that loops need not wait at
// an epoch's end. Where nothing limits the epochs, many jobs read one alone: rows beyond the open one are granted once
// a loop has come to the second one, and none that is more than one beyond where the loops are, for epochs without any
// row would close one after the other.
func (s *State) reach() uint32 {
	switch {
	case s.id.Epochs != noLimit:
		return s.closed + 1
	case s.closed == 0:
		return 0
	}
	at := s.begun.Epoch
	for _, k := range s.ranks {
		if at >= s.closed {
			break
		}
		if k != nil {
			at = max(at, k.steps.Epoch)
		}
	}
	if at >= s.closed {
		return s.closed + 1
	}
	return min(s.closed, at+1)
}

// free is about how many shards of an epoch nobody holds, of which some are returned.
func (s *State) free(returned position.Set, epoch uint32) (shards int64) {
	for _, iv := range returned {
		shards += s.blocks.estimate(iv.From, iv.To)
	}
	if s.frontier.Epoch == epoch {
		shards += s.blocks.estimate(s.frontier, position.Position{Epoch: epoch + 1})
	}
	return shards
}

package session

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Command is one of Planned, Join, Sync, Expire, Fail, CreateCheckpoint,
// ListCheckpoints, DeleteCheckpoint and Restore.
type Command interface {
	apply(s *State, ch *Changes) (Reply, error)
}

// Planned says that a block is planned (and lies in etcd). Saying it again changes nothing.
type Planned struct {
	Epoch, Block uint32
	Blocks       uint32  // number of blocks of the epoch
	Shards       uint32  // number of shards of the block, may be 0
	Rows         int64   // of the block, before the filter
	Indexes      string  // digests of those of its files; "": they have none
	Outputs      Outputs // the rows of its windows where they are not counted; nil: not known
}

// Join makes its caller rank Rank, and fences earlier incarnations of that rank.
type Join struct {
	Rank, World uint32
	Nonce       string // unique for each start of the rank
	Restore     []Checkpoint
	Restoring   bool // takes part in a restore; implied by Restore
	AcceptCode  bool // states of other code are good
	// Unreported bounds the rows that an earlier start of the rank, which the launcher says is dead, may have handed
	// over since its last Sync: those of what it holds.
	Unreported int64
}

// Sync is a trainer's complete report.
type Sync struct {
	Rank        uint32
	Generation  uint64
	Incarnation uint64
	Nonce       string         // of the Join
	Consumed    position.Set   // in epochs not closed
	Skips       position.Tally // bad rows that were left out beside Consumed
	BadRows     []BadRow       // a few of them
	Released    position.Set
	Leave       bool
	Counters    Counters
	Revision    uint64 // newest seen
	BaseVersion uint64 // that the trainer has
	WantsMore   bool
	Idle        bool   // nothing of the open epoch is left of what the rank holds, but for its batch in the making
	Streams     uint32 // that the trainer may open; it gets so many shards at once unless others would get fewer
	Steps       *Steps // nil: the trainer does not say
	Refused     []Refusal
	Part        *Part  // of a checkpoint; nil: none was asked for
	From        uint32 // the epochs before it the training loop has left
}

// Expire says that a rank's lease ended: what it holds goes back. It means only the incarnation that it names.
type Expire struct {
	Rank        uint32
	Incarnation uint64
	Unreported  int64 // bounds the rows that it may have handed over since its last Sync: those of what it holds
}

// Fail ends the session. The first reason stays, cut to a few KiB.
type Fail struct {
	Reason  string
	BadData bool // data cannot be read, or changed
}

// Reply is the answer to Join, Sync and CreateCheckpoint; it is empty for other commands.
type Reply struct {
	// Of Join:
	Kind        pb.JoinKind // unspecified while a restore waits
	Generation  uint64
	Incarnation uint64
	Consumed    position.Set
	Skips       position.Tally // bad rows that were left out beside Consumed
	WaitingFor  []uint32
	Begun       Steps    // where the rank's training loop goes on
	Earlier     Counters // of the rank's earlier incarnations in this generation

	// OtherCode is what the code of restored states had otherwise than the session's, if a restore is complete.
	OtherCode []string

	// Of Sync:
	Revision  uint64
	Unchanged bool                // the grants are those of the request's revision
	Grants    []position.Interval // all that is held and not consumed, each within one shard
	Release   position.Set        // please give back
	// all of the open epoch is granted to someone, and none of it comes to a rank that is idle
	Drained bool
	Pieces  []Piece      // in place of grants in order DETERMINISTIC
	Starts  []LaneStart  // with them; of Join, too
	Steps   []EpochSteps // from the epoch of the request's steps to the open one

	Order *Order // to take a State; nil: none

	Taken       *Taken   // of CreateCheckpoint
	Checkpoints []*Named // of ListCheckpoints, in the order of their steps

	// Of Join and Sync:
	Closed      uint32
	Finished    bool
	Failure     string
	BadData     bool
	BaseVersion uint64
	// What follows is left out of the answer to a Sync with the newest BaseVersion.
	Base              position.Set
	Members, Departed []uint32
	DepartedRows      []int64 // that each of Departed handed over in this generation
	Skipped           []Skipped
	SkippedRowGroups  uint32
	BaseSkips         position.Tally // bad rows that were left out beside Base
	Indexes           []BlockIndexes // of the blocks that are not consumed: of each answer
}

// Counters are cumulative over an incarnation. See pb.Counters.
type Counters struct {
	Rows, Batches, Bytes, StallNS, ComputeNS, Failovers int64
}

// max takes the newer one of two reports, which may have come in any order.
func (c Counters) max(d Counters) Counters {
	return Counters{
		Rows: max(c.Rows, d.Rows), Batches: max(c.Batches, d.Batches), Bytes: max(c.Bytes, d.Bytes),
		StallNS: max(c.StallNS, d.StallNS), ComputeNS: max(c.ComputeNS, d.ComputeNS), Failovers: max(c.Failovers,
			d.Failovers),
	}
}

func (c Counters) add(d Counters) Counters {
	return Counters{
		Rows: c.Rows + d.Rows, Batches: c.Batches + d.Batches, Bytes: c.Bytes + d.Bytes,
		StallNS: c.StallNS + d.StallNS, ComputeNS: c.ComputeNS + d.ComputeNS, Failovers: c.Failovers + d.Failovers,
	}
}

// total counts over all incarnations of a rank in this generation.
func (k *rank) total() Counters { return k.earlier.add(k.counters) }

func (c Fail) apply(s *State, ch *Changes) (Reply, error) {
	if s.failure == "" && c.Reason != "" {
		s.failure, s.badData = short(c.Reason, maxReason), c.BadData
		ch.Head = true
	}
	return Reply{}, nil
}

// common fills in what Join and Sync are both told.
func (s *State) common(r Reply, baseVersion uint64) Reply {
	r.Indexes = s.Indexes()
	r.Closed, r.Finished, r.Failure, r.BadData, r.BaseVersion = s.closed, s.Finished(), s.failure, s.badData,
		s.baseVersion
	if baseVersion == s.baseVersion {
		return r
	}
	r.Base, r.Skipped, r.SkippedRowGroups = s.base, s.skipped, s.skippedRowGroups()
	r.BaseSkips = s.badRows.base
	for i, k := range s.ranks {
		if k == nil {
			continue
		}
		r.Members = append(r.Members, uint32(i))
		if k.departed {
			r.Departed, r.DepartedRows = append(r.Departed, uint32(i)), append(r.DepartedRows, k.total().Rows)
		}
	}
	return r
}

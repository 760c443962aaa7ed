package spec

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// MaxBatchSize is the most rows of a rank's batch.
	MaxBatchSize = 16 << 20
	// MaxWorldSize is the most ranks of a session.
	MaxWorldSize = 1 << 16
	// MaxLanes is the most lanes of a session. States, and what ranks are told, have a number for each, and trainers
	// read from all of theirs in each step.
	MaxLanes = 1 << 13
)

// Counted reports whether it is known when a block is planned how many output rows each of its windows has: the steps
// of an epoch, or what each lane gets, follow from that.
func Counted(s *pb.Spec) bool {
	return s.GetLastBatch() == pb.LastBatch_DROP || s.GetOrder() == pb.Order_DETERMINISTIC
}

// Lanes is the number of lanes of a session that was opened with a world size; 0 unless its order is deterministic.
func Lanes(s *pb.Spec, opened uint32) uint32 {
	switch {
	case s.GetOrder() != pb.Order_DETERMINISTIC:
		return 0
	case s.GetLanes() == 0:
		return opened
	}
	return s.GetLanes()
}

// GlobalBatch is the rows of a step over all ranks of a session that was opened with a world size, or 0 where they are
// as many as the ranks' batches of batch_size come to, whatever the world size.
func GlobalBatch(s *pb.Spec, opened uint32) int64 {
	if s.GetGlobalBatchSize() == 0 && s.GetOrder() == pb.Order_DETERMINISTIC {
		return s.GetBatchSize() * int64(opened)
	}
	return s.GetGlobalBatchSize()
}

// BatchSize is the rows of a rank's batch in a session that was opened with a world size and has another one since, or
// the same. The error says why the session cannot have that world size.
func BatchSize(s *pb.Spec, opened, world uint32) (int64, error) {
	lanes, global, w := int64(Lanes(s, opened)), GlobalBatch(s, opened), int64(world)
	switch {
	case world == 0 || world > MaxWorldSize:
		return 0, fmt.Errorf("world size %d; want 1 to %d ranks", world, MaxWorldSize)
	case lanes > MaxLanes:
		return 0, fmt.Errorf(
			"lanes: order deterministic has %d, one for each rank that the session is opened with unless the spec "+
				"says how many; "+
				"want at most %d: set lanes, or have fewer ranks", lanes, MaxLanes)
	case lanes > 0 && lanes%w != 0:
		return 0, fmt.Errorf("world size %d does not divide the %d lanes of the deterministic order: "+
			"have %d ranks or another divisor, or open a session with other lanes", world, lanes, lanes)
	case lanes > 0 && global%lanes != 0:
		return 0, fmt.Errorf(
			"the %d lanes of the deterministic order do not divide the %d rows of a step over all ranks: "+
				"set lanes, or the batch size, so that they do", lanes, global)
	case global > 0 && global%w != 0:
		return 0, fmt.Errorf(
			"world size %d does not divide global_batch_size %d: have another number of ranks, or another "+
				"global_batch_size", world, global)
	case global/w > MaxBatchSize:
		return 0, fmt.Errorf("global_batch_size %d makes batches of %d rows for each of %d ranks; want at most %d",
			global, global/w, world, MaxBatchSize)
	case global > 0:
		return global / w, nil
	}
	return s.GetBatchSize(), nil
}

// sizes checks what a spec says of batches, lanes and order by itself.
func (r *resolver) sizes(s *pb.Spec) {
	batch, global := s.GetBatchSize(), s.GetGlobalBatchSize()
	switch {
	case batch != 0 && global != 0:
		r.problems.add("global_batch_size", "found %d, and batch_size %d; want one of them", global, batch)
	case global != 0 && (global < 0 || global > MaxBatchSize*MaxWorldSize):
		r.problems.add("global_batch_size", "found %d; want the rows of a step over all ranks, from 1 to %d for each",
			global, MaxBatchSize)
	case global == 0 && (batch <= 0 || batch > MaxBatchSize):
		r.problems.add("batch_size", "found %d; want the rows of a batch, from 1 to %d", batch, MaxBatchSize)
	}
	if _, ok := pb.LastBatch_name[int32(s.GetLastBatch())]; !ok {
		r.problems.add("last_batch", "found the unknown number %d; want uneven, drop or pad", s.GetLastBatch())
	}
	if _, ok := pb.Order_name[int32(s.GetOrder())]; !ok {
		r.problems.add("order", "found the unknown number %d; want fast or deterministic", s.GetOrder())
	}
	lanes := int64(s.GetLanes())
	switch {
	case lanes > 0 && s.GetOrder() != pb.Order_DETERMINISTIC:
		r.problems.add("lanes", "found %d in order fast, which has none; want order: deterministic, or no lanes", lanes)
	case lanes > MaxLanes:
		r.problems.add("lanes", "found %d; want 1 to %d: each step takes rows from all of them", lanes, MaxLanes)
	case lanes > 0 && global > 0 && global%lanes != 0:
		r.problems.add("lanes",
			"found %d, which do not divide global_batch_size %d; each lane gives as many rows to a step", lanes, global)
	}
	r.checkOnError(s)
}

// Describe says in words in which order and batches ranks get rows. opened is the world size that the session was
// opened with; 0 if there is none yet.
func Describe(s *pb.Spec, opened uint32) string {
	batch := fmt.Sprintf("batches of %d rows for each rank", s.GetBatchSize())
	if global := s.GetGlobalBatchSize(); global > 0 {
		batch = fmt.Sprintf("steps of %d rows over all ranks, whose number must divide that", global)
	}
	order := "fast: ranks get rows as they take them"
	if s.GetOrder() == pb.Order_DETERMINISTIC {
		lanes := "as many lanes as the session is opened with ranks"
		if n := Lanes(s, opened); n > 0 {
			lanes = fmt.Sprintf("%d lanes", n)
		}
		order = "deterministic: the same global batches for every number of ranks that divides the lanes; " + lanes
		if opened > 0 && s.GetGlobalBatchSize() == 0 {
			batch = fmt.Sprintf("steps of %d rows over all ranks", GlobalBatch(s, opened))
		}
	}
	last := map[pb.LastBatch]string{
		pb.LastBatch_DROP: "the last, shorter ones are left out, so that all ranks get equally many",
		pb.LastBatch_PAD:  "the last ones are padded, so that all ranks get equally many",
	}[s.GetLastBatch()]
	switch {
	case last != "":
	case opened == 0 && s.GetLastBatch() == pb.LastBatch_LAST_BATCH_UNSPECIFIED:
		last = "the last of an epoch are left out where several ranks read, and else as short as they are"
	default:
		last = "the last of an epoch are as short as they are"
	}
	return order + "; " + batch + "; " + last
}

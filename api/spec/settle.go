package spec

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Unlimited is the number of epochs of a session that has no limit: none comes so far.
const Unlimited = math.MaxUint32

// Epochs is how many epochs a session's spec allows. Where it says nothing, a master of an earlier release opened the
// session, when that meant one.
func Epochs(s *pb.Spec) uint32 { return max(1, s.GetEpochs()) }

// Opened says with what a session is opened.
type Opened struct {
	World uint32       // ranks
	Saved pb.LastBatch // the ending of the session of which states are restored, if there are any
	// Earlier says that who opens it is of an earlier release, where a spec that says nothing means one epoch, and
	// uneven.
	Earlier bool
}

// Settle returns the spec of a session that is opened: a copy that has written out how many epochs there are and how
// they end. byDefault says that the number of ranks decided on the ending. Several that wait for each other in each
// step, as most do, would wait for ever for the step that one of them does not have, so that theirs drops what does not
// fill a batch of each.
func Settle(s *pb.Spec, with Opened) (settled *pb.Spec, byDefault bool, err error) {
	s = proto.CloneOf(s)
	if s == nil {
		s = &pb.Spec{}
	}
	if s.Epochs == 0 && !with.Earlier {
		s.Epochs = Unlimited
	}
	switch {
	case s.LastBatch != pb.LastBatch_LAST_BATCH_UNSPECIFIED:
	case with.Saved != pb.LastBatch_LAST_BATCH_UNSPECIFIED:
		s.LastBatch = with.Saved
	case with.Earlier:
		s.LastBatch = pb.LastBatch_UNEVEN
	case with.World <= 1:
		s.LastBatch, byDefault = pb.LastBatch_UNEVEN, true
	case skips(s) != "" && s.Order != pb.Order_DETERMINISTIC: // with which no ending goes by itself
		return nil, false, Problems{
			{Path: "last_batch", Message: fmt.Sprintf("found nothing, with on_error: %s and %d ranks, "+
				"whose batches on_error may make fewer; want pad, with which all ranks get equally many, or "+
				"uneven, for ranks that do not wait for each other (drop, the default of several ranks, counts rows "+
				"before they are read: it goes with on_error: fail, and with skip_rows where counting sees the same "+
				"bad rows)", skips(s), with.World)},
		}
	default:
		s.LastBatch, byDefault = pb.LastBatch_DROP, true
	}
	return s, byDefault, nil
}

// Like returns a copy of a spec that takes from a session's what it leaves out of epochs and last_batch.
func Like(s, of *pb.Spec) *pb.Spec {
	s = proto.CloneOf(s)
	if s.Epochs == 0 {
		s.Epochs = of.GetEpochs()
	}
	if s.LastBatch == pb.LastBatch_LAST_BATCH_UNSPECIFIED {
		s.LastBatch = of.GetLastBatch()
	}
	return s
}

// skips names what on_error says may be left out; "" is nothing.
func skips(s *pb.Spec) string {
	switch {
	case s.GetOnError().GetSkip() > 0:
		return "skip"
	case s.GetOnError().GetSkipRows() > 0:
		return "skip_rows"
	}
	return ""
}

package master

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/session"
)

func identityOf(m *pb.SessionMeta) session.Identity {
	s, program := m.GetSession(), &pb.Program{}
	unread := proto.Unmarshal(s.GetProgram(), program) != nil // the planner says so
	skipRows := s.GetSpec().GetOnError().GetSkipRows()
	return session.Identity{
		Session: s.GetId(), Epochs: spec.Epochs(s.GetSpec()), FirstWorldSize: s.GetWorldSize(),
		ProgramDigest: string(s.GetProgramDigest()), DatasetDigest: string(s.GetDatasetDigest()),
		PlannerDigest: string(s.GetPlannerDigest()), LastBatch: s.GetSpec().GetLastBatch(),
		Selects:     unread || spec.RowsOf(program) != spec.SameRows || skipRows > 0,
		BatchSize:   uint64(s.GetSpec().GetBatchSize()),
		GlobalBatch: uint64(spec.GlobalBatch(s.GetSpec(), s.GetWorldSize())), Lanes: spec.Lanes(s.GetSpec(),
			s.GetWorldSize()),
		Skip: s.GetSpec().GetOnError().GetSkip(), SkipRows: skipRows,
		Code: s.GetSpec().GetCode(),
	}
}

// view is what the session looks like from outside.
func (r *runner) view() *pb.Session {
	out := viewOf(r.meta, r.state, r.state.Progress())
	now := r.stand(time.Now())
	out.State, out.StateSinceUnix = now.state, now.since.Unix()
	out.Code = r.code.Load()
	return out
}

// viewOf is what a session looks like from outside. What its fields refer to, above all spec and program, is of the
// meta.
func viewOf(meta *pb.SessionMeta, s *session.State, progress *pb.Progress) *pb.Session {
	out := openedAs(meta)
	out.Generation, out.WorldSize, out.Failure, out.Progress = s.Generation(), s.World(), s.Failure(), progress
	out.RestoredFrom = s.From().Proto()
	out.BadData = s.BadData()
	skipped, rowGroups := s.Skipped()
	out.Skipped, out.SkippedRowGroups = session.SkippedProto(skipped), rowGroups
	skips, bad := s.BadRows()
	out.SkippedRows, out.BadRows = skips.Proto(), session.BadRowsProto(bad)
	opened := meta.GetSession().GetWorldSize()
	out.Lanes = spec.Lanes(out.GetSpec(), opened)
	out.BatchSize, _ = spec.BatchSize(out.GetSpec(), opened, s.World()) // no session has a world size that does not fit
	return out
}

// openedAs is a session as it was opened. What its fields refer to is the meta's, which never changes.
func openedAs(meta *pb.SessionMeta) *pb.Session {
	out := &pb.Session{}
	meta.GetSession().ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(field, v)
		return true
	})
	out.Namespace = cmp.Or(out.GetNamespace(), identity.DefaultNamespace)
	return out
}

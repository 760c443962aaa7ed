package master

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/store"
)

// Dataset is a spec resolved against the files that it names.
type Dataset struct {
	Program *pb.Program
	Files   []*pb.File // the frozen listing
	Bytes   int64      // of all files
	// Schema of the files of the first block, which the program was resolved against.
	Schema spec.Schema

	footers *footerLoader
}

// Footers reads the footers of all files, telling progress, from several goroutines, how many it has.
func (d *Dataset) Footers(ctx context.Context, progress func(done int)) ([]plan.File, error) {
	return d.footers.load(ctx, d.Files, progress)
}

// Resolve lists a spec's files and resolves it against the schema of the first block that an epoch would read. Its
// errors are spec.Problems where the spec is at fault.
func Resolve(ctx context.Context, st storage.Storage, cache *footer.Cache, ops spec.Catalog, cfg plan.Config, s *pb.Spec) (*Dataset, error) {
	d := &Dataset{footers: &footerLoader{storage: st, cache: cache, profile: s.GetDataset().GetStorage()}}
	listed, err := st.List(ctx, s.GetDataset().GetStorage(), s.GetDataset().GetUri())
	if err != nil {
		return nil, err
	}
	if d.Files, err = plan.FilterFiles(listed, s.GetDataset().GetPartitions()); err != nil {
		return nil, spec.Problems{{Path: "dataset.partitions", Message: err.Error()}}
	}
	if len(d.Files) == 0 {
		return nil, spec.Problems{{Path: "dataset.partitions", Message: fmt.Sprintf("none of %d files passes %q", len(listed), s.GetDataset().GetPartitions())}}
	}
	for _, f := range d.Files {
		d.Bytes += f.GetSize()
	}
	var first []*pb.File
	for _, i := range plan.Blocks(cfg, d.Files, plan.Order(d.Files, s.GetSeed(), s.GetShuffle(), 0))[0] {
		first = append(first, d.Files[i])
	}
	loaded, err := d.footers.load(ctx, first, func(int) {})
	if err != nil {
		return nil, err
	}
	if d.Schema, err = schemaOf(loaded); err != nil {
		return nil, err
	}
	if d.Program, err = spec.Resolve(s, d.Schema, ops); err != nil {
		return nil, err
	}
	return d, nil
}

// open creates a session and starts it, or finds the one of that id.
func (t *term) open(ctx context.Context, req *pb.OpenRequest) (*runner, error) {
	if err := checkOpen(req); err != nil {
		return nil, err
	}
	if r, ok := t.find(req.GetSession()); ok {
		return r, r.sameSpec(req)
	}
	cfg := &t.master.cfg
	d, err := Resolve(ctx, cfg.Storage, t.master.footers, cfg.Ops, cfg.Plan, req.GetSpec())
	if err != nil {
		return nil, openError(err)
	}
	meta, err := t.master.newMeta(req, d)
	if err != nil {
		return nil, err
	}
	_, err = cfg.Store.Create(ctx, t.leadership, meta, d.Files)
	switch {
	case errors.Is(err, store.ErrExists): // by a call at the same time
	case err != nil:
		return nil, err
	default:
		cfg.Logger.Info("session opened", "session", req.GetSession(), "files", len(d.Files), "bytes", d.Bytes, "world_size", meta.GetSession().GetWorldSize())
	}
	r, err := t.start(req.GetSession())
	if err != nil {
		return nil, err
	}
	return r, r.sameSpec(req)
}

func (m *Master) newMeta(req *pb.OpenRequest, d *Dataset) (*pb.SessionMeta, error) {
	program, err := spec.Marshal(d.Program)
	if err != nil {
		return nil, err
	}
	return &pb.SessionMeta{
		Session: &pb.Session{
			Id: req.GetSession(), Spec: req.GetSpec(), WorldSize: max(1, req.GetWorldSize()), Generation: 1,
			Program: program, ProgramDigest: []byte(ticket.Digest(program)), DatasetDigest: plan.DatasetDigest(d.Files),
			CreatedUnix: time.Now().Unix(), Files: int64(len(d.Files)), Bytes: d.Bytes,
		},
		PlannerVersion: plan.Version,
		Planner:        m.cfg.Plan.Proto(),
	}, nil
}

func checkOpen(req *pb.OpenRequest) error {
	id := req.GetSession()
	if id == "" || len(id) > 200 || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' }) {
		return status.Errorf(codes.InvalidArgument, "session id %q: want 1 to 200 printable characters", id)
	}
	if req.GetSpec() == nil {
		return status.Errorf(codes.NotFound, "session %s does not exist; open it with a spec", id)
	}
	return nil
}

// sameSpec refuses to attach to a session of another spec.
func (r *runner) sameSpec(req *pb.OpenRequest) error {
	have := r.meta.GetSession()
	if req.GetSpec() == nil || proto.Equal(have.GetSpec(), req.GetSpec()) {
		return nil
	}
	return status.Errorf(codes.AlreadyExists, "session %s exists with another spec: %s; use another session id, or delete that session",
		r.id, strings.Join(spec.Diff(have.GetSpec(), req.GetSpec()), "; "))
}

func openError(err error) error {
	var problems spec.Problems
	switch {
	case errors.As(err, &problems):
		return status.Error(codes.InvalidArgument, err.Error())
	case transient(err):
		return status.Error(codes.Unavailable, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

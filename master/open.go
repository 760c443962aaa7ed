package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/splits"
	"github.com/penstock-ml/penstock/internal/tables"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// openTimeout bounds listing a dataset and describing the files of its first block.
	openTimeout = 15 * time.Minute
	// maxID bounds a session's id, in bytes.
	maxID = 200
)

// Dataset is a spec resolved against the files that it names.
type Dataset struct {
	Program *pb.Program
	Files   []*pb.File // the frozen listing
	Bytes   int64      // of all files
	// LeftOut is what the listing left out, or may have taken by mistake.
	LeftOut storage.LeftOut
	// Table is the version of the table that the dataset is; nil: it is none.
	Table *tables.Table
	// Looked are the files of the first block that has any, and Schema is theirs, which the program was resolved
	// against.
	Looked []*pb.File
	Schema spec.Schema
	keys   []plan.Key // of partitions
	// Fitted is the spec's fitted file; nil: it names none.
	Fitted *fitted.Known
	// Tables are the side tables that the spec names, as they are pinned in the program.
	Tables map[spec.TableName]*spec.SideTable

	described *describer
	pruned    int // files of a table that its filter excludes
}

// Describe finds out what all files hold of what the program reads; progress hears, from several goroutines, of how
// many it knows. Of no file it is unknown then whether it is left out.
func (d *Dataset) Describe(ctx context.Context, progress func(done int)) ([]plan.File, error) {
	all, err := d.described.whole(ctx, d.Files, d.Program, progress)
	if err != nil {
		return nil, err
	}
	for _, f := range all.foreign {
		d.LeftOut.Foreign.Add(f.Error())
	}
	d.LeftOut.Unknown = storage.Names{}
	return all.files, plan.CheckStands(plan.Stands(d.Schema, d.Program), all.files)
}

// Resolve lists a spec's files and resolves it against the schema of the first block that an epoch would read. Its
// errors are spec.Problems where the spec is at fault.
func Resolve(
	ctx context.Context, st storage.Storage, cache *formats.Cache, ops spec.Catalog, cfg plan.Config, s *pb.Spec,
) (*Dataset, error) {
	d, problems, err := look(ctx, st, cache, cfg, s)
	if err == nil {
		err = d.program(ops, s)
	}
	if len(problems) > 0 || err != nil {
		return nil, merge(problems, err)
	}
	return d, nil
}

// Look lists a spec's files, and finds out what its transforms are given.
func Look(
	ctx context.Context, st storage.Storage, cache *formats.Cache, cfg plan.Config, s *pb.Spec,
) (*Dataset, error) {
	d, problems, err := look(ctx, st, cache, cfg, s)
	if len(problems) > 0 || err != nil {
		return nil, merge(problems, err)
	}
	return d, nil
}

// look is Look. With problems of the spec it may know the dataset all the same, whose schema may show further mistakes.
func look(
	ctx context.Context, st storage.Storage, cache *formats.Cache, cfg plan.Config, s *pb.Spec,
) (*Dataset, spec.Problems, error) {
	of := s.GetDataset()
	d := &Dataset{described: &describer{storage: st, cache: cache, profile: of.GetStorage(), how: of.GetFormat()}}
	if uris := s.GetDataset().GetUri(); len(uris) == 0 || slices.Contains(uris, "") {
		return nil, nil, spec.Problems{
			{
				Path:    "dataset.uri",
				Message: "found nothing; want where the files lie, such as s3://bucket/dir/ or file:///data/*.parquet",
			},
		}
	}
	listed, err := tables.Tell(ctx, st, s.GetDataset())
	if of, ok := errors.AsType[*splits.Error](err); ok {
		return nil, nil, spec.Problems{{Path: "dataset." + of.Field, Message: of.Message}}
	}
	if err != nil {
		return nil, nil, err
	}
	d.LeftOut, d.Table = listed.LeftOut, listed.Table
	var problems spec.Problems
	d.Files, err = chosen(listed, s.GetDataset())
	if err == nil && len(d.Files) == 0 {
		err = fmt.Errorf("none of %d files passes %q", len(listed.Files), s.GetDataset().GetPartitions())
	}
	if err != nil {
		problems = spec.Problems{{Path: "dataset.partitions", Message: err.Error()}}
		d.Files = listed.Files
	}
	d.Bytes = bytesOf(d.Files)
	if err := d.look(ctx, cfg, s); err != nil {
		return d, problems, err
	}
	var unfitted spec.Problems
	if d.Fitted, err = ReadFitted(ctx, d.described.storage, s); errors.As(err, &unfitted) {
		return d, append(problems, unfitted...), nil
	}
	return d, problems, err
}

// bytesOf are those of all files.
func bytesOf(files []*pb.File) (bytes int64) {
	for _, f := range files {
		bytes += f.GetSize()
	}
	return bytes
}

// chosen are the files of a listing that a dataset's predicate over partitions chooses.
func chosen(listed *tables.Listing, of *pb.Dataset) ([]*pb.File, error) {
	if listed.Table != nil && of.GetPartitions() != "" {
		return nil, errors.New("partitions of a table are columns of it: choose them by the spec's filter")
	}
	return plan.FilterFiles(listed.Files, of.GetPartitions())
}

// look fills in the schema, and the side tables.
func (d *Dataset) look(ctx context.Context, cfg plan.Config, s *pb.Spec) error {
	loaded, err := d.first(ctx, plan.Blocks(cfg, d.Files, plan.Order(d.Files, s.GetSeed(), s.GetShuffle(), 0)))
	if err != nil {
		return err
	}
	for _, f := range loaded {
		d.Looked = append(d.Looked, f.File)
	}
	if d.Table != nil {
		d.Schema = d.Table.Columns
	} else {
		d.keys = plan.Keys(d.Files)
		d.Schema, err = schemaOf(loaded, d.keys)
	}
	if err != nil {
		return err
	}
	d.Tables, err = formats.Tables(ctx, d.described.storage, d.described.cache, s)
	return err
}

// Notes say what of the listing is worth knowing: what is left out, and which keys of partitions are not what is read
// by their names.
func (d *Dataset) Notes() []string {
	notes := d.LeftOut.Words()
	if d.Table != nil {
		notes = append(notes, d.Table.Notes...)
	}
	if d.pruned > 0 {
		notes = append(notes, fmt.Sprintf("%s have no row that passes the filter, as the table says of their values",
			english.Plural(d.pruned, "file", "")))
	}
	for _, s := range d.Program.GetSources() {
		for _, key := range d.keys {
			if key.Name == s.GetPath()[0] && !s.GetPartition() {
				notes = append(notes, fmt.Sprintf(
					"%s is a column of the files, and a partition key of their paths: the column is read", key.Name))
			}
		}
	}
	return slices.Compact(notes)
}

// first describes the files of the first block that has any which are of a format.
func (d *Dataset) first(ctx context.Context, blocks [][]int) ([]plan.File, error) {
	var foreign error
	for _, block := range blocks {
		var files []*pb.File
		for _, i := range block {
			files = append(files, d.Files[i])
		}
		loaded, err := d.described.load(ctx, files, nil, func(int) {})
		if err != nil || len(loaded.files) > 0 {
			return loaded.files, err
		}
		foreign = loaded.foreign[0]
	}
	return nil, fmt.Errorf("none of %s is of a format that can be read: %w",
		english.Plural(len(d.Files), "file", ""), foreign)
}

// program makes the program of a spec. Where its fitted file is missing, it looks for other mistakes, as if all were
// fitted.
func (d *Dataset) program(ops spec.Catalog, s *pb.Spec) (err error) {
	if s.GetFitted() != nil && d.Fitted == nil {
		_, err = spec.Passes(s, d.Given(ops))
		return err
	}
	d.Program, err = spec.Resolve(s, d.Given(ops))
	if err == nil && d.Table != nil {
		d.Table.Place(d.Program.GetSources())
		d.Files, err = plan.PruneTable(d.Program, d.Table.Snapshot)
		d.pruned = len(d.Table.Files) - len(d.Files)
		d.Bytes = bytesOf(d.Files)
		d.Program.Excludes = slices.ContainsFunc(d.Files, func(f *pb.File) bool { return len(f.GetExcluded()) > 0 })
	}
	return err
}

// Given is what a spec of the dataset is resolved with.
func (d *Dataset) Given(ops spec.Catalog) spec.Given {
	given := spec.Given{Schema: d.Schema, Catalog: ops, Tables: d.Tables}
	if d.Fitted != nil {
		given.Fitted = d.Fitted
	}
	return given
}

// merge adds to problems those that err tells of; another error counts only if there are no problems.
func merge(problems spec.Problems, err error) error {
	var more spec.Problems
	if len(problems) == 0 {
		return err
	}
	if errors.As(err, &more) {
		for _, p := range more {
			if p.Path != problems[0].Path { // both say what is wrong with the partitions
				problems.Add(p.Path, p.Message)
			}
		}
	}
	return problems
}

// create opens a session and starts it.
func (t *term) create(req *wanted) error {
	ctx, cancel := context.WithTimeout(t.ctx, openTimeout)
	defer cancel()
	cfg := &t.master.cfg
	if err := t.master.awaitsWorkers(req.GetSpec()); err != nil {
		return err
	}
	d, err := Resolve(ctx, limited{cfg.Storage, req.limits}, t.master.described, cfg.Ops, cfg.Plan, req.GetSpec())
	if err != nil {
		return openError(err)
	}
	if req, err = t.master.pinned(ctx, req, d); err != nil {
		return err
	}
	if d.Table != nil {
		req.Spec = spec.AtVersion(req.GetSpec(), d.Table.URI)
	}
	meta, err := t.master.newMeta(req, d)
	if err != nil {
		return err
	}
	_, err = cfg.Store.Create(ctx, t.leadership, meta, d.Files)
	created, unknown := err == nil, errors.Is(err, store.ErrUnknown)
	switch {
	case unknown: // who loads it finds out
	case errors.Is(err, store.ErrExists): // by an attempt that never learnt of its success
	case errors.Is(err, store.ErrTooLarge):
		return status.Errorf(codes.InvalidArgument, "the spec is too large, or what its globs expand to: %v", err)
	case err != nil:
		return err
	default:
		cfg.Logger.Info("session opened", "session", req.GetSession(), "namespace", req.who.Home(), "owner",
			req.who.Subject, "files", len(d.Files), "bytes", d.Bytes, "world_size", meta.GetSession().GetWorldSize())
	}
	r, failed := newRunner(t, req.name)
	switch {
	case errors.Is(failed, store.ErrNotFound) && errors.Is(err, store.ErrExists):
		return errClosed
	case failed != nil && unknown:
		return err
	case failed != nil:
		return failed
	}
	if created {
		r.emit(pb.EventKind_SESSION, "%s", strings.Join(append([]string{fmt.Sprintf("opened: %s, %s, for %s",
			english.Plural(len(d.Files), "file", ""), humanize.IBytes(uint64(d.Bytes)),
			english.Plural(int(meta.GetSession().GetWorldSize()), "trainer", ""))}, d.Notes()...), "; "))
		t.note(r.planner.opened(d.Files))
	}
	return t.add(r)
}

func (m *Master) newMeta(req *wanted, d *Dataset) (*pb.SessionMeta, error) {
	world := max(1, req.GetWorldSize())
	if _, err := spec.BatchSize(req.GetSpec(), world, world); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	program, err := spec.Marshal(d.Program)
	if err != nil {
		return nil, err
	}
	rows, err := spec.Marshal(likeFitted(spec.WithoutLimits(d.Program), req.GetSpec(), d))
	if err != nil {
		return nil, err
	}
	meta := &pb.SessionMeta{
		Session: &pb.Session{
			Id: req.GetSession(), Spec: req.GetSpec(), WorldSize: world, Generation: 1,
			Program: program, ProgramDigest: []byte(ticket.Digest(rows)), DatasetDigest: plan.DatasetDigest(d.Files),
			PlannerDigest: m.cfg.Plan.Digest(), Fingerprint: plan.Fingerprint(req.GetSpec(), d.Files, d.Bytes,
				m.cfg.Plan), CreatedUnix: time.Now().Unix(), Files: int64(len(d.Files)), Bytes: d.Bytes,
			Namespace: req.who.Home(), Owner: req.who.Subject, Share: req.GetShare(), DefaultLastBatch: req.byDefault,
			Code: req.GetCode(),
		},
		PlannerVersion: plan.Version,
		Planner:        m.cfg.Plan.Proto(),
		Stands:         plan.Stands(d.Schema, d.Program),
	}
	if _, err := session.New(identityOf(meta)); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return meta, nil
}

func checkOpen(req *pb.OpenRequest) error {
	// Ids are part of etcd's keys, and of log lines.
	id := req.GetSession()
	if id == "" || len(id) > maxID || !utf8.ValidString(id) ||
		strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return status.Errorf(codes.InvalidArgument, "session id %q: want printable characters, 1 to %d bytes",
			id[:min(len(id), maxID)], maxID)
	}
	if s := req.GetShare(); !(s.GetWeight() >= 0 && s.GetWeight() <= maxWeight) || s.GetMaxWorkers() > 0 &&
		s.GetMinWorkers() > s.GetMaxWorkers() {
		return status.Errorf(codes.InvalidArgument,
			"a share of weight %g with %d to %d workers: want a weight from 0 (which means 1) to %d, and a minimum "+
				"that is not above the maximum",
			s.GetWeight(), s.GetMinWorkers(), s.GetMaxWorkers(), maxWeight)
	}
	return checkCode(req)
}

// maxWeight bounds a session's weight.
const maxWeight = 1_000_000

// sameSpec refuses to attach to a session of another spec, or of another share, if that is asked for.
func sameSpec(of *pb.Session, req *pb.OpenRequest) error {
	if share := of.GetShare(); req.GetShare() != nil && !sameShare(share, req.GetShare()) {
		return status.Errorf(codes.AlreadyExists,
			"session %s exists with another share: weight %g, %d to %d workers (0: no maximum); open it with that "+
				"or with none, or delete it",
			of.GetId(), cmp.Or(share.GetWeight(), 1), share.GetMinWorkers(), share.GetMaxWorkers())
	}
	if req.GetSpec() == nil {
		return nil
	}
	want := likeIn(of.GetSpec(), req)
	have, err := spec.HeldTo(of, want.GetPinned())
	if err != nil {
		return err
	}
	if same(have, want) {
		return nil
	}
	return status.Errorf(codes.AlreadyExists,
		"session %s exists with another spec: %s; give each loader of a job its own session id (in Python a name=), "+
			"or open it with that session's spec",
		of.GetId(), strings.Join(spec.Diff(have, want), "; "))
}

// settled is a request for a session that is to be opened, whose spec says how many epochs there are, and how they end.
func (w *wanted) settled() (*wanted, error) {
	named := spec.AtVersion(w.GetSpec(), w.GetSavedTable())
	settled, byDefault, err := spec.Settle(named, spec.Opened{
		World: w.GetWorldSize(), Saved: w.GetSavedLastBatch(), Earlier: w.GetDefaults() == 0,
	})
	if err != nil {
		return nil, openError(err)
	}
	out := *w
	out.OpenRequest = &pb.OpenRequest{
		Session: w.GetSession(), Spec: settled, WorldSize: w.GetWorldSize(),
		Share: w.GetShare(), Code: w.GetCode(),
	}
	out.byDefault = byDefault
	return &out, nil
}

// likeIn is a request's spec in a session that was opened with another one, or is just being so. What it leaves out is
// as there: the ranks of a job find what the first of them opened. A state that is restored has an ending of its own.
func likeIn(have *pb.Spec, req *pb.OpenRequest) *pb.Spec {
	want := spec.PinnedLike(req.GetSpec(), have)
	if req.GetDefaults() == 0 {
		return want
	}
	if want.LastBatch == pb.LastBatch_LAST_BATCH_UNSPECIFIED {
		want.LastBatch = req.GetSavedLastBatch()
	}
	return spec.Like(want, have)
}

func sameShare(a, b *pb.Share) bool {
	return cmp.Or(a.GetWeight(), 1) == cmp.Or(b.GetWeight(), 1) && a.GetMinWorkers() == b.GetMinWorkers() &&
		a.GetMaxWorkers() == b.GetMaxWorkers()
}

// same reports whether specs mean the same, however they are written.
func same(a, b *pb.Spec) bool { return len(spec.Diff(a, b)) == 0 }

func openError(err error) error {
	var problems spec.Problems
	if errors.As(err, &problems) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if of, ok := errors.AsType[*formats.TableError](err); ok {
		err = ofTable(of)
	}
	if of, ok := errors.AsType[*tables.Error](err); ok {
		err = withStatusOf(of.Err, of.URI, err)
	}
	if own, ok := err.(interface{ GRPCStatus() *status.Status }); ok { //nolint:errorlint // what storage wraps is not for callers
		return own.GRPCStatus().Err()
	}
	if transient(err) && !storage.IsOurs(err) { // else another try helps only once somebody has mended this process
		return cannotYet(err.Error())
	}
	if _, ok := errors.AsType[*unreadableError](err); ok {
		return status.Error(codes.DataLoss, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// ofTable is an error about a file beside the dataset, with the status of its cause if that has one of its own.
func ofTable(err *formats.TableError) error { return withStatusOf(err.Err, err.Path, err) }

// withStatusOf is an error about something, with the status of its cause if that has one of its own.
func withStatusOf(cause error, about string, err error) error {
	own, ok := cause.(interface{ GRPCStatus() *status.Status }) //nolint:errorlint // what storage wraps is not for callers
	if !ok {
		return err
	}
	return status.Error(own.GRPCStatus().Code(), about+": "+own.GRPCStatus().Message())
}

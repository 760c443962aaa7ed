package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/store"
)

// A session of Python functions names the bytes that they are made of: those of whoever opened it, for all of its ranks
// and workers. They lie in etcd while the session runs, and for codeKept after it was used last. Whoever opens a
// session is asked for them if they are not there. A session that was closed, or slept, may have lost them: it takes
// those that the first has who comes back, which are as good, since what the functions do is the same.

const (
	// codeKept is how long code is kept that no running session has.
	codeKept = time.Hour
	// codeCrowded is how long it is kept where there is no room for other code. Whoever still wants it is asked for it.
	codeCrowded = 15 * time.Minute
)

// mayRun refuses a spec with functions in a namespace that may have none of this kind.
func (m *Master) mayRun(namespace string, s *pb.Spec) error {
	switch {
	case spec.ByName(s):
		return m.mayHave(namespace, access.ByName)
	case s.GetCode() != nil:
		return m.mayHave(namespace, access.ByValue)
	}
	return nil
}

func (m *Master) mayHave(namespace string, code access.Code) error {
	if namespace == "" {
		namespace = identity.DefaultNamespace
	}
	return m.cfg.Access.Code(namespace, m.cfg.Code).May(namespace, code)
}

// checkCode refuses a request whose code is not that of its spec.
func checkCode(req *pb.OpenRequest) error {
	has, want := req.GetCode(), req.GetSpec().GetCode()
	switch {
	case has == nil:
		return nil
	case spec.ByName(req.GetSpec()):
		return status.Error(codes.InvalidArgument, "the request has bytes of functions, and its spec calls functions "+
			"by name, which the workers have; send no code")
	case req.GetSpec() != nil && !proto.Equal(has.GetIdentity(), want):
		return status.Error(codes.InvalidArgument, "the request has bytes of other functions than its spec; send "+
			"those that the spec's `code` identifies")
	}
	return checkStored(has)
}

// checkStored refuses what describes no code. There may be none.
func checkStored(c *pb.StoredCode) error {
	if c == nil {
		return nil
	}
	if err := code.Check(c); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// awaitsCode refuses to open a session of functions whose bytes are not there, unless somebody else is opening it.
func (t *term) awaitsCode(ctx context.Context, req *wanted) error {
	t.mu.Lock()
	opening := t.openings[req.name] != nil || t.sessions[req.name] != nil
	t.mu.Unlock()
	if opening || req.GetSpec().GetCode() == nil || spec.ByName(req.GetSpec()) {
		return nil
	}
	if req.GetCode() == nil {
		return status.Error(codes.InvalidArgument, "the spec has Python functions, and the request does not say which "+
			"bytes they are made of; open the session by the Python client, which sends them")
	}
	_, err := t.useCode(ctx, req.who.Home(), req.GetCode())
	return err
}

// useCode has code be kept, or asks for it.
func (t *term) useCode(ctx context.Context, namespace string, c *pb.StoredCode) (there bool, err error) {
	there, err = t.master.cfg.Store.UseCode(ctx, t.leadership, store.CodeOf(namespace, c.GetSha256()), time.Now())
	if err == nil && !there {
		err = needed(c.GetSha256())
	}
	return there, err
}

func needed(sum []byte) error {
	return code.Needed(sum, fmt.Sprintf("need code %x: send its parts, and ask again; a client of a release before "+
		"Python functions cannot", sum))
}

// codeChange replaces a session's bytes by others.
type codeChange struct{ from, to *pb.StoredCode }

// haveCode sees to it that the bytes of the session's functions are there for somebody who comes, and may offer some.
func (r *runner) haveCode(ctx context.Context, offered *pb.StoredCode) error {
	of := r.code.Load()
	if of == nil || r.codeKept.Load() {
		return nil
	}
	there, err := r.term.useCode(ctx, r.namespace(), of)
	switch {
	case there:
		r.codeKept.Store(true) // for as long as it runs
		return nil
	case code.Need(err) == nil || bytes.Equal(of.GetSha256(), offered.GetSha256()):
		return err
	case offered == nil:
		return status.Errorf(codes.FailedPrecondition, "the bytes of the Python functions of session %q are kept no "+
			"longer, for nobody was in it; open it with its spec and functions", r.id)
	case !same(&pb.Spec{Code: of.GetIdentity()}, &pb.Spec{Code: offered.GetIdentity()}):
		return status.Errorf(codes.FailedPrecondition, "the Python functions of session %q are others than this "+
			"rank's; open it with the functions that it was opened with", r.id)
	}
	if _, err := r.term.useCode(ctx, r.namespace(), offered); err != nil {
		return err
	}
	_, err = r.do(ctx, call{code: &codeChange{of, offered}})
	return err
}

// attach is what the session looks like to somebody who opens it, and has code to offer.
func (r *runner) attach(ctx context.Context, offered *pb.StoredCode) (*pb.Session, error) {
	if err := r.haveCode(ctx, offered); err != nil {
		return nil, err
	}
	return viewFrom(ctx, r)
}

// changeCode has the session name other bytes, unless somebody else's were taken meanwhile.
func (r *runner) changeCode(c codeChange) error {
	if !proto.Equal(r.code.Load(), c.from) {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.term.ctx, commitTimeout)
	defer cancel()
	if err := r.term.master.cfg.Store.SetCode(ctx, r.term.leadership, r.stored, c.to); err != nil {
		return err
	}
	r.tickets.code = c.to
	r.code.Store(c.to)
	return nil
}

// PutCode keeps a part of what sessions of the caller's namespace may be opened with.
func (s *service) PutCode(ctx context.Context, p *pb.CodePart) (*pb.PutCodeReply, error) {
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	namespace := identity.From(ctx).Home()
	if err := s.master.mayHave(namespace, access.ByValue); err != nil {
		return nil, err
	}
	if err := code.CheckPart(p); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = t.putCode(ctx, namespace, p)
	if errors.Is(err, store.ErrNoCode) { // parts before it are missing
		err = needed(p.GetSha256())
	}
	if err != nil {
		return nil, callError(err)
	}
	return &pb.PutCodeReply{}, nil
}

// putCode keeps a part of code, if need be in place of what has not been used for a while.
func (t *term) putCode(ctx context.Context, namespace string, p *pb.CodePart) error {
	err := t.master.cfg.Store.PutCode(ctx, t.leadership, namespace, p, time.Now())
	if !errors.Is(err, store.ErrCodeFull) {
		return err
	}
	if err := t.deleteCode(time.Now().Add(-codeCrowded)); err != nil {
		return err
	}
	return t.master.cfg.Store.PutCode(ctx, t.leadership, namespace, p, time.Now())
}

// GetCode returns a part of a session's code.
func (s *service) GetCode(ctx context.Context, req *pb.GetCodeRequest) (*pb.CodePart, error) {
	var of *pb.StoredCode
	err := s.look(ctx, req.GetSession(), func(r *runner) error {
		of = r.code.Load()
		return nil
	}, func(_ *term, c *closed) error {
		of = c.GetMeta().GetSession().GetCode()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "session %q has no Python functions that a trainer sent",
			req.GetSession())
	}
	if at := req.GetOffset(); at < 0 || at >= of.GetSize() || at%code.PartBytes != 0 {
		return nil, status.Errorf(codes.InvalidArgument, "the code has no part at %d: it has %d bytes, in parts of %d",
			at, of.GetSize(), code.PartBytes)
	}
	data, err := s.master.cfg.Store.CodePart(ctx, store.CodeOf(identity.From(ctx).Home(), of.GetSha256()),
		int(req.GetOffset()/code.PartBytes))
	if err != nil {
		return nil, callError(err)
	}
	return &pb.CodePart{Sha256: of.GetSha256(), Size: of.GetSize(), Offset: req.GetOffset(), Data: data}, nil
}

// sweepCode deletes code that no session has any more that runs.
func (t *term) sweepCode() error {
	return t.every(sweepEvery, "cannot delete the code of sessions that are over; trying again later", func() error {
		return t.deleteCode(time.Now().Add(-codeKept))
	})
}

// deleteCode deletes what was used last before a time.
func (t *term) deleteCode(before time.Time) error {
	return t.master.cfg.Store.SweepCode(t.ctx, t.leadership, before, func(c store.Code) bool {
		for _, r := range t.all() {
			if of := r.code.Load(); of != nil && store.CodeOf(r.namespace(), of.GetSha256()) == c {
				return true
			}
		}
		return false
	})
}

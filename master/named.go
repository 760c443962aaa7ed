package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
)

// A session of functions by name has those that most workers have when it is opened. Their identity is its code.
// Workers that have others take none of its streams, and states of others are not restored.

const (
	// askedAtMost is how many workers are asked which functions they have, all at once.
	askedAtMost = 32
	// askTimeout bounds each of these calls. A worker that has to import the functions goes on when it is over.
	askTimeout = 10 * time.Second
)

// pinned is a request for a session whose functions by name are those that the workers have, and whose fitted file is
// the one that there is, and the dataset resolved with them. Where nothing needs pinning it is the request itself.
func (m *Master) pinned(ctx context.Context, req *wanted, d *Dataset) (*wanted, error) {
	of := &pb.Ticket{Session: req.GetSession(), Namespace: req.who.Home()}
	s, err := m.pin(ctx, d, pinFitted(req.GetSpec(), d), of)
	if err != nil || s == req.GetSpec() {
		return req, err
	}
	out := *req
	out.OpenRequest = proto.CloneOf(req.OpenRequest)
	out.Spec = s
	return &out, nil
}

// pin asks the workers for the functions by name of a spec, and resolves its dataset with these. The ticket says for
// whom.
func (m *Master) pin(ctx context.Context, d *Dataset, s *pb.Spec, of *pb.Ticket) (*pb.Spec, error) {
	if !spec.ByName(s) {
		return s, nil
	}
	of.Environment, of.ExpiresUnix = s.GetPython(), time.Now().Add(ticketLife).Unix()
	signed, err := signedRequest(m.signer, of, nil)
	if err != nil {
		return nil, err
	}
	asked := &asking{
		pool: m.counts.pool, request: &pb.CallsRequest{Ticket: signed.GetTicket(), Calls: spec.NamedCalls(s)},
	}
	has, err := asked.all(ctx, m.live())
	if err != nil {
		return nil, err
	}
	if err := code.CheckIdentity(has.GetIdentity()); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "the functions that the workers have by name: %v", err)
	}
	asked.tell(m.cfg.Logger.With("session", of.GetSession(), "namespace", of.GetNamespace()))
	out, err := spec.Pin(s, has)
	if err == nil {
		err = d.program(m.cfg.Ops, out)
	}
	if err != nil {
		return nil, openError(err)
	}
	return out, nil
}

// live are the workers that take streams.
func (m *Master) live() []fleet.Member {
	return slices.DeleteFunc(m.fleet.Members(fleet.Worker), func(w fleet.Member) bool { return w.Draining })
}

// awaitsWorkers refuses to open a session of functions by name while there is nobody who could have them: before its
// files are listed, since it is asked again and again.
func (m *Master) awaitsWorkers(s *pb.Spec) error {
	if spec.ByName(s) && len(m.live()) == 0 {
		return errNobodyHas
	}
	return nil
}

// errNobodyHas is why a session of functions by name cannot be opened yet.
var errNobodyHas = cannotYet("the spec calls Python functions by name, and the fleet has no worker that could have " +
	"them; start one with `penstock worker`")

// cannotYet is the answer to who should ask again.
func cannotYet(words string) error {
	st := status.New(codes.Unavailable, words)
	if with, err := st.WithDetails(&pb.CannotYet{}); err == nil {
		st = with
	}
	return st.Err()
}

// asking asks workers for functions.
type asking struct {
	pool    *rpc.Pool
	request *pb.CallsRequest

	mu      sync.Mutex
	replies map[string]*offer // by what they say
	refused []unasked
}

// offer is what some workers have.
type offer struct {
	reply   *pb.CallsReply
	workers []string
}

// unasked is a worker that does not tell what it has.
type unasked struct {
	worker string
	err    error
}

// all asks workers, and returns what most of them say.
func (a *asking) all(ctx context.Context, workers []fleet.Member) (*pb.CallsReply, error) {
	a.replies = map[string]*offer{}
	var group sync.WaitGroup
	for _, w := range workers[:min(len(workers), askedAtMost)] {
		group.Go(func() { a.one(ctx, w) })
	}
	group.Wait()
	if best := a.most(); best != nil {
		return best.reply, nil
	}
	return nil, a.why()
}

func (a *asking) one(ctx context.Context, w fleet.Member) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var reply *pb.CallsReply
	conn, err := a.pool.Get(w.Address)
	if err == nil {
		reply, err = wire.AskCalls(ctx, conn, a.request)
	}
	key, _ := proto.MarshalOptions{Deterministic: true}.Marshal(reply) // what was read can be written
	a.mu.Lock()
	defer a.mu.Unlock()
	switch t := a.replies[string(key)]; {
	case err != nil:
		a.refused = append(a.refused, unasked{w.Name, err})
	case t != nil:
		t.workers = append(t.workers, w.Name)
	default:
		a.replies[string(key)] = &offer{reply, []string{w.Name}}
	}
}

// most is what most workers say, and of as many the first by its bytes, so that all masters choose the same. nil: none
// says anything.
func (a *asking) most() (best *offer) {
	first := ""
	for key, t := range a.replies {
		n := len(t.workers)
		if best == nil || n > len(best.workers) || n == len(best.workers) && key < first {
			best, first = t, key
		}
	}
	return best
}

// why is why no worker has the functions. Those that could not be asked may have them.
func (a *asking) why() error {
	if len(a.refused) == 0 {
		return errNobodyHas
	}
	slices.SortFunc(a.refused, func(x, y unasked) int { return strings.Compare(x.worker, y.worker) })
	absent, refused := -1, -1
	for i, r := range a.refused {
		code := status.Code(r.err)
		switch {
		case code == codes.NotFound && absent < 0:
			absent = i
		case code != codes.NotFound && !rpc.Refused(r.err):
			return cannotYet("workers cannot be asked yet for the functions that the spec calls by name: " + r.words())
		case refused < 0:
			refused = i
		}
	}
	if absent < 0 {
		absent = refused
	}
	more := ""
	if n := len(a.refused) - 1; n > 0 {
		more = fmt.Sprintf(" (nor have %s more)", english.Plural(n, "worker", ""))
	}
	return status.Errorf(codes.FailedPrecondition, "no worker has the functions that the spec calls by name (%s): %s%s",
		strings.Join(a.request.GetCalls(), ", "), a.refused[absent].words(), more)
}

func (r unasked) words() string {
	if errors.Is(r.err, context.DeadlineExceeded) || status.Code(r.err) == codes.DeadlineExceeded {
		return fmt.Sprintf("worker %s says nothing for %v; it may import them", r.worker, askTimeout)
	}
	return fmt.Sprintf("worker %s: %s", r.worker, status.Convert(r.err).Message())
}

// tell logs which workers will take no part in the session, for they have other functions than most, or none.
func (a *asking) tell(logger *slog.Logger) {
	best := a.most()
	for _, t := range a.replies {
		if t == best {
			continue
		}
		other := spec.Diff(&pb.Spec{Code: best.reply.GetIdentity()}, &pb.Spec{Code: t.reply.GetIdentity()})
		logger.Warn("workers have other functions by name than most, and take no stream of the session", "workers",
			t.workers, "difference", strings.Join(other, "; "))
	}
	for _, r := range a.refused {
		logger.Warn("a worker does not tell of functions by name, and may take no stream of the session", "worker",
			r.worker, "error", r.err)
	}
}

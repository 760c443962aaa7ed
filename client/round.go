package client

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// round is one of asking all candidates.
type round struct {
	silences int // rounds before it with a silent worker, without a row in between
	workers  []*pb.Worker
	tried    []*pb.Worker
	blame    // for those that refuse for good
	last     *workerError
	silent   bool // a worker was
	moved    bool // rows came
}

// next is the best candidate that was not tried, or nil.
func (r *round) next() *pb.Worker {
	for _, w := range r.workers {
		if !r.has(w) {
			return w
		}
	}
	return nil
}

func (r *round) has(tried *pb.Worker) bool {
	return slices.ContainsFunc(r.tried, func(t *pb.Worker) bool { return t.GetAddress() == tried.GetAddress() })
}

// skip has workers count as tried.
func (r *round) skip(workers []*pb.Worker) {
	for _, w := range workers {
		if !r.has(w) {
			r.tried = append(r.tried, w)
		}
	}
}

// again begins to ask all candidates but one anew.
func (r *round) again(but *pb.Worker) { r.tried, r.blame = []*pb.Worker{but}, blame{} }

// note takes in how an attempt ended. When it brought rows, the other candidates are to be asked again.
func (r *round) note(a *attempt, err *workerError) {
	if a.rows {
		r.again(a.worker)
		r.moved, r.silences = true, 0
	}
	r.silent = r.silent || errors.Is(err, errSilent)
	if r.last == nil || !stranger(err) { // a worker's own words say more
		r.last = err
	}
	r.blame.note(err)
}

// Where every candidate refuses to read on because of the data, more than once, the master hears of it and decides by
// the spec's on_error. The piece stays closed meanwhile, so that no row of what may be taken away is handed over: it is
// reported with each Sync until the grants change. Other refusals are the workers' own, and end the session.

// blame counts what refusals of a round are about.
type blame struct {
	permanent int
	changed   *workerError // that the file changed
	own       *workerError // something that other workers may not lack
}

func (b *blame) note(err *workerError) {
	if !rpc.Refused(err) {
		return
	}
	b.permanent++
	switch {
	case status.Code(err) == codes.FailedPrecondition:
		b.changed = err
	case status.Code(err) != codes.DataLoss && (b.own == nil || !stranger(err)):
		b.own = err
	}
}

// lacks is how a worker begins its words when it lacks something that a program needs. Whatever else is Unimplemented,
// a worker did not say: another server did, or a proxy.
const lacks = "this worker cannot run the "

// stranger reports whether what answered is no worker.
func stranger(err error) bool {
	return status.Code(err) == codes.Unimplemented && !strings.Contains(err.Error(), lacks)
}

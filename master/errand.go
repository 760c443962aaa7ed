package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
)

const (
	// asksAtOnce is how many things of a block workers are asked for at once, if they have as many slots.
	asksAtOnce = 16
	// silenceTimeout bounds how long a worker says nothing that is asked for something. While it is at work for long,
	// it says so now and then.
	silenceTimeout = 5 * time.Minute
	// maxAskPause is the longest pause between two rounds of asking.
	maxAskPause = 5 * time.Second
	// refusals is in how many rounds running all candidates must refuse until the session fails: other workers may be
	// candidates by then.
	refusals = 3
)

// errBadData says that data cannot be read, by anybody, or are not those that were listed.
var errBadData = errors.New("cannot be read")

// errSettled is errBadData that is said twice in the same words, such as of the same byte: nobody else is asked.
var errSettled = fmt.Errorf("%w", errBadData)

// errSilent is why a call of a worker is cancelled that says nothing.
var errSilent = status.Errorf(codes.DeadlineExceeded, "it said nothing for %v", silenceTimeout)

// errand is what workers are asked for before a block can be granted: something of each of some shards.
type errand struct {
	places *placement
	logger *slog.Logger // it knows the block
	// lonely and again are said while the fleet has no worker, and between rounds.
	lonely, again string
	// refused is the error of what no worker does, for reasons of its own.
	refused error
	// from asks one worker; its error has a status. All are the shard's candidates.
	from func(ctx context.Context, w *pb.Worker, all []*pb.Worker, s *pb.Shard) error
}

// all asks until it has all, unless workers go on refusing, or saying that data are bad.
func (e *errand) all(ctx context.Context, left []*pb.Shard) error {
	refused := 0
	for round := 0; len(left) > 0; round++ {
		places := e.places.get()
		if places.Workers == 0 {
			e.logger.Warn(e.lonely)
			select {
			case <-places.outdated:
			case <-ctx.Done():
				return ctx.Err()
			}
			round = 0
			continue
		}
		failed, err := e.round(ctx, places, left)
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		if left = failed; len(left) == 0 {
			break
		}
		if refused++; !errors.Is(err, e.refused) && !errors.Is(err, errBadData) {
			refused = 0
		}
		if refused == refusals || errors.Is(err, errSettled) {
			return err
		}
		e.logger.Warn(e.again, "left", len(left), "error", err)
		select {
		case <-time.After(min(retryEvery<<min(round, 10), maxAskPause)):
		case <-places.outdated:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// round asks once for each shard. It returns those that failed, and why: the error of one of them, errSettled before
// errBadData before refused before others.
func (e *errand) round(ctx context.Context, places *places, shards []*pb.Shard) (failed []*pb.Shard, err error) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(max(1, min(asksAtOnce, places.Slots/2)))
	for _, s := range shards {
		group.Go(func() error {
			why := e.one(ctx, places.For(s, ""), s)
			if why == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, s)
			if e.rank(why) <= e.rank(err) {
				err = why
			}
			return nil
		})
	}
	_ = group.Wait() // none of them fails it
	return failed, err
}

// rank is how soon an error is told, of several.
func (e *errand) rank(err error) int {
	kinds := []error{errSettled, errBadData, e.refused}
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			return i
		}
	}
	return len(kinds)
}

// one asks a shard's candidates one after the other. One that has no other beside it is asked once more whether data
// are bad.
func (e *errand) one(ctx context.Context, workers []*pb.Worker, s *pb.Shard) (err error) {
	var unreadable []string     // to whom
	said := map[string]string{} // what one of them did: who
	own := 0                    // who refuse for reasons of their own
	var changed error           // from one who says that the file is not the one that was listed
	all := workers
	for i := 0; i < len(workers); i++ {
		w := workers[i]
		err = e.from(ctx, w, all, s)
		code, refused, words := status.Code(err), rpc.Refused(err), status.Convert(err).Message()
		err = fmt.Errorf("worker %s: %s: %s", w.GetName(), code, words)
		switch {
		case code == codes.OK:
			return nil
		case code == codes.DataLoss: // another one may have better memory
			unreadable = append(unreadable, w.GetName())
			switch other, ok := said[words]; {
			case ok && other == w.GetName():
				return fmt.Errorf("%w, as worker %s says twice: %s", errSettled, other, words)
			case ok:
				return fmt.Errorf("%w, as workers %v say: %s", errSettled, []string{other, w.GetName()}, words)
			}
			said[words] = w.GetName()
			if len(all) == 1 && len(workers) == 1 {
				workers = append(workers, w)
			}
		case code == codes.FailedPrecondition: // or see other files
			unreadable, changed = append(unreadable, w.GetName()), err
		case refused:
			own++
		}
	}
	switch {
	case changed != nil && len(unreadable)+own == len(workers):
		return changedError{fmt.Errorf("%w, as workers %v say: %w", errBadData, unreadable, changed)}
	case len(unreadable) == len(workers):
		return fmt.Errorf("%w, as workers %v say: %w", errBadData, unreadable, err)
	case len(unreadable)+own == len(workers):
		return fmt.Errorf("%w: %w", e.refused, err)
	}
	return err
}

// changedError is a storage.ErrChanged that workers tell of.
type changedError struct{ error }

func (e changedError) Unwrap() error { return e.error }

func (changedError) Is(target error) bool { return target == storage.ErrChanged }

// action has a worker do a Flight action, and takes the bodies of its results until done. A result without a body says
// that it is at work.
func action(
	ctx context.Context, pool *rpc.Pool, w *pb.Worker, kind string, req *pb.StreamRequest,
	take func(body []byte) (done bool, err error), options ...grpc.CallOption,
) error {
	body, err := proto.Marshal(req)
	if err != nil {
		return fmt.Errorf("stream request: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(silenceTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	conn, err := pool.Get(w.GetAddress())
	if err != nil {
		return err
	}
	stream, err := flight.NewFlightServiceClient(conn).DoAction(ctx, &flight.Action{Type: kind, Body: body},
		options...)
	for err == nil {
		var result *flight.Result
		if result, err = stream.Recv(); err == nil && len(result.GetBody()) > 0 {
			if done, err := take(result.GetBody()); done || err != nil {
				return err
			}
		}
		silence.Reset(silenceTimeout)
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

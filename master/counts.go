package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// countsAtOnce is how many shards of a block workers count at once, if there are as many.
	countsAtOnce = 16
	// countTimeout bounds how long a worker says nothing that counts one shard. While it may wait for functions, it
	// says now and then that it is at work: how long these take is bounded where they run.
	countTimeout = 5 * time.Minute
	// maxCountPause is the longest pause between two rounds of asking.
	maxCountPause = 5 * time.Second
	// countRefusals is in how many rounds running all candidates must refuse to count a shard until the session fails:
	// other workers may be candidates by then.
	countRefusals = 3
)

var (
	// errBadData says that data cannot be read, by anybody, or are not those that were listed.
	errBadData = errors.New("cannot be read")
	// errCountRefused says that no worker counts a shard, for reasons of its own.
	errCountRefused = errors.New("no worker counts the rows that are left")
)

// counter has workers count the output rows of blocks. It may be used by many goroutines at once.
type counter struct {
	places *placement
	signer *ticket.Signer
	pool   *rpc.Pool
	// again is what was counted and is not counted again.
	again *recounts
	// codePart reads a part of the bytes of a session's functions.
	codePart func(ctx context.Context, c store.Code, part int) ([]byte, error)
}

// keep closes the connections to all but these.
func (c *counter) keep(workers []fleet.Member) error {
	addresses := make([]string, len(workers))
	for i, w := range workers {
		addresses[i] = w.Address
	}
	return c.pool.Keep(addresses)
}

// count is the count of one block.
type count struct {
	*counter
	session *pb.Session
	code    *pb.StoredCode // of its functions; nil: it has none
	program *pb.Program
	text    []byte           // the program, serialised
	earlier *sessionRecounts // of the session
	block   *pb.Block
	logger  *slog.Logger

	sending sync.Mutex
	sent    map[string]time.Time // when workers had been sent the code
}

// fill sets the outputs of a block's windows, those that were counted before at once. It asks until it has them all,
// unless workers go on refusing, or saying that data are bad.
func (c *count) fill(ctx context.Context) error {
	left, refused := slices.DeleteFunc(slices.Clone(c.block.GetShards()), c.earlier.set), 0
	for round := 0; len(left) > 0; round++ {
		places := c.places.get()
		if places.Workers == 0 {
			c.logger.Warn(
				"rows are to be counted before they can be granted, and the fleet has no worker; waiting for one",
				"epoch", c.block.GetEpoch(), "block", c.block.GetIndex())
			select {
			case <-places.outdated:
			case <-ctx.Done():
				return ctx.Err()
			}
			round = 0
			continue
		}
		failed, err := c.ask(ctx, places, left)
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		if left = failed; len(left) == 0 {
			break
		}
		if refused++; !errors.Is(err, errCountRefused) && !errors.Is(err, errBadData) {
			refused = 0
		}
		if refused == countRefusals {
			return err
		}
		c.logger.Warn("workers cannot count the rows of all shards yet; asking again",
			"epoch", c.block.GetEpoch(), "block", c.block.GetIndex(), "shards", len(left), "error", err)
		select {
		case <-time.After(min(retryEvery<<min(round, 10), maxCountPause)):
		case <-places.outdated:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ask has shards counted. It returns those that were not, and why: the error of one of them, errBadData before
// errCountRefused before others.
func (c *count) ask(ctx context.Context, places *places, shards []*pb.Shard) (failed []*pb.Shard, err error) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(max(1, min(countsAtOnce, places.Slots/2)))
	for _, s := range shards {
		group.Go(func() error {
			why := c.shard(ctx, places, s)
			if why == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, s)
			if errors.Is(why, errBadData) || !errors.Is(err, errBadData) && !errors.Is(err, errCountRefused) {
				err = why
			}
			return nil
		})
	}
	_ = group.Wait() // none of them fails it
	return failed, err
}

// shard asks a shard's candidates one after the other.
func (c *count) shard(ctx context.Context, places *places, s *pb.Shard) error {
	workers := places.For(s, "")
	request, err := c.request(s, workers)
	if err != nil {
		return err
	}
	var unreadable []string // to whom
	own := 0                // who refuse for reasons of their own
	var changed error       // from one who says that the file is not the one that was listed
	for _, w := range workers {
		var counts *pb.CountReply
		if counts, err = c.callWithCode(ctx, w, request); err == nil {
			err = setOutputs(s, counts, c.program)
		}
		code, refused := status.Code(err), rpc.Refused(err)
		err = fmt.Errorf("worker %s: %s: %s", w.GetName(), code, status.Convert(err).Message())
		switch {
		case code == codes.OK:
			c.earlier.keep(s)
			return nil
		case code == codes.DataLoss: // another one may have better memory
			unreadable = append(unreadable, w.GetName())
		case code == codes.FailedPrecondition: // or see other files
			unreadable, changed = append(unreadable, w.GetName()), err
		case refused:
			own++
		}
	}
	switch {
	case changed != nil && len(unreadable)+own == len(workers):
		return fmt.Errorf("%w, as workers %v say: %w", errBadData, unreadable, changed)
	case len(unreadable) == len(workers):
		return fmt.Errorf("%w, as workers %v say: %w", errBadData, unreadable, err)
	case len(unreadable)+own == len(workers):
		return fmt.Errorf("%w: %w", errCountRefused, err)
	}
	return err
}

func (c *count) request(s *pb.Shard, workers []*pb.Worker) (*pb.StreamRequest, error) {
	return signedRequest(c.signer, &pb.Ticket{
		Session: c.session.GetId(), Namespace: c.session.GetNamespace(), Epoch: c.block.GetEpoch(),
		Block: c.block.GetIndex(), Shard: uint32(slices.Index(c.block.GetShards(), s)),
		File: s.GetFile(), Extents: s.GetExtents(), ProgramDigest: []byte(ticket.Digest(c.text)),
		Workers: workers, ExpiresUnix: time.Now().Add(ticketLife).Unix(),
		Code: cmp.Or(c.code, codeOf(c.session)), Environment: c.session.GetSpec().GetPython(),
		SkipRows: c.session.GetSpec().GetOnError().GetSkipRows(),
	}, c.text)
}

// setOutputs takes over what a worker counted of a program's rows.
func setOutputs(s *pb.Shard, counted *pb.CountReply, program *pb.Program) error {
	groups := s.GetExtents()
	if len(counted.GetExtents()) != len(groups) {
		return fmt.Errorf("it counted %d row groups of %d", len(counted.GetExtents()), len(groups))
	}
	for i, g := range groups {
		outputs, rows := counted.GetExtents()[i].GetOutputs(), session.WindowRows(g)
		if len(outputs) != len(rows) {
			return fmt.Errorf("row group %d: it counted %d windows of %d", g.GetIndex(), len(outputs), len(rows))
		}
		for j, n := range outputs {
			if most := spec.MostRows(program, rows[j]); n > most {
				return fmt.Errorf("row group %d: it counted %d rows of a window of at most %d", g.GetIndex(), n, most)
			}
		}
	}
	for i, g := range groups {
		g.Outputs = counted.GetExtents()[i].GetOutputs()
	}
	return nil
}

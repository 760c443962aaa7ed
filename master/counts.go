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

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// errCountRefused says that no worker counts a shard, for reasons of its own.
var errCountRefused = errors.New("no worker counts the rows that are left")

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

// fill sets the outputs of windows of some of a block's shards, those that were counted before at once. It asks until
// it has them all, unless workers go on refusing, or saying that data are bad.
func (c *count) fill(ctx context.Context, shards []*pb.Shard) error {
	return (&errand{
		places: c.places, logger: c.logger.With("epoch", c.block.GetEpoch(), "block", c.block.GetIndex()),
		lonely: "rows are to be counted before they can be granted, and the fleet has no worker; waiting for one",
		again:  "workers cannot count the rows of all shards yet; asking again", refused: errCountRefused, from: c.from,
	}).all(ctx, slices.DeleteFunc(slices.Clone(shards), c.earlier.set))
}

// from has a worker count a shard.
func (c *count) from(ctx context.Context, w *pb.Worker, all []*pb.Worker, s *pb.Shard) error {
	request, err := c.request(s, all)
	if err != nil {
		return err
	}
	counts, err := c.callWithCode(ctx, w, request)
	if err == nil {
		err = setOutputs(s, counts, c.program)
	}
	if err == nil {
		c.earlier.keep(s)
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
		return fmt.Errorf("it counted %d extents of %d", len(counted.GetExtents()), len(groups))
	}
	for i, g := range groups {
		outputs, rows := counted.GetExtents()[i].GetOutputs(), session.WindowRows(g)
		if len(outputs) != len(rows) {
			return fmt.Errorf("extent %d: it counted %d windows of %d", g.GetIndex(), len(outputs), len(rows))
		}
		for j, n := range outputs {
			if most := spec.MostRows(program, rows[j]); n > most {
				return fmt.Errorf("extent %d: it counted %d rows of a window of at most %d", g.GetIndex(), n, most)
			}
		}
	}
	for i, g := range groups {
		g.Outputs = counted.GetExtents()[i].GetOutputs()
	}
	return nil
}

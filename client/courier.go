package client

import (
	"bytes"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
)

// deliveriesAtOnce bounds the workers that a session sends its code to at once.
const deliveriesAtOnce = 4

// courier sends the session's code to workers that lack it: once, for all streams of a worker that wait for it. The
// stream that asks first sends it. It may be used by many goroutines at once.
type courier struct {
	terms *terms
	pool  *pool // of workers
	turns chan struct{}
	turn  chan struct{} // who looks at code has it
	code  bundle        // the session's, as far as this rank knows

	mu    sync.Mutex
	under map[string]*delivery // on its way, by address
	came  map[string]time.Time // when the last one did
}

// delivery is on its way until over is closed. Whoever sends it has stopped if it is neither there nor refused.
type delivery struct {
	over    chan struct{}
	stopped bool
	err     error
}

func newCourier(t *terms, workers *pool) *courier {
	return &courier{
		terms: t, pool: workers, turns: make(chan struct{}, deliveriesAtOnce), turn: make(chan struct{}, 1), code: t.code,
		under: make(map[string]*delivery), came: make(map[string]time.Time),
	}
}

// deliver returns once the worker at an address has the code, for which it asked at a time.
func (c *courier) deliver(ctx context.Context, address string, ticket *pb.SignedTicket, asked time.Time) error {
	for {
		d, ours := c.begin(address, asked)
		switch {
		case d == nil:
			return nil
		case ours:
			d.err = c.send(ctx, address, ticket)
			d.stopped = ctx.Err() != nil
			c.end(address, d)
			return d.err
		}
		select {
		case <-d.over:
			if !d.stopped {
				return d.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin returns the delivery that is under way, or a new one, which is ours, or nil if one came after it was asked for.
func (c *courier) begin(address string, asked time.Time) (d *delivery, ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	came, known := c.came[address]
	if d = c.under[address]; d != nil || known && !came.Before(asked) {
		return d, false
	}
	d = &delivery{over: make(chan struct{})}
	c.under[address] = d
	return d, true
}

func (c *courier) end(address string, d *delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, address)
	if d.err == nil {
		c.came[address] = time.Now()
	}
	close(d.over)
}

// forget forgets workers that are not asked any more.
func (c *courier) forget(asked map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for address := range c.came {
		if !asked[address] {
			delete(c.came, address)
		}
	}
}

// send sends all parts, in order.
func (c *courier) send(ctx context.Context, address string, ticket *pb.SignedTicket) error {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	of, err := c.current(ctx, codeOf(ticket))
	if err != nil {
		return err
	}
	c.terms.log.Debug("a worker is sent the session's code", "address", address, "bytes", of.stored.GetSize())
	for part := range code.Parts(of.stored, of.data) {
		part.Ticket = ticket
		if err := c.part(ctx, address, part); err != nil {
			return notTaken(err)
		}
	}
	return nil
}

// current is the code that a ticket names. Its bytes are others than this rank has if the session slept meanwhile, and
// went on with those that another rank brought: the master has them.
func (c *courier) current(ctx context.Context, of *pb.StoredCode) (bundle, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return bundle{}, ctx.Err()
	}
	if bytes.Equal(of.GetSha256(), c.code.stored.GetSha256()) {
		return c.code, nil
	}
	own := &masters{addresses: c.terms.cfg.Masters, pool: newPool(c.terms.cfg.Dial, nil)} // the session's has one user
	defer own.pool.close()
	from := opening{terms: c.terms, masters: own}
	got, err := from.getCode(ctx, trials{all: partTimeout}, from.warnNowAndThen(), of)
	if err != nil {
		return bundle{}, status.Errorf(codes.Aborted, "lacks the session's code, which was replaced by others' and "+
			"cannot be had from a master: %v", err)
	}
	c.terms.log.Info("the session's functions are of other bytes by now, which another rank brought")
	c.code = got
	return got, nil
}

func (c *courier) part(ctx context.Context, address string, part *pb.CodePart) error {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	if local := c.terms.cfg.Local; local != nil {
		if here, err := local.KeepCode(ctx, address, part); here {
			return err
		}
	}
	worker, done, err := c.pool.get(address)
	if err != nil {
		return err
	}
	defer done()
	return wire.SendCode(ctx, worker.conn, part)
}

// notTaken tells a worker's refusal of code from that of data.
func notTaken(err error) error {
	st := status.Convert(err)
	if !rpc.Refused(err) || st.Code() == codes.Unimplemented {
		return err
	}
	return status.Errorf(codes.Aborted, "does not take the session's code: %s", st.Message())
}

package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// masters calls the leader among the masters. It is used by one goroutine at a time.
type masters struct {
	addresses []string
	pool      *pool
	leader    string // who answered last, or was named leader; "" at first
}

// call runs f against the leader: first whom it takes for it, then whom a master names, then each of the others.
// Each attempt may take up to timeout. The error of a call that no master answered is transient.
func (m *masters) call(
	ctx context.Context, op string, timeout time.Duration, f func(context.Context, pb.MasterClient) error,
) error {
	todo := slices.Clone(m.addresses)
	if m.leader != "" {
		todo = append([]string{m.leader}, todo...)
	}
	var errs []error
	tried := make(map[string]bool)
	for len(todo) > 0 && ctx.Err() == nil {
		address := todo[0]
		todo = todo[1:]
		if tried[address] {
			continue
		}
		tried[address] = true
		err := m.attempt(ctx, address, timeout, f)
		if err == nil {
			m.leader = address
			return nil
		}
		errs = append(errs, &MasterError{Op: op, Address: address, Err: err})
		if !transient(err) {
			return errs[len(errs)-1]
		}
		if leader := rpc.Leader(err); leader != "" {
			todo = append([]string{leader}, todo...)
		}
	}
	m.leader = ""
	return errors.Join(append(errs, ctx.Err())...)
}

func (m *masters) attempt(
	ctx context.Context, address string, timeout time.Duration, f func(context.Context, pb.MasterClient) error,
) error {
	conn, done, err := m.pool.get(address)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx, pb.NewMasterClient(conn.conn))
}

// trials say how long each attempt at a call may take, and after how long none is made any more; 0 is as long as its
// context allows.
type trials struct{ each, all time.Duration }

// persist repeats call with backoff until it succeeds, fails for good, or has no trial left; after each failed round it
// calls warn.
func (m *masters) persist(
	ctx context.Context, op string, t trials, warn func(error), f func(context.Context, pb.MasterClient) error,
) error {
	begin := time.Now()
	for round := 0; ; round++ {
		err := m.call(ctx, op, t.each, f)
		if err == nil || !transient(err) || NoHandshake(err) || ctx.Err() != nil {
			return err
		}
		pause := backoff(round, 5*time.Second)
		if t.all > 0 {
			left := t.all - time.Since(begin)
			if left <= 0 {
				return err
			}
			pause = min(pause, left)
		}
		warn(err)
		if sleep(ctx, pause) != nil {
			return err
		}
	}
}

// transient reports whether a master's error may go away by asking again, or asking another master.
func transient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Unknown,
		codes.Internal:
		return true
	}
	return false
}

// backoff is how long to wait after a failed round: 100 ms doubled each round up to limit, half of it random.
func backoff(round int, limit time.Duration) time.Duration {
	d := min(100*time.Millisecond<<min(round, 16), limit)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d or the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

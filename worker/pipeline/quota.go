package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/worker/memory"
)

// quota is the memory of one stream: what it holds, and how it comes to hold more.
type quota struct {
	*memory.Account
	cfg     *Config
	budget  *memory.Budget
	buffers *memory.Buffers // that extents are read into, from when on the stream is admitted
	session *counted
	shard   shardName
	abreast bool // nothing is read ahead
}

// limits are those of now, beside the tables that the stream looks values up in.
func (q *quota) limits() limits { return limits{q.cfg, q.budget.Limit() - q.Beside} }

// most is how many bytes limits may grow to.
func (q *quota) most() int64 { return q.budget.Max() - q.Beside }

// divide says how much of what was taken to begin with is for extents, and may be taken to read ahead.
func (q *quota) divide(h holding) {
	l := q.limits()
	ahead := max(0, min(l.share(), l.memory-h.later)-q.Held())
	if _, q.abreast = q.session.abreast.Load(q.shard); q.abreast {
		ahead = 0
	}
	q.buffers = memory.NewBuffers(q.Account, h.chunks, h.chunks+ahead)
}

// more takes memory beyond what Open took: what it needs, beyond the stream's share, else as much as there is, up to
// wish. For what it needs it waits as Open does.
func (q *quota) more(ctx context.Context, need, wish int64) (int64, error) {
	if q.Held()+wish > q.limits().share() {
		wish = need
	}
	if q.Try(wish) {
		return wish, nil
	}
	if need <= 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, q.cfg.Patience, ErrBusy)
	defer cancel()
	err := q.Grow(ctx, need)
	if errors.Is(err, ErrLimit) && q.buffers.Shrink() {
		err = q.Grow(ctx, need)
	}
	ahead := q.buffers.Ahead()
	if errors.Is(err, ErrLimit) && !q.abreast && ahead > 0 && q.Held()-ahead+need <= q.most() {
		q.session.abreast.Store(q.shard, true)
		err = fmt.Errorf("%w: what was read ahead is in the way; the shard's next stream goes on without: %w",
			ErrBusy, err)
	}
	return need, err
}

// raise takes what something is going to hold beyond what it held, in so many copies.
func (q *quota) raise(ctx context.Context, held *int64, bytes, copies int64) error {
	if n := copies * (bytes - *held); n > 0 {
		if _, err := q.more(ctx, n, n); err != nil {
			return err
		}
		*held = bytes
	}
	return nil
}

// rest is what the stream could hold more, if it were alone and read nothing ahead.
func (q *quota) rest() int64 { return q.most() - q.Held() + q.buffers.Ahead() }

// done says that the stream came to its end: the next one of its shard reads ahead.
func (q *quota) done() {
	if q.abreast {
		q.session.abreast.Delete(q.shard)
	}
}

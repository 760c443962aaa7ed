package python

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/shared"
	"github.com/penstock-ml/penstock/worker/transform"
)

// ask sends a request, and returns the first answer.
func (f *function) ask(w *waiter, q *process, r *request, within time.Duration, files ...int) (*answer, error) {
	q.number++
	r.Number = q.number
	if err := send(q.conn, r, files...); err != nil {
		return nil, f.broken(q, "took no request: "+err.Error())
	}
	return f.answer(w, q, within)
}

// answer waits for an answer to the last request.
func (f *function) answer(w *waiter, q *process, within time.Duration) (*answer, error) {
	late := time.NewTimer(within)
	defer late.Stop()
	a, ok, err := await(w, q.answers, late.C)
	switch {
	case errors.Is(err, errLate):
		err := f.broken(q, fmt.Sprintf("did not come to an end within %v", within))
		err.late = true
		return nil, err
	case err != nil:
		return nil, &awayError{err}
	case !ok:
		return nil, f.broken(q, "closed its connection")
	case a.Number != q.number:
		return nil, f.broken(q, "gave an answer to no question")
	}
	return a, nil
}

// broken ends a process that has ended, or does not do as it has to, and says how it ended.
func (f *function) broken(q *process, how string) *diedError {
	q.kill(how)
	<-q.dead
	how, killed := q.ended()
	return &diedError{how: how, killed: killed, lost: q.exit.lost != "", said: lastWords(q.said.String())}
}

// run calls the function, which the process has, and returns its last answer.
func (f *function) run(w *waiter, q *process, c *transform.Call) (*answer, error) {
	r := request{Kind: askCall, Function: q.made[f.id], Rows: c.N, Skip: c.Skip}
	var files []int
	size := 0
	for _, v := range c.In {
		if v.Dict != nil {
			return nil, errors.New("a column of codes cannot be handed over")
		}
		size += room(v)
	}
	if f.request.Rng {
		if len(c.Seeds) != c.N {
			return nil, fmt.Errorf("there are %d seeds for %d rows", len(c.Seeds), c.N)
		}
		size += roomOfSeeds(c.Seeds)
	}
	if q.in == nil || len(q.in.Bytes) < size {
		f.renew(q, false)
		var err error
		if q.in, err = shared.Make(segment(size), func(int64) {}); err != nil {
			return nil, err
		}
		r.In, files = len(q.in.Bytes), append(files, q.in.File())
	}
	f.pool.allow(q, f.memory, segments(q), false)
	lay := layer{to: q.in.Bytes}
	for i, v := range c.In {
		if lay.column(v); v.Type.Kind == pb.Kind_PICTURE {
			lay.sizes(c.Sizes[i])
		}
	}
	if f.request.Rng {
		lay.seeds(c.Seeds)
	}
	r.Places = lay.places
	a, err := f.ask(w, q, &r, f.timeout, files...)
	for err == nil && (a.Kind == sayNeed || a.Kind == sayOn) {
		if a.Kind == sayNeed {
			a, err = f.grow(w, q, a.Bytes)
		} else {
			a, err = f.answer(w, q, f.timeout)
		}
	}
	return a, err
}

// finish takes what the function made, from its last answer.
func (f *function) finish(q *process, c *transform.Call, a *answer) error {
	if a.Kept {
		f.renew(q, true)
	}
	switch a.Kind {
	case sayDone:
		return f.done(q, c, a)
	case sayRaised:
		return f.raised(c, a)
	}
	return f.broken(q, fmt.Sprintf("answered %q", a.Kind))
}

// renew gives up the input's segment: it is too small, or the process keeps something of it.
func (f *function) renew(q *process, keeps bool) {
	if q.in != nil {
		q.in.Free()
		q.in = nil
		f.pool.allow(q, 0, segments(q), keeps)
	}
}

// grow gives the process room for results, and returns what it answers then.
func (f *function) grow(w *waiter, q *process, bytes int64) (*answer, error) {
	has := int64(0)
	if q.out != nil {
		has = int64(len(q.out.Bytes))
	}
	if bytes <= has {
		return nil, f.broken(q, fmt.Sprintf("asked for room of %d bytes, and has %d", bytes, has))
	}
	r := request{Kind: askRoom, Number: q.number}
	if bytes > f.memory {
		if err := send(q.conn, &r); err != nil {
			return nil, f.broken(q, "took no request: "+err.Error())
		}
		f.renew(q, true) // it does not say whether it keeps something of it
		return nil, &FunctionError{Op: f.caller.op, What: fmt.Sprintf("its results take %d MiB, and it may take %d; "+
			"give its op more by memory=, or have it make less of a row", bytes>>20, f.memory>>20)}
	}
	out, err := shared.Workspace(segment(int(bytes)), func(int64) {})
	if err != nil {
		return nil, f.broken(q, err.Error())
	}
	if q.out != nil {
		q.out.Free()
	}
	q.out = out
	f.pool.allow(q, 0, segments(q), false)
	r.Out = len(out.Bytes)
	if err := send(q.conn, &r, out.File()); err != nil {
		return nil, f.broken(q, "took no request: "+err.Error())
	}
	return f.answer(w, q, f.timeout)
}

// done takes what the function made.
func (f *function) done(q *process, c *transform.Call, a *answer) error {
	var from []byte
	if q.out != nil {
		from = q.out.Bytes
	}
	parents, places, err := f.parents.take(c.N, a.Rows, from, a.Places, c.Room)
	if c.Parents = parents; err == nil {
		rows := c.N - len(a.Failed)
		if parents != nil {
			rows = len(parents)
		}
		err = take(f.results, c.Out, rows, from, places, c.Room)
	}
	if err == nil {
		err = f.spared(c, a)
	}
	if errors.Is(err, errPlaces) {
		return f.broken(q, "gave results that are none: "+err.Error())
	}
	return err
}

// spared takes the rows that failed.
func (f *function) spared(c *transform.Call, a *answer) error {
	if len(a.Failed) > c.Skip {
		return fmt.Errorf("%w: %d rows failed, where %d may", errPlaces, len(a.Failed), c.Skip)
	}
	c.Failed = make([]transform.RowError, 0, len(a.Failed)+1)
	for i := range a.Failed {
		of := &a.Failed[i]
		if of.Row == nil || *of.Row < 0 || *of.Row >= c.N {
			return fmt.Errorf("%w: a row failed that there is not", errPlaces)
		}
		what := "fails, as others of its window"
		if of.Type != "" || of.Message != "" {
			what = "fails: " + f.error(of).Error()
		}
		c.Failed = append(c.Failed, transform.RowError{Row: *of.Row, What: what, Own: true})
	}
	return nil
}

func (f *function) error(r *raise) *FunctionError {
	return &FunctionError{Op: f.caller.op, What: r.exception(), Traceback: r.Traceback}
}

// raised is what the function raised, or did wrong.
func (f *function) raised(c *transform.Call, a *answer) error {
	err := f.error(&a.raise)
	if a.Row == nil || *a.Row < 0 || *a.Row >= c.N {
		return err
	}
	row := transform.RowError{Row: *a.Row, What: "fails: " + err.Error(), Own: a.Own}
	if !a.Own || len(a.Failed) == 0 || f.spared(c, a) != nil {
		return &row
	}
	all := append(c.Failed, row) // one more than may fail
	slices.SortFunc(all, func(a, b transform.RowError) int { return cmp.Compare(a.Row, b.Row) })
	return &transform.RowsError{Rows: all}
}

// segments is how many bytes a process's segments have.
func segments(q *process) (n int64) {
	for _, m := range []*shared.Memory{q.in, q.out} {
		if m != nil {
			n += int64(len(m.Bytes))
		}
	}
	return n
}

// minSegment is what the smallest segment has.
const minSegment = 64 << 10

// segment is how large a segment is that has room for so many bytes: twice as large as one that was too small.
func segment(bytes int) int { return max(minSegment, 1<<bits.Len(uint(max(bytes, 1)-1))) }

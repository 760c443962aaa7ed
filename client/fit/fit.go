package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/internal/process"
)

// Column is a column of a fit, and what is asked of it.
type Column struct {
	Name string `json:"name"`         // of the feature that brings it
	Of   string `json:"of,omitempty"` // what it is called in the file; "": its name
	// Kind is that of its values: bool, int32, int64, float32, float64 or binary.
	Kind pb.Kind `json:"kind"`
	// List says that rows are lists. Else a row that brings no value is a null.
	List bool `json:"list,omitempty"`
	// Unsigned says that int64s are the bits of uint64s: of ids that are as frequent, those of 2^63 and more come last.
	// As numbers they are what ops see, which are negative.
	Unsigned bool `json:"unsigned,omitempty"`
	// Present names the feature, a label of bools, that says which rows have a value, where the column's own cannot:
	// null texts come as empty ones, null floats as NaN. "": none; all texts are values then.
	Present string `json:"present,omitempty"`
	// Statistics are asked of it. Each is of Of, whatever its own says.
	Statistics []fitted.Statistic `json:"statistics"`
}

// Options are how a fit works. None of them changes what it finds, but for MaxExact.
type Options struct {
	// Folder is where counts go that are too many for memory, and checkpoints. It is this fit's alone. If it has a
	// checkpoint, the fit goes on from it. "": a temporary one, which Close removes.
	Folder string
	// Memory bounds the bytes of counted values; 0: 1 GiB. Less than about 100 KiB a column has no effect.
	Memory int64
	// MaxExact is how many distinct values a column may have for exact quantiles, unless something else needs its
	// counts exactly, too; 0: 2^24. Beyond that they are rounded, with the error that the file says.
	MaxExact uint64
	// Identity says what is read, such as digests of spec and dataset: a checkpoint of anything else is refused.
	Identity string
}

const (
	defaultMemory   = 1 << 30
	defaultMaxExact = 1 << 24
	// Of the memory, one part in sortingShare is for sorting vocabularies.
	sortingShare = 4
	leastSorting = 64 << 10
	queued       = 2 // batches a column
)

// Fit computes statistics of columns. It belongs to one goroutine.
type Fit struct {
	columns  []*column
	folder   *folder
	identity string
	maxExact uint64
	memory   int64
	state    []byte
	restored bool
	finished bool

	running sync.WaitGroup
	failed  atomic.Pointer[error]
}

// column is a Column at work. All of it is its goroutine's, but for the queue.
type column struct {
	Column
	index   int
	folder  *folder
	sorting int64 // bytes for each vocabulary
	queue   chan message

	tally tally
	exact *exact // nil: nobody asks for it
	set   *set   // likewise
	keys  []uint64
	flip  uint64 // what makes a key of the set of a tally's: the sign's bit, where the set is in the order of uint64s
	err   error

	results []result
	rounded bool
}

// message is for a column's goroutine: values, or something to do and where to say how it went.
type message struct {
	values []Values
	done   func()
	do     func(*column) error
	reply  chan<- error
}

// Open begins a fit, or goes on from the folder's checkpoint. Close must follow.
func Open(columns []Column, o Options) (*Fit, error) {
	if err := check(columns); err != nil {
		return nil, err
	}
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	if o.MaxExact == 0 {
		o.MaxExact = defaultMaxExact
	}
	dir, err := openFolder(o.Folder)
	if err != nil {
		return nil, err
	}
	f := &Fit{folder: dir, identity: o.Identity, maxExact: o.MaxExact, memory: o.Memory}
	f.makeColumns(columns, o)
	if err := f.restore(); err != nil {
		return nil, errors.Join(err, dir.close())
	}
	process.RaiseMemoryLimit(f.memory) // of a process that has a worker, too
	for _, c := range f.columns {
		f.running.Go(func() { f.run(c) })
	}
	return f, nil
}

func check(columns []Column) error {
	names := map[string]bool{}
	for _, c := range columns {
		if names[c.Name] {
			return fmt.Errorf("column %s comes twice; put its statistics together", c.Name)
		}
		names[c.Name] = true
		for _, s := range c.Statistics {
			s.Of = cmp.Or(c.Of, c.Name)
			if err := s.Check(c.Kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeColumns makes what the columns need.
func (f *Fit) makeColumns(columns []Column, o Options) {
	sets, vocabularies := 0, int64(1)
	for i, from := range columns {
		c := &column{Column: from, index: i, folder: f.folder, queue: make(chan message, queued)}
		c.Statistics = nil
		for _, s := range from.Statistics {
			s.Of = cmp.Or(from.Of, from.Name)
			c.Statistics = append(c.Statistics, s)
			if s.Name == fitted.Vocabulary {
				vocabularies++
			}
		}
		if c.needsSet() {
			sets++
		}
		f.columns = append(f.columns, c)
	}
	sorting := o.Memory / sortingShare
	memory := newBudget(o.Memory-sorting, sets)
	for _, c := range f.columns {
		c.sorting = max(sorting/vocabularies, leastSorting)
		c.makeSet(memory, o.MaxExact)
	}
}

func (c *column) needsSet() bool {
	for _, s := range c.Statistics {
		if set, _ := needsSet(s); set {
			return true
		}
	}
	return false
}

// makeSet makes what the statistics need.
func (c *column) makeSet(memory *budget, limit uint64) {
	for _, s := range c.Statistics {
		if _, exact := needsSet(s); exact {
			limit = 0
			if c.Unsigned && c.Kind == pb.Kind_INT64 {
				c.flip = signBit
			}
		}
		if s.Name == fitted.Moments {
			c.exact = &exact{}
		}
	}
	if c.needsSet() {
		ints := !isFloat(c.Kind)
		c.set = newSet(c.index, c.Kind == pb.Kind_BINARY, ints, limit, c.folder, memory)
		c.keys = make([]uint64, 0, 16*batch)
	}
}

// run is a column's goroutine.
func (f *Fit) run(c *column) {
	for m := range c.queue {
		if m.do != nil {
			if c.err == nil {
				c.err = m.do(c)
			}
			m.reply <- c.err
			continue
		}
		for i := range m.values {
			if c.err == nil {
				c.err = c.add(&m.values[i])
			}
		}
		if c.err != nil {
			f.failed.CompareAndSwap(nil, &c.err)
		}
		m.done()
	}
}

// Restored is the state that the checkpoint has which the fit goes on from, and whether there is one.
func (f *Fit) Restored() (state []byte, ok bool) { return f.state, f.restored }

// Add feeds rows: columns has the values of each column, in the order of Open. They must stay as they are until done is
// called, which happens once, from any goroutine, if Add fails, too; nil: Add waits for it. Add waits while columns are
// two batches behind.
func (f *Fit) Add(columns [][]Values, done func()) error {
	if len(columns) != len(f.columns) {
		return fmt.Errorf("values of %d columns came for a fit of %d", len(columns), len(f.columns))
	}
	if done == nil {
		read := make(chan struct{})
		defer func() { <-read }()
		done = func() { close(read) }
	}
	if err := f.err(); err != nil || len(columns) == 0 {
		done()
		return err
	}
	var left atomic.Int64
	left.Store(int64(len(columns)))
	each := func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
	for i, values := range columns {
		f.columns[i].queue <- message{values: values, done: each}
	}
	return nil
}

func (f *Fit) err() error {
	if f.finished {
		return errors.New("the fit is finished; open another one")
	}
	if err := f.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// each has all columns do something, once they have read what was added, up to some at a time.
func (f *Fit) each(atOnce int, do func(*column) error) error {
	turns := make(chan struct{}, atOnce)
	replies := make(chan error, len(f.columns))
	for _, c := range f.columns {
		c.queue <- message{reply: replies, do: func(c *column) error {
			turns <- struct{}{}
			defer func() { <-turns }()
			return do(c)
		}}
	}
	var errs []error
	for range f.columns {
		errs = append(errs, <-replies)
	}
	return errors.Join(errs...)
}

// Without returns the names of columns of which a vocabulary is asked and no value came: it would be empty.
func (f *Fit) Without() ([]string, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := f.each(len(f.columns), func(*column) error { return nil }); err != nil { // all that was added is read
		return nil, err
	}
	var names []string
	for _, c := range f.columns {
		asked := func(s fitted.Statistic) bool { return s.Name == fitted.Vocabulary }
		if c.tally.Values == 0 && slices.ContainsFunc(c.Statistics, asked) {
			names = append(names, cmp.Or(c.Of, c.Name))
		}
	}
	return names, nil
}

// Write computes the results of all that was added, and writes them. Only Close may follow.
func (f *Fit) Write(ctx context.Context, w *fitted.Writer) error {
	if err := f.err(); err != nil {
		return err
	}
	f.finished = true
	if err := f.each(runtime.GOMAXPROCS(0), func(c *column) error { return c.finish(ctx) }); err != nil {
		return err
	}
	for _, c := range f.columns {
		if err := c.write(w); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close ends the fit's goroutines. A folder that was named stays as it is, with its checkpoint.
func (f *Fit) Close() error {
	for _, c := range f.columns {
		close(c.queue)
	}
	f.running.Wait()
	process.RaiseMemoryLimit(-f.memory)
	return f.folder.close()
}

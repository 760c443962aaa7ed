// Package tensor lays vectors out as tensors: it takes the chosen rows of a window from the slots of a program
// and writes them as one Arrow record batch in the wire layout (docs/internals/tensors.md). It follows transform and
// precedes serve. A Builder and its batches belong to one stream; only Batch.Release may be called from another
// goroutine.
package tensor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Window is what a Builder reads: the slots of a program for rows of one window. Once a Builder has seen it, its slots
// stay.
type Window struct {
	Slots []*vector.Vector
	Rows  int // of the slots
	// Order lists rows of the slots in the order of output; nil stands for all rows as they are.
	Order []int32
	// Chosen lists the rows of the window that the slots hold; nil stands for all. Of a program that makes rows, it
	// never falls, and has a row as often as rows were made of it.
	Chosen []int32
	// File and FirstRow say where the window lies, for provenance and messages.
	File     *pb.File
	FirstRow int64
}

// Len is the number of output rows.
func (w *Window) Len() int {
	if w.Order != nil {
		return len(w.Order)
	}
	return w.Rows
}

// Source is the row of the slots that output row i comes from.
func (w *Window) Source(i int) int {
	if w.Order != nil {
		return int(w.Order[i])
	}
	return i
}

// RowOf is the row of the file that a row of the slots is.
func (w *Window) RowOf(source int) int64 {
	if w.Chosen != nil {
		source = int(w.Chosen[source])
	}
	return w.FirstRow + int64(source)
}

// Builder makes batches of one program's tensors.
type Builder struct {
	outputs []output
	schema  *arrow.Schema
	free    chan *Batch
	closed  atomic.Bool
	widths  Widths
	session string // whose trainers can map batches; "": none
	least   int    // bytes of what they map
	kept    func(bytes int64)
	seen    *Window // that the outputs know
	shares  bool    // some of its lists have one value each
}

// output adds one field's arrays to a batch, for rows [from, to) of a window's output.
type output interface {
	build(b *Batch, w *Window, from, to int) error
	// size is what they take, in bytes, or a little more, and what building them takes besides for the moment.
	size(w *Window, from, to int) (n, spare int64)
}

// onlooker is an output that looks at a window's values before it builds.
type onlooker interface{ see(b *Builder, w *Window) }

// NewBuilder prepares for a program. At most `batches` batches are out at a time: Take waits for a Release
// rather than allocate more.
func NewBuilder(p *pb.Program, batches int) (*Builder, error) {
	schema, err := tensors.Schema(p)
	if err != nil {
		return nil, err
	}
	b := &Builder{schema: schema, free: make(chan *Batch, batches)}
	for _, o := range p.GetOutputs() {
		out, err := newOutput(p, o)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", o.GetName(), err)
		}
		b.outputs = append(b.outputs, out)
	}
	if p.GetProvenance() {
		b.outputs = append(b.outputs, provenanceFile{}, provenanceRow{})
		if spec.HasParts(p) {
			b.outputs = append(b.outputs, provenancePart{})
		}
	}
	for range batches {
		b.free <- &Batch{owner: b}
	}
	return b, nil
}

// Arrays is how many arrays a batch of a program has, by what they cost: offsets and values of each output, and each
// tile of a matrix, whose columns are laid out together.
func Arrays(p *pb.Program) (n int64) {
	for _, o := range p.GetOutputs() {
		n += 2 + int64(len(o.GetSlots())/tileColumns)
	}
	return n
}

// Narrow has int64 values of lists and labels take fewer bytes in their buffers where all of an array's are small:
// docs/internals/tensors.md says when. Such batches are no Arrow records.
func (b *Builder) Narrow(to Widths) { b.widths = to }

// Share has batches lie in memory that trainers of a session can map, where there is such, or, of none (""), in Go's.
// Memory that those of another session could map is not used again: they may have it mapped still. `least` bytes hold
// most batches: to need more memory leaves a trainer with what it has mapped. kept is told how many bytes more, or
// fewer, trainers have mapped of what the builder gave up.
func (b *Builder) Share(session string, least int64, kept func(bytes int64)) {
	b.session, b.least, b.kept = session, int(least), kept
}

// Close gives up the memory of the batches that came back, and of others as they do. None is taken any more.
func (b *Builder) Close() {
	b.closed.Store(true)
	for {
		select {
		case batch := <-b.free:
			batch.drop()
		default:
			return
		}
	}
}

// Idle reports whether all batches came back.
func (b *Builder) Idle() bool { return len(b.free) == cap(b.free) }

// Await waits until all batches came back, or ctx ends. None may be taken meanwhile.
func (b *Builder) Await(ctx context.Context) {
	var back []*Batch
	for range cap(b.free) {
		select {
		case batch := <-b.free:
			back = append(back, batch)
			continue
		case <-ctx.Done():
		}
		break
	}
	for _, batch := range back {
		b.free <- batch
	}
}

// see looks at a window's values, unless it has.
func (b *Builder) see(w *Window) {
	if b.seen == w {
		return
	}
	b.seen, b.shares = w, false
	for _, o := range b.outputs {
		if o, ok := o.(onlooker); ok {
			o.see(b, w)
		}
	}
}

// Schema of the record batches.
func (b *Builder) Schema() *arrow.Schema { return b.schema }

// RowsFor is how many rows of the window's output make a batch of `bytes` bytes on average; at least 1.
func (b *Builder) RowsFor(w *Window, bytes int64) int {
	b.see(w)
	rows := w.Len()
	all, _ := b.size(w, 0, rows)
	each := float64(all) / float64(max(1, rows))
	return max(1, int(min(float64(bytes)/max(1, each), float64(rows))))
}

// Piece is rows [From, To) of a window's output, which make one batch.
type Piece struct {
	From, To int
	// Bytes is what the batch takes, or a little more, and spare what it does besides while it is built.
	Bytes, spare int64
}

// Cut is the piece that begins at from: of `rows` rows, or fewer, so that its batch has at most `bytes` bytes, but for
// a single row that has more.
func (b *Builder) Cut(w *Window, from, rows int, bytes int64) Piece {
	b.see(w)
	for p := (Piece{From: from, To: min(from+rows, w.Len())}); ; p.To = from + (p.To-from)/2 {
		if p.Bytes, p.spare = b.size(w, from, p.To); p.Bytes <= bytes || p.To-from <= 1 {
			return p
		}
	}
}

func (b *Builder) size(w *Window, from, to int) (n, spare int64) {
	if b.shares {
		n = 4 * int64(to-from+1)
	}
	for _, o := range b.outputs {
		bytes, more := o.size(w, from, to)
		n, spare = n+bytes, max(spare, more)
	}
	return n, spare
}

// Take waits for a batch that is free, until ctx ends. Release gives it back.
func (b *Builder) Take(ctx context.Context) (*Batch, error) {
	select {
	case batch := <-b.free:
		return batch, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TryTake is Take where it need not wait.
func (b *Builder) TryTake() (*Batch, bool) {
	select {
	case batch := <-b.free:
		return batch, true
	default:
		return nil, false
	}
}

// Needs is how many bytes Take's batch has once a piece is built in it.
func (b *Builder) Needs(batch *Batch, p Piece) int64 {
	n, held := b.bytes(p), int64(0)
	if batch.stays() {
		held = batch.Held()
	}
	if n <= held || b.session != "" {
		return max(n, held)
	}
	return withSlack(n)
}

// bytes is what a piece is laid out in.
func (b *Builder) bytes(p Piece) int64 {
	return p.Bytes + p.spare + alignment*(1+maxBuffers*int64(len(b.outputs)))
}

// maxBuffers is how many buffers an output has at most: offsets, values and weights.
const maxBuffers = 3

// Build lays a piece of the window's output out in a batch of Take's, which it releases if it fails.
func (b *Builder) Build(batch *Batch, w *Window, p Piece) error {
	b.see(w)
	built := false
	defer func() {
		if !built {
			batch.Release()
		}
	}()
	batch.reset(p.To - p.From)
	batch.grow(int(b.bytes(p)))
	if b.shares {
		batch.ones = room[int32](batch, p.To-p.From+1)
		copy(batch.ones, vector.Counting(p.To-p.From))
	}
	for i, o := range b.outputs {
		err := o.build(batch, w, p.From, p.To)
		if bad, ok := errors.AsType[*BadRowsError](err); ok {
			bad.Tensor = b.schema.Field(i).Name
			return bad
		}
		if err != nil {
			return fmt.Errorf("tensor %s: %w", b.schema.Field(i).Name, err)
		}
	}
	built = true
	return nil
}

// Empty makes a batch of Take's one without rows.
func (b *Builder) Empty(batch *Batch) {
	batch.reset(0)
	if !batch.stays() { // it lends its memory, too
		batch.drop()
	}
	for _, f := range b.schema.Fields() {
		batch.addEmpty(f.Type)
	}
}

func newOutput(p *pb.Program, o *pb.Output) (output, error) {
	if len(o.ProtoReflect().GetUnknown()) > 0 { // to ignore them might give other values
		return nil, errors.New("it has fields that are not known: this release of penstock is older than the master's")
	}
	slots := len(p.GetSources())
	for _, s := range p.GetSteps() {
		slots += int(s.GetOuts())
	}
	for _, s := range o.GetSlots() {
		if int(s) >= slots {
			return nil, fmt.Errorf("slot %d of %d", s, slots)
		}
	}
	if o.GetLayout() != pb.Layout_DENSE && len(o.GetSlots()) != 1 {
		return nil, fmt.Errorf("layout %v with %d slots", o.GetLayout(), len(o.GetSlots()))
	}
	if o.Weights != nil && int(o.GetWeights()) >= slots {
		return nil, fmt.Errorf("weights slot %d of %d", o.GetWeights(), slots)
	}
	switch o.GetLayout() {
	case pb.Layout_DENSE:
		return &dense{out: o}, nil
	case pb.Layout_SPARSE:
		return newSparse(o), nil
	case pb.Layout_LABEL:
		return &label{out: o}, nil
	case pb.Layout_BYTES:
		return &byteStrings{o}, nil
	case pb.Layout_IMAGE:
		return newImage(p, o)
	case pb.Layout_TENSOR:
		return newShaped(o), nil
	case pb.Layout_PADDED:
		return newPadded(o), nil
	}
	return nil, fmt.Errorf("layout %v", o.GetLayout()) // tensors.Schema knows those that there are
}

func typeError(v *vector.Vector, want string) error {
	return fmt.Errorf("is %v; want %s", v.Type, want)
}

func isScalar(v *vector.Vector, k pb.Kind) bool { return v.Type == spec.Type{Kind: k} }

// Package wire moves record batches from a worker to a trainer without needless copies: as Arrow Flight's messages over
// gRPC, whose body is the batch's own memory on the way out and lies in one aligned, pooled buffer on the way in. What
// it sends, any Flight client reads; what it receives, it does not trust. Where both sides know how, the batches of a
// stream go on a connection beside gRPC's, a link: written and read without any copy. On a near link, between processes
// of one user on one machine, their memory is lent rather than sent. worker/serve sends with it and client receives.
// The formats are on the page of worker/serve.
//
// A Codec, a Pool, a LinkServer and Links may be shared by goroutines; a Stream and a Sender belong to one. A Stream
// owns another goroutine until its context ends, and a LinkServer one for each link until its client has closed it; a
// Batch has one owner, who releases it.
package wire

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/shared"
)

// Node is one array of a batch: a column, or a child of one.
type Node struct{ Length, Nulls int64 }

// Batch is a record batch taken apart as Arrow's IPC does: its arrays depth first, each with its buffers.
type Batch struct {
	Rows    int64
	Nodes   []Node
	Buffers [][]byte
	// Meta is its app_metadata, a serialised BatchMeta.
	Meta []byte
	// Memory, if it is set, is what all of the buffers lie in, of a batch to send.
	Memory *shared.Memory
	// Lent is set where the memory is the sender's, who has no more than for Kept such batches.
	Lent bool
	// Way is how one came that was received.
	Way Way
	// More is set of one to send if another waits already, to be sent right after it.
	More bool
	// Bytes is the memory of what it has, for one that was received also what it lies in, and Sent what it had on the
	// network.
	Bytes, Sent int64

	release func()
}

// Way is how a batch comes to its trainer.
type Way string

// The ways: in memory that the trainer reads where the worker has it, by a link, or by gRPC.
const (
	InMemory Way = "memory"
	ByLink   Way = "link"
	ByGRPC   Way = "grpc"
)

// Kept is how many batches of a stream may be kept at once that are Lent: the stream has no more memory to make others
// in.
const Kept = 2

// Receiver takes in what a stream brings: its schema, then its batches, which it releases, even those that it refuses.
// An error ends the stream, which ends ctx. After the last batch of a stream that came to its end, Return has the
// receiver release soon what it keeps.
type Receiver interface {
	Schema(ctx context.Context, s *arrow.Schema) error
	Batch(ctx context.Context, b *Batch) error
	Return() error
}

// Clone copies a batch into memory of a pool. Offsets that arrays share they share there, too. It fails if its buffers
// lie on each other, and are longer than any batch.
func (b *Batch) Clone(p *Pool) (*Batch, error) {
	size, offsets := int64(0), int64(arrow.Int32SizeBytes)*(b.Rows+1)
	var last *byte // offsets
	for _, buf := range b.Buffers {
		if n := int64(len(buf)); n != offsets || unsafe.SliceData(buf) != last {
			size += pad(n)
			if n == offsets {
				last = unsafe.SliceData(buf)
			}
		}
	}
	if size > 2*maxBody { // with what they are padded to
		return nil, fmt.Errorf("%w: its buffers have %d bytes", errMessage, size)
	}
	m := p.Get(int(size))
	out := &Batch{Rows: b.Rows, Meta: b.Meta, Bytes: int64(cap(m.Bytes)), Sent: b.Sent, release: m.Free}
	out.Nodes, out.Buffers = m.arrays(len(b.Nodes), len(b.Buffers))
	copy(out.Nodes, b.Nodes)
	rest := m.Bytes
	var copied []byte // of last
	last = nil
	for i, buf := range b.Buffers {
		n := int64(len(buf))
		switch {
		case n == 0:
			out.Buffers[i] = nil
		case n == offsets && unsafe.SliceData(buf) == last:
			out.Buffers[i] = copied
		default:
			out.Buffers[i] = rest[:n:n]
			copy(rest, buf)
			rest = rest[pad(n):]
			if n == offsets {
				last, copied = unsafe.SliceData(buf), out.Buffers[i]
			}
		}
	}
	return out, nil
}

// Release gives the batch's memory back; its nodes and buffers must not be used any more. A second call does nothing.
func (b *Batch) Release() {
	if f := b.release; f != nil {
		b.release, b.Nodes, b.Buffers = nil, nil, nil
		f()
	}
}

// OnRelease sets what Release does.
func (b *Batch) OnRelease(f func()) { b.release = f }

// Flatten takes a record apart. The buffers are the record's own.
func (b *Batch) Flatten(rec arrow.Record) error {
	b.Rows, b.Nodes, b.Buffers = rec.NumRows(), b.Nodes[:0], b.Buffers[:0]
	b.Bytes, b.Sent = 0, 0
	for i, c := range rec.Columns() {
		if err := b.flatten(c.Data()); err != nil {
			return fmt.Errorf("wire: column %q: %w", rec.ColumnName(i), err)
		}
	}
	return nil
}

func (b *Batch) flatten(d arrow.ArrayData) error {
	if d.Offset() != 0 {
		return fmt.Errorf("starts at %d of its buffers; arrays on the wire start at 0", d.Offset())
	}
	b.Nodes = append(b.Nodes, Node{int64(d.Len()), int64(d.NullN())})
	for _, buf := range d.Buffers() {
		var bytes []byte
		if buf != nil {
			bytes = buf.Bytes()
		}
		b.Buffers = append(b.Buffers, bytes)
		b.Bytes += int64(len(bytes))
	}
	for _, c := range d.Children() {
		if err := b.flatten(c); err != nil {
			return err
		}
	}
	return nil
}

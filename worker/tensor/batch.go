package tensor

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/worker/vector"
)

// Batch is a record batch in memory that is used again after Release. Until then nothing changes it, and its buffers may be
// read by any goroutine.
type Batch struct {
	Rows int64
	// Nodes and Buffers are what Arrow's IPC has of it: the arrays depth first, and the buffers of each. None has nulls: the
	// buffers of their validity are nil. All lists of one value share their offsets.
	Nodes   []Node
	Buffers [][]byte
	// Bytes is what the buffers have together, what is shared counted once.
	Bytes int64

	owner  *Builder
	mem    []scratch
	ones   []int32 // the offsets that lists of one value share
	counts bool    // they are among the buffers
}

// Node is one array of a batch: a column, or a child of one.
type Node struct{ Length, Nulls int64 }

// Release gives the batch's memory back to its builder.
func (b *Batch) Release() {
	b.reset(0)
	b.owner.free <- b
}

func (b *Batch) reset(rows int) {
	b.Rows, b.Nodes, b.Buffers, b.Bytes = int64(rows), b.Nodes[:0], b.Buffers[:0], 0
	b.ones, b.counts = vector.Counting(rows), false
}

// Trim has the batch's memory not be used again if that is more than `most` bytes, and a little for each output. It grows to what each of
// the outputs had at most, and these may have been parts of different batches.
func (b *Batch) Trim(most int64) {
	if b.Held() > most {
		clear(b.mem)
	}
}

// Held is how many bytes there are for the next batch, but for a little for each output.
func (b *Batch) Held() (n int64) {
	for i := range b.mem {
		m := &b.mem[i]
		n += int64(max(0, cap(m.values)-little) + max(0, cap(m.weights)-little) + 4*max(0, cap(m.offsets)-little))
	}
	return n
}

// little is what vector.Grow adds to slices however short they are.
const little = 64

// add adds an array of n values without nulls, with the buffers that it has beside the validity.
func (b *Batch) add(n int, buffers ...[]byte) {
	b.Nodes = append(b.Nodes, Node{Length: int64(n)})
	b.Buffers = append(b.Buffers, nil)
	for _, buffer := range buffers {
		b.Buffers = append(b.Buffers, buffer)
		b.Bytes += int64(len(buffer))
	}
}

// addLists adds n lists, whose offsets may be those that others share.
func (b *Batch) addLists(n int, offsets []int32, shared bool) {
	b.add(n, bytesOf(offsets))
	if shared && b.counts { // then they are among the buffers
		b.Bytes -= 4 * int64(len(offsets))
	}
	b.counts = b.counts || shared
}

// addEmpty adds an array of no values, and its children.
func (b *Batch) addEmpty(t arrow.DataType) {
	b.Nodes = append(b.Nodes, Node{})
	b.Buffers = append(b.Buffers, make([][]byte, len(t.Layout().Buffers))...)
	if nested, ok := t.(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			b.addEmpty(f.Type)
		}
	}
}

// Record is the batch as Arrow's library has it, on the batch's memory: it must not be used after Release.
func (b *Batch) Record() arrow.Record {
	rest := &arrays{b.Nodes, b.Buffers}
	schema := b.owner.schema
	columns := make([]arrow.Array, schema.NumFields())
	for i, f := range schema.Fields() {
		columns[i] = array.MakeFromData(rest.next(f.Type))
	}
	return array.NewRecord(schema, columns, b.Rows)
}

// arrays are those of a batch that are left to read.
type arrays struct {
	nodes   []Node
	buffers [][]byte
}

func (a *arrays) next(t arrow.DataType) arrow.ArrayData {
	node := a.nodes[0]
	a.nodes = a.nodes[1:]
	buffers := make([]*memory.Buffer, len(t.Layout().Buffers))
	for i, bytes := range a.buffers[:len(buffers)] {
		if i > 0 { // 0 is the validity
			buffers[i] = memory.NewBufferBytes(slices.Clip(bytes))
		}
	}
	a.buffers = a.buffers[len(buffers):]
	var children []arrow.ArrayData
	if nested, ok := t.(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			children = append(children, a.next(f.Type))
		}
	}
	return array.NewData(t, int(node.Length), buffers, children, int(node.Nulls), 0)
}

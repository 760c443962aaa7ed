package tensor

import (
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/internal/shared"
)

// Batch is a record batch in memory that is used again after Release. Until then nothing changes it, and its buffers
// may be read by any goroutine.
type Batch struct {
	Rows int64
	// Nodes and Buffers are what Arrow's IPC has of it: the arrays depth first, and the buffers of each. None has
	// nulls: the buffers of their validity are nil. All lists of one value share their offsets.
	Nodes   []Node
	Buffers [][]byte
	// Bytes is what the buffers have together, what is shared counted once.
	Bytes int64

	// Shared is the memory that they lie in, if trainers can map it.
	Shared *shared.Memory

	owner  *Builder
	memory []byte  // that they lie in
	with   string  // the session that it is shared with
	last   int     // where the buffer begins in it that was laid out last
	end    int     // of that
	ones   []int32 // the offsets that lists of one value share
	counts bool    // they are among the buffers
}

// Node is one array of a batch: a column, or a child of one.
type Node struct{ Length, Nulls int64 }

// alignment is that of each buffer in the memory, as Arrow advises.
const alignment = 64

// Release gives the batch's memory back to its builder.
func (b *Batch) Release() {
	b.reset(0)
	if b.Shared != nil && b.Shared.Bytes == nil { // a trainer kept it
		b.drop()
	}
	owner := b.owner
	owner.free <- b
	if owner.closed.Load() {
		owner.Close()
	}
}

func (b *Batch) reset(rows int) {
	b.Rows, b.Nodes, b.Buffers, b.Bytes = int64(rows), b.Nodes[:0], b.Buffers[:0], 0
	b.last, b.end, b.ones, b.counts = 0, 0, nil, false
}

// Held is how many bytes the batch has, and keeps for the next one.
func (b *Batch) Held() int64 {
	if b.Shared != nil {
		return b.Shared.Used()
	}
	return int64(cap(b.memory))
}

// stays reports whether the batch keeps its memory: it is of its builder's session, or, if that is "", Go's.
func (b *Batch) stays() bool { return b.with == b.owner.session }

// maxMore is how much more memory is shared at most than a batch needs, so that it need not be another one for each
// that is longer.
const maxMore = 64 << 20

// grow has the batch have n bytes, which its session's trainers can map, if the machine has such.
func (b *Batch) grow(n int) {
	if len(b.memory) < n || !b.stays() {
		b.drop()
		if session := b.owner.session; session != "" {
			b.share(max(n+min(n, maxMore), b.owner.least), session) // what is not used takes no memory
		}
		if b.Shared == nil {
			b.memory = make([]byte, withSlack(int64(n)))
		}
	}
	if b.Shared != nil {
		b.Shared.Use(n)
	}
}

// withSlack is how long memory is made for n bytes: the next batch may be a little longer.
func withSlack(n int64) int64 { return n + n/8 }

// share makes memory that trainers of a session can map, or has the builder do without.
func (b *Batch) share(n int, session string) {
	m, err := shared.Make(n, b.owner.kept)
	if err != nil {
		b.owner.session = ""
		return
	}
	b.Shared, b.memory, b.with = m, m.Bytes, session
}

// drop gives up the memory, and forgets where it was.
func (b *Batch) drop() {
	if b.Shared != nil {
		b.Shared.Free()
	}
	clear(b.Buffers[:cap(b.Buffers)])
	b.Shared, b.memory, b.with = nil, nil, ""
}

// room lays out n values behind the buffers that there are. What they are is undefined.
func room[T number](b *Batch, n int) []T {
	var zero T
	b.last = aligned(b.end)
	b.end = b.last + n*int(unsafe.Sizeof(zero))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.memory[b.last:b.end]))), n)
}

// keep keeps the first n bytes of the buffer that was laid out last.
func (b *Batch) keep(n int) { b.end = b.last + n }

// aligned is where a buffer may begin that cannot before at.
func aligned(at int) int { return (at + alignment - 1) &^ (alignment - 1) }

// number is an element type of tensors.
type number interface {
	int32 | int64 | float32 | float64 | unsigned
}

// bytesOf is the memory of fixed-size values.
func bytesOf[T any](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

func bit(words []uint64, i int) bool { return words == nil || words[i>>6]>>(i&63)&1 == 1 }

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

// Schema is that of the batch's Record.
func (b *Batch) Schema() *arrow.Schema { return b.owner.schema }

// Values are the batch's buffers without those of validity: of each array offsets, values and so on. They are good
// until Release.
func (b *Batch) Values() (out [][]byte) {
	rest := b.Buffers
	var walk func(t arrow.DataType)
	walk = func(t arrow.DataType) {
		n := len(t.Layout().Buffers)
		out, rest = append(out, rest[1:n]...), rest[n:]
		if nested, ok := t.(arrow.NestedType); ok {
			for _, f := range nested.Fields() {
				walk(f.Type)
			}
		}
	}
	for _, f := range b.owner.schema.Fields() {
		walk(f.Type)
	}
	return out
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

package pipeline

import (
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/worker/columns"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// engine is what a stream works with, compiled of its program, and its memory but for column chunks.
type engine struct {
	decoder *columns.Decoder
	filter  *rowfilter.Program // nil: all rows
	expr    *filter.Expr       // that filter was compiled of
	chain   *transform.Chain
	builder *tensor.Builder
	reads   []bool // for each source, whether it is for more than to choose rows
	windows windowScratch
	extra   map[*tensor.Batch]int64 // what each batch has beyond the usual
}

// beyond is what all batches have beyond the usual.
func (e *engine) beyond() (bytes int64) {
	for _, n := range e.extra {
		bytes += n
	}
	return bytes
}

// giveUp gives up the memory of batches, if there is any.
func (e *engine) giveUp() {
	if e != nil && e.builder != nil {
		e.builder.Close()
	}
}

// kit is what a stream leaves to the next one of its program: the engine, whose buffers have grown to what the program takes, and
// chunk memory. To work on it spares fresh memory, which is cleared, brought in page by page, and collected.
type kit struct {
	*engine
	program string
	holds   holding // chunks: of the buffers
	buffers [][]byte
	since   time.Time
}

// bytes is how much it holds.
func (k *kit) bytes() int64 {
	h := k.holds
	return h.chunks + h.pages + h.sources + h.results + batchesOut*h.batch + h.longer + h.scratch
}

// kitKept is for how long a kit is kept that nobody takes.
const kitKept = time.Minute

// kits are those that nobody works with, in the order in which they came. They belong to the budget, under its mutex.
type kits struct {
	of    []*kit
	bytes int64
}

func (k *kits) put(x *kit) {
	k.of = append(k.of, x)
	k.bytes += x.bytes()
}

// take takes the latest of a program, which is the likeliest to be in a cache.
func (k *kits) take(program string) *kit {
	for i, x := range slices.Backward(k.of) {
		if x.program == program {
			return k.remove(i)
		}
	}
	return nil
}

func (k *kits) remove(i int) *kit {
	x := k.of[i]
	k.of = slices.Delete(k.of, i, i+1)
	k.bytes -= x.bytes()
	return x
}

// drop gives up n bytes, or all, the oldest first, and returns how many of them there were not.
func (k *kits) drop(n int64) int64 {
	for n > 0 && len(k.of) > 0 {
		n -= k.closeOldest()
	}
	return max(0, n)
}

// expire drops what nobody has taken since a time.
func (k *kits) expire(before time.Time) {
	for len(k.of) > 0 && k.of[0].since.Before(before) {
		k.closeOldest()
	}
}

// closeOldest gives up one, and returns its bytes.
func (k *kits) closeOldest() int64 {
	x := k.remove(0)
	x.giveUp()
	return x.bytes()
}

// leave is the kit of a stream that came to its end; nil if it did not, or if not all of the kit is there, and counted.
func (s *Stream) leave() *kit {
	if !s.ended || s.uncounted || s.kitKey == "" || !s.builder.Idle() {
		return nil
	}
	s.ended = false // there is only one
	k := &kit{engine: s.engine, program: s.kitKey, holds: s.holds, buffers: s.chunks.free, since: time.Now()}
	k.decoder.Forget()
	k.decoder.AskFor(nil)
	k.chain.Ask(transform.Ask{})
	k.chain.Place(transform.Rows{}, images.Room{})
	k.chain.Watch(nil)
	k.holds.longer = s.beyond()
	k.holds.pages, k.holds.sources, k.holds.chunks = k.decoder.Held(), 0, 0
	for _, b := range k.buffers {
		k.holds.chunks += int64(cap(b))
	}
	return k
}

// take makes the stream use a kit instead of an engine of its own, if there is one of its program that fits: into the memory that was
// reserved for the stream and room more bytes, with what later pages may need left free. It returns how many bytes it holds beyond the
// reserved ones, and the kit's size.
func (s *Stream) take(from *kits, room int64) (more, has int64) {
	k := from.take(s.kitKey)
	if k == nil {
		return 0, 0
	}
	room = max(0, min(room, s.pipeline.memory.total-s.account.held-s.holds.later))
	holds, more := s.with(k)
	for len(k.buffers) > 0 && (more > room || s.abreast && k.holds.chunks > holds.chunks) {
		k.holds.chunks -= int64(cap(k.buffers[0]))
		k.buffers = k.buffers[1:]
		holds, more = s.with(k)
	}
	if more > room {
		k.giveUp()
		return 0, 0
	}
	s.engine, s.holds = k.engine, holds
	s.builder.Narrow(tensor.AsArrow)
	s.builder.Share("", 0, nil)
	s.chunks.use(k.buffers, holds.chunks, k.holds.chunks)
	return more, k.bytes()
}

// with is what the stream holds if it works with a kit, and how much that is beyond what was reserved. What pages were feared to take, and
// do not, is there for the rest.
func (s *Stream) with(k *kit) (h holding, more int64) {
	h = s.holds
	h.pages = max(h.pages, k.holds.pages-h.sources)
	h.results = max(h.results, k.holds.results)
	h.batch = max(h.batch, k.holds.batch)
	h.longer = max(0, k.holds.longer-s.spare())
	h.scratch = max(h.scratch, k.holds.scratch)
	beyond := h.total() - s.holds.total()
	fewer := min(beyond+h.chunks/roomier, h.pages, h.pages+h.sources-k.holds.pages)
	h.pages -= fewer
	h.chunks += max(0, fewer-beyond)
	return h, h.total() - s.holds.total() + max(0, k.holds.chunks-h.chunks)
}

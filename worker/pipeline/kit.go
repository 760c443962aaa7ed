package pipeline

import (
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// kit is what a stream leaves to the next one of its program: the engine, whose buffers have grown to what the program
// takes, and chunk memory. To work on it spares fresh memory, which is cleared, brought in page by page, and collected.
type kit struct {
	*engine
	program string
	holds   holding // chunks: of the buffers
	buffers [][]byte
}

// kitKept is for how long a kit is kept that nobody takes.
const kitKept = time.Minute

// kitKey names the program of a ticket, with the code that it calls, and the format of its file.
func kitKey(t *pb.Ticket, format string) string {
	return t.GetNamespace() + "\x00" + string(t.GetProgramDigest()) + "\x00" + format + "\x00" +
		string(t.GetCode().GetSha256()) + string(t.GetCode().GetIdentity().GetDigest())
}

// Key is the program.
func (k *kit) Key() string { return k.program }

// Drop gives up the memory of batches, and what functions keep.
func (k *kit) Drop() { k.giveUp() }

// Size is how much it holds.
func (k *kit) Size() int64 {
	h := k.holds
	return h.chunks + h.pages + h.sources + h.results + batchesOut*h.batch + h.longer + h.scratch
}

// leave is the kit of a stream that came to its end; nil if it did not, or if not all of the kit is there, and counted.
func (s *Stream) leave() *kit {
	if !s.ended || s.reader.uncounted || s.kitKey == "" || !s.computer.builder.Idle() {
		return nil
	}
	k := &kit{engine: s.computer.engine, program: s.kitKey, holds: s.computer.holds, buffers: s.quota.buffers.Free()}
	s.ended, s.computer.engine = false, nil // there is only one
	k.constants.Forget()
	k.decoder.Forget()
	k.decoder.Memory().AskFor(nil)
	k.chain.Ask(transform.Ask{})
	k.chain.Place(transform.Rows{}, images.Room{})
	k.chain.Watch(nil)
	k.holds.longer = k.beyond()
	k.holds.pages, k.holds.sources, k.holds.chunks = k.decoder.Memory().Held(), 0, 0
	for _, b := range k.buffers {
		k.holds.chunks += int64(cap(b))
	}
	return k
}

// use makes the stream use a kit instead of an engine of its own, if it fits: into the memory that was reserved for the
// stream and room more bytes. It returns how many bytes it holds beyond the reserved ones, and the kit's size.
func (c *computer) use(k *kit, room int64) (more, has int64) {
	holds, more := c.with(k)
	for len(k.buffers) > 0 && (more > room || c.quota.abreast && k.holds.chunks > holds.chunks) {
		k.holds.chunks -= int64(cap(k.buffers[0]))
		k.buffers = k.buffers[1:]
		holds, more = c.with(k)
	}
	if more > room {
		k.giveUp()
		return 0, 0
	}
	c.giveUp() // one of its own, if it has that since it found no kit before
	c.engine, c.holds = k.engine, holds
	c.builder.Narrow(tensor.AsArrow)
	c.builder.Share("", 0, nil)
	c.quota.buffers.Use(k.buffers, holds.chunks, k.holds.chunks)
	return more, k.Size()
}

// with is what the stream holds if it works with a kit, and how much that is beyond what was reserved. What pages were
// feared to take, and do not, is there for the rest.
func (c *computer) with(k *kit) (h holding, more int64) {
	h = c.holds
	h.pages = max(h.pages, k.holds.pages-h.sources)
	h.results = max(h.results, k.holds.results)
	h.batch = max(h.batch, k.holds.batch)
	h.longer = max(0, k.holds.longer-c.spare())
	h.scratch = max(h.scratch, k.holds.scratch)
	beyond := h.total() - c.holds.total()
	fewer := min(beyond+h.chunks/memory.Roomier, h.pages, h.pages+h.sources-k.holds.pages)
	h.pages -= fewer
	h.chunks += max(0, fewer-beyond)
	return h, h.total() - c.holds.total() + max(0, k.holds.chunks-h.chunks)
}

package pipeline

import (
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/vector"
)

// batchCopies is how often a batch of a stream may be in memory: those of the builder, and those that wait compressed, where the
// trainer asks for that.
const batchCopies = batchesOut + HandedOver

// holding is what a stream holds at most, in bytes.
type holding struct {
	chunks  int64 // of row groups, decompressed pages and dictionaries, the footer
	sources int64 // the decoded sources of a window
	slots   int64 // those, the results of the steps, and the selection
	batch   int64
	scratch int64 // in which the steps make pictures
}

func (h holding) total() int64 { return h.chunks + h.slots + batchCopies*h.batch + h.scratch }

// estimate is what the footer lets expect of the row groups that are left to read. Binary values that come of
// dictionaries, and lists of uneven lengths, may take more, up to Config.MaxDecoded; see correct.
func (s *Stream) estimate(batch int64) (holding, error) {
	h := holding{batch: batch}
	var read, pages int64
	groups := s.ticket.GetRowGroups()[s.start.rowGroup:]
	for _, g := range groups {
		ranges, err := s.decoder.Chunks(s.footer, int(g.GetIndex()))
		if err != nil {
			return h, err
		}
		read = max(read, s.readBytes(ranges))
		leaves, err := s.decoder.Leaves(s.footer)
		if err != nil {
			return h, err
		}
		var uncompressed int64
		for _, leaf := range leaves {
			// No page, together with its dictionary, is longer than all pages are.
			uncompressed += s.footer.RowGroups[g.GetIndex()].Chunks[leaf].Uncompressed
		}
		pages = max(pages, uncompressed)
		sources, slots := s.windowBytes(g)
		h.sources, h.slots = max(h.sources, sources), max(h.slots, slots)
	}
	h.chunks = min(rowGroupsOut, int64(len(groups)))*read + pages + s.footer.Size
	return h, nil
}

// readBytes is the most that storage.ReadRanges reads for ranges: gaps are read along, but no more than is wanted
// and nothing outside of them.
func (s *Stream) readBytes(ranges []storage.Range) int64 {
	var wanted, first, last int64
	n := int64(0)
	for _, r := range ranges {
		if r.Length == 0 {
			continue
		}
		if n == 0 || r.Offset < first {
			first = r.Offset
		}
		last = max(last, r.Offset+r.Length)
		wanted += r.Length
		n++
	}
	return min(wanted+min(wanted, n*s.pipeline.cfg.OverRead), last-first)
}

// size is what a slot has in a window: elements, or rows of scalars, and their bytes.
type size struct{ values, bytes int64 }

// windowBytes estimates the slots of a window of a row group.
func (s *Stream) windowBytes(g *pb.RowGroup) (sources, slots int64) {
	rows := min(g.GetWindowRows(), g.GetRows())
	sizes := make([]size, 0, len(s.program.GetSources())+len(s.program.GetSteps()))
	for _, src := range s.program.GetSources() {
		z := s.sourceSize(src, g, rows)
		sizes = append(sizes, z)
		sources += z.bytes
	}
	slots = sources + 5*rows // the selection: a bit and an int32
	for _, step := range s.program.GetSteps() {
		var z size
		for _, slot := range step.GetIn() {
			z.values += sizes[slot].values
			z.bytes += sizes[slot].bytes
		}
		z.bytes = max(z.bytes, 8*z.values+4*rows)
		if step.GetType().GetKind() == pb.Kind_PICTURE {
			z.bytes = 0 // what it is made of, until it is in a batch
		}
		if step.GetOuts() > 0 {
			sizes = append(sizes, z)
			slots += z.bytes
		}
	}
	return sources, slots
}

func (s *Stream) sourceSize(src *pb.Source, g *pb.RowGroup, rows int64) size {
	column, ok := s.footer.Column(strings.Join(src.GetPath(), "."))
	if !ok { // its default, or null
		n := rows * int64(max(1, len(src.GetDefault().GetList().GetValues())))
		return size{n, n*int64(8+len(src.GetDefault().GetText())) + 4*rows}
	}
	var z size
	from, to := s.footer.LeavesOf(column)
	for leaf := from; leaf < to; leaf++ {
		c := &s.footer.RowGroups[g.GetIndex()].Chunks[leaf]
		share := float64(rows) / float64(max(1, g.GetRows()))
		n := int64(share * float64(c.Values))
		z.values += n
		z.bytes += 8*n + 4*rows // values, or the ends of bytes, and offsets
		if s.footer.Leaves[leaf].Physical >= footer.ByteArray {
			z.bytes += int64(share * float64(c.Uncompressed))
		}
	}
	z.bytes += z.bytes / 8 // slices grow by more than they need
	return z
}

// correct raises what the stream has taken from the budget to what it turns out to hold: a window whose sources are
// larger than expected has larger slots, too.
func (s *Stream) correct(sources []*vector.Vector, batch int64) {
	held := s.holds
	held.batch = max(held.batch, batch)
	var bytes int64
	for _, v := range sources {
		bytes += bytesOf(v)
	}
	if bytes > held.sources {
		grown := float64(bytes) / float64(max(1, held.sources))
		held.slots = max(bytes, int64(grown*float64(held.slots)))
		held.sources = bytes
	}
	s.hold(held)
}

// correctScratch raises it to what the steps hold by themselves.
func (s *Stream) correctScratch(bytes int64) {
	held := s.holds
	held.scratch = max(held.scratch, bytes)
	s.hold(held)
}

// hold takes from the budget what is held more than before.
func (s *Stream) hold(held holding) {
	if n := held.total() - s.holds.total(); n > 0 {
		s.pipeline.memory.more(n)
		s.reserved += n
	}
	s.holds = held
}

func bytesOf(v *vector.Vector) int64 {
	if v == nil {
		return 0
	}
	words := cap(v.Valid) + cap(v.ElemValid) + cap(v.I64) + cap(v.F64)
	halves := cap(v.Offsets) + cap(v.I32) + cap(v.F32) + cap(v.Ends)
	return 8*int64(words) + 4*int64(halves) + int64(cap(v.Bool)+cap(v.Data))
}

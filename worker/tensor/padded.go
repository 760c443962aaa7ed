package tensor

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// padded is [rows, length] of lists, and how many values each has. Shorter ones are filled, of longer ones the last or
// the first values stay.
type padded struct {
	out    *pb.Output
	cells  cells
	length int
}

func newPadded(o *pb.Output) *padded {
	kind := o.GetType().GetKind()
	n := spec.Count(o.GetShape(), spec.Width(kind)) // tensors.Schema has checked it
	return &padded{out: o, cells: newCells(kind, o.GetFill()), length: n}
}

func (p *padded) see(b *Builder, w *Window) { p.cells.see(w.Slots[p.out.GetSlots()[0]], b.widths) }

func (p *padded) size(_ *Window, from, to int) (n, spare int64) {
	rows := int64(to - from)
	n, spare = p.cells.size(rows * int64(p.length))
	return n + 4*rows, spare
}

func (p *padded) build(b *Batch, w *Window, from, to int) error {
	v := w.Slots[p.out.GetSlots()[0]]
	if v.Type != (spec.Type{Kind: p.cells.kind, List: true}) {
		return typeError(v, spec.Type{Kind: p.cells.kind, List: true}.String())
	}
	lengths := room[int32](b, to-from)
	each := p.length * p.cells.width
	dst := room[byte](b, (to-from)*each)
	for i := range lengths {
		lengths[i] = int32(p.row(dst[i*each:][:each], v, w.Source(from+i)))
	}
	b.add(to - from)
	b.add(to - from)
	b.add((to-from)*p.length, p.cells.sent(b, dst))
	b.add(to-from, bytesOf(lengths))
	return nil
}

// row writes one row, and returns how many values it has.
func (p *padded) row(dst []byte, v *vector.Vector, row int) int {
	from, to := int(v.Offsets[row]), int(v.Offsets[row+1])
	if v.ElemValid != nil && !p.out.GetNulls() {
		return p.compact(dst, v, from, to)
	}
	if p.out.GetFirst() {
		to = min(to, from+p.length)
	} else {
		from = max(from, to-p.length)
	}
	values := p.fill(dst, to-from)
	p.cells.put(values, from, to-from)
	if v.ElemValid != nil {
		p.cells.blankNulls(values, from, to-from)
	}
	return to - from
}

// fill fills a row that has n values, and returns where they lie.
func (p *padded) fill(dst []byte, n int) []byte {
	at := n * p.cells.width
	if p.out.GetLeft() {
		at = len(dst) - at
		p.cells.blank(dst[:at])
		return dst[at:]
	}
	p.cells.blank(dst[at:])
	return dst[:at]
}

// compact is row without the elements that are null.
func (p *padded) compact(dst []byte, v *vector.Vector, from, to int) int {
	present := 0
	for j := from; j < to; j++ {
		if !v.ElemIsNull(j) {
			present++
		}
	}
	skip := 0
	if !p.out.GetFirst() {
		skip = max(0, present-p.length)
	}
	n := min(present, p.length)
	values := p.fill(dst, n)
	for j, at := from, -skip; j < to && at < n; j++ {
		if v.ElemIsNull(j) {
			continue
		}
		if at >= 0 {
			p.cells.put(values[at*p.cells.width:], j, 1)
		}
		at++
	}
	return n
}

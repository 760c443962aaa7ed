package columns

import (
	"github.com/penstock-ml/penstock/worker/vector"
)

// later says which sources wait until it is known that a window has rows that are wanted.
type later struct {
	on    bool
	first map[int]bool // sources that do not wait
	rows  int          // of the window, while its other sources are not decoded
}

func (l *later) waits(source int) bool { return l.on && !l.first[source] }

// DecodeFirst has Next decode these sources only. Rest decodes the others; where it is not called, the window's rows are
// passed over in them: whole pages are neither decompressed nor looked at. It holds from the next file on.
func (d *Decoder) DecodeFirst(sources []int) {
	d.later = later{on: true, first: make(map[int]bool, len(sources))}
	for _, s := range sources {
		d.later.first[s] = true
	}
}

// mark finds the columns of a layout that wait: those that only sources need that do.
func (d *Decoder) mark(l *layout) {
	for _, c := range d.columns {
		c.waits = d.later.on
	}
	for _, s := range d.selectors {
		s.waits = d.later.on
	}
	for i, b := range l.bindings {
		if b.access == absent || d.later.waits(i) {
			continue
		}
		d.columns[b.value].waits = false
		if p, ok := d.readers[i].(*pick); ok {
			d.columns[b.key].waits, p.selector.waits = false, false
		}
	}
}

// settle gives up on the rows that Rest was not asked for.
func (d *Decoder) settle() {
	for _, c := range d.columns {
		if c.waits {
			c.lag += d.later.rows
		}
	}
	d.later.rows = 0
}

// Rest decodes the sources that Next left out, and returns the vectors of all.
func (d *Decoder) Rest() ([]*vector.Vector, error) {
	rows := d.later.rows
	d.later.rows = 0
	if !d.later.on {
		return d.out, d.err
	}
	if err := d.advance(0, func() error { return d.decode(rows, false) }); err != nil {
		return nil, err
	}
	return d.out, nil
}

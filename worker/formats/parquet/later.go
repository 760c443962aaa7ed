package parquet

import (
	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// later says which sources wait until it is known that a window has rows that are wanted.
type later struct {
	on    bool
	first map[int]bool // sources that do not wait
	rows  int          // of the window, while its other sources are not decoded

	codes  bool         // sources that do not wait may be shown as codes
	unread map[int]bool // those that only Next shows
}

func (l *later) waits(source int) bool { return l.on && !l.first[source] }

// DecodeFirst has Next decode these sources only. Rest decodes the others; where it is not called, the window's rows
// are passed over in them: whole pages are neither decompressed nor looked at. It holds from the first file on.
func (d *Decoder) DecodeFirst(sources []int) {
	d.later = later{on: true, first: make(map[int]bool, len(sources))}
	for _, s := range sources {
		d.later.first[s] = true
	}
}

// AsCodes has Next show sources that come first as codes of a dictionary (see vector.Vector), where all pages of a
// window hold such. Rest shows them as values, but for the unread ones, of which none are wanted then. It holds from
// the first file on.
func (d *Decoder) AsCodes(unread []int) {
	d.later.codes, d.later.unread = true, make(map[int]bool, len(unread))
	for _, s := range unread {
		d.later.unread[s] = true
	}
}

// mark finds the columns of a file that wait: those that only sources need that do.
func (d *Decoder) mark(b *footer.Bound) {
	for _, c := range d.columns {
		c.waits = d.later.on
	}
	for _, s := range d.selectors {
		s.waits = d.later.on
	}
	for i, at := range b.Bindings {
		if !at.Stored() || d.later.waits(i) {
			continue
		}
		d.columns[at.Value].waits = false
		if p, ok := d.readers[i].(*decode.Pick); ok {
			d.columns[at.Key].waits = false
			for _, s := range d.selectors {
				s.waits = s.waits && s.Selector != p.Of().Of()
			}
		}
	}
	if d.later.codes {
		d.markCodes(b)
	}
}

// markCodes finds the columns of which Next shows codes, and those of them that no source wants as values.
func (d *Decoder) markCodes(b *footer.Bound) {
	read := make([]bool, len(d.columns))
	for i, at := range b.Bindings {
		if at.Access == format.Plain && !d.later.unread[i] {
			read[at.Value] = true
		}
	}
	for i, c := range d.columns {
		if !c.waits {
			c.code(!read[i])
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
	err := d.advance(0, func() error {
		for _, c := range d.columns {
			if err := c.spell(rows); err != nil {
				return err
			}
		}
		return d.decode(rows, false)
	})
	if err != nil {
		return nil, err
	}
	return d.out, nil
}

package parquet

import "github.com/penstock-ml/penstock/worker/vector"

// narrow keeps a window's int64 values in 32 bits, where all of them are entries of dictionaries that have no more:
// looking them up writes half as much, and so does whoever reads them read. Once a page of the window holds others, all
// become wide.
type narrow struct {
	wide *fixed[uint64]
	low  fixed[uint32] // looks up in what the wide one's dictionary became

	paged        bool // low has the page
	spelt        bool // the window's values are wide
	room, likely int  // of the window's values, as reserve said
}

func newNarrow(f *fixed[uint64]) *narrow {
	f.shortFrom = 0 // to take less memory is not all that it is good for
	return &narrow{wide: f, low: fixed[uint32]{mem: f.mem, fill: uint32(f.fill)}}
}

func (v *narrow) dictionary(data []byte, e encoding, n int) error {
	v.paged = false
	return v.wide.dictionary(data, e, n)
}

func (v *narrow) page(data []byte, e encoding, n int) error {
	if v.paged = e.indexed() && v.wide.short != nil; v.paged {
		v.low.dict = v.wide.short
		return v.low.page(data, e, n)
	}
	return v.wide.page(data, e, n)
}

// reserve leaves it to read, which knows how wide the values are.
func (v *narrow) reserve(n, likely int) error {
	v.room, v.likely = n, likely
	return nil
}

func (v *narrow) lend(stays bool) { v.wide.lend(stays) }

func (v *narrow) keep() {
	v.low.keep()
	v.wide.keep()
}

func (v *narrow) forget() {
	v.low.forget()
	v.wide.forget()
}

func (v *narrow) read(at, n int) error {
	if at == 0 { // a window begins
		v.spelt, v.low.shown, v.wide.shown = false, nil, nil
	}
	if v.paged {
		if err := v.low.reserve(v.room, v.likely); err != nil {
			return err
		}
		if !v.spelt {
			return v.low.read(at, n)
		}
	}
	if err := v.spell(at); err != nil {
		return err
	}
	if !v.paged {
		return v.wide.read(at, n)
	}
	v.wide.keep()
	if err := v.low.lookUpNext(v.low.out[at : at+n]); err != nil {
		return err
	}
	widen(v.wide.out[at:at+n], v.low.out[at:at+n])
	return nil
}

// spell makes wide values of the window's first n.
func (v *narrow) spell(n int) error {
	if err := v.wide.reserve(v.room, v.likely); err != nil || v.spelt {
		return err
	}
	v.spelt = true
	widen(v.wide.out[:n], v.low.window()[:n])
	return nil
}

func widen(dst []uint64, src []uint32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = uint64(x)
	}
}

func (v *narrow) spread(valid []uint64, from, n, present int) {
	if v.spelt {
		v.wide.spread(valid, from, n, present)
		return
	}
	v.low.spread(valid, from, n, present)
}

func (v *narrow) into(to *vector.Vector, n int) {
	if to.I64, to.U32 = nil, nil; v.spelt {
		v.wide.into(to, n)
		return
	}
	to.U32 = v.low.window()[:n]
}

package filter

import (
	"slices"

	"github.com/penstock-ml/penstock/worker/vector"
)

// matcher tests the values of one column.
type matcher interface {
	// match sets the bits of dst for the values that pass, of those that are not null.
	match(dst []uint64, v *vector.Vector)
}

// leaf finds the rows of a column whose values pass a test. Of codes it tests each entry of their dictionary once.
type leaf struct {
	slot   int
	values matcher
	nulls  bool           // they pass, too
	dict   *vector.Vector // that passes is of
	passes []uint64       // bits of its entries
	none   bool           // of them passes
}

func (l *leaf) eval(dst []uint64, w *Window) {
	v := w.Vectors[l.slot]
	if v.Dict == nil {
		l.values.match(dst, v)
	} else {
		l.matchCodes(dst, v)
	}
	if v.Valid != nil {
		for i := range dst {
			dst[i] &= v.Valid[i]
		}
	}
	if v.Valid != nil && l.nulls {
		for i := range dst {
			dst[i] |= ^v.Valid[i]
		}
	}
}

func (l *leaf) matchCodes(dst []uint64, v *vector.Vector) {
	if l.dict != v.Dict {
		l.learn(v.Dict)
	}
	if l.none { // an empty dictionary, too, whose codes are all null
		clear(dst)
		return
	}
	for w := range dst {
		var bits uint64
		for i, code := range v.Codes[w<<6 : min(w<<6+64, v.Rows)] {
			bits |= l.passes[code>>6] >> (code & 63) & 1 << i
		}
		dst[w] = bits
	}
}

// learn tests the entries of a dictionary.
func (l *leaf) learn(dict *vector.Vector) {
	l.dict, l.passes = dict, vector.Grow(l.passes, vector.Words(dict.Rows))
	l.values.match(l.passes, dict)
	if tail := dict.Rows & 63; tail != 0 {
		l.passes[len(l.passes)-1] &= 1<<tail - 1
	}
	l.none = !slices.ContainsFunc(l.passes, func(w uint64) bool { return w != 0 })
}

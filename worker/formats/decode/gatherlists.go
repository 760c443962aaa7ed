package decode

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// gatherer does what Gather does with lists, of any depth. It keeps the memory that this takes.
type gatherer struct {
	runs      []run
	levels    []vector.Level
	elemValid []uint64
}

// run is where a row's lists or values lie in the other vector.
type run struct{ from, to int32 }

// gather gives v, of which it uses the memory again, the rows of another vector by their numbers; where a number is
// below zero, or the row is null, the list is empty. No number is there twice.
func (g *gatherer) gather(m *Allowance, v, from *vector.Vector, at []int32) (err error) {
	if g.runs, err = Grow(m, g.runs, len(at)); err != nil {
		return err
	}
	if v.Offsets, err = Grow(m, v.Offsets, len(at)+1); err != nil {
		return err
	}
	g.runs, v.Offsets = g.runs[:len(at)], v.Offsets[:len(at)+1]
	n := int32(0)
	for i, j := range at {
		v.Offsets[i], g.runs[i] = n, run{}
		if j >= 0 && !from.IsNull(int(j)) {
			g.runs[i] = run{from.Offsets[j], from.Offsets[j+1]}
			n += from.Offsets[j+1] - from.Offsets[j]
		}
	}
	v.Offsets[len(at)] = n
	if g.levels == nil {
		g.levels = make([]vector.Level, len(v.Nested))
	}
	for k := range v.Nested {
		if n, err = g.level(m, k, &from.Nested[k], int(n)); err != nil {
			return err
		}
		v.Nested[k] = g.levels[k]
		if from.Nested[k].Valid == nil {
			v.Nested[k].Valid = nil
		}
	}
	v.ElemValid = nil
	if from.ElemValid != nil {
		g.elemValid = g.bits(g.elemValid, from.ElemValid, int(n))
		v.ElemValid = g.elemValid
	}
	return g.values(m, v, from, int(n))
}

// level makes the n lists of a level within lists, and returns how much they hold. The runs are then those of that.
func (g *gatherer) level(m *Allowance, k int, from *vector.Level, n int) (below int32, err error) {
	out := &g.levels[k]
	if from.Valid != nil {
		out.Valid = g.bits(out.Valid, from.Valid, n)
	}
	if out.Offsets, err = Grow(m, out.Offsets, n+1); err != nil {
		return 0, err
	}
	out.Offsets = out.Offsets[:n+1]
	at := 0
	for i, r := range g.runs {
		for j := r.from; j < r.to; j++ {
			out.Offsets[at] = below
			below += from.Offsets[j+1] - from.Offsets[j]
			at++
		}
		g.runs[i] = run{from.Offsets[r.from], from.Offsets[r.to]}
	}
	out.Offsets[n] = below
	return below, nil
}

// bits are the n bits of runs, on memory that is used again.
func (g *gatherer) bits(dst, src []uint64, n int) []uint64 {
	dst = vector.Grow(dst, vector.Words(n))
	clear(dst)
	at := 0
	for _, r := range g.runs {
		for j := r.from; j < r.to; j++ {
			dst[at>>6] |= src[j>>6] >> (j & 63) & 1 << (at & 63)
			at++
		}
	}
	return dst
}

// values gives v the n values of runs.
func (g *gatherer) values(m *Allowance, v, from *vector.Vector, n int) (err error) {
	switch kind := v.Type.Kind; kind {
	case pb.Kind_BOOL:
		v.Bool, err = gatherRuns(m, v.Bool, from.Bool, g.runs, n)
	case pb.Kind_INT32:
		v.I32, err = gatherRuns(m, v.I32, from.I32, g.runs, n)
	case pb.Kind_INT64:
		v.I64, err = gatherRuns(m, v.I64, from.I64, g.runs, n)
	case pb.Kind_FLOAT32:
		v.F32, err = gatherRuns(m, v.F32, from.F32, g.runs, n)
	case pb.Kind_FLOAT64:
		v.F64, err = gatherRuns(m, v.F64, from.F64, g.runs, n)
	case pb.Kind_BINARY:
		err = g.texts(m, v, from, n)
	default:
		width := spec.Width(kind)
		if v.Small, err = Grow(m, v.Small, width*n); err != nil {
			return err
		}
		v.Small = v.Small[:0]
		for _, r := range g.runs {
			v.Small = append(v.Small, from.Small[width*int(r.from):width*int(r.to)]...)
		}
	}
	return err
}

func gatherRuns[T any](m *Allowance, out, from []T, runs []run, n int) ([]T, error) {
	out, err := Grow(m, out, n)
	if err != nil {
		return out, err
	}
	out = out[:n]
	at := 0
	for _, r := range runs {
		list := from[r.from:r.to]
		for i, to := 0, out[at:at+len(list)]; i < len(list); i++ { // most are too short for copy to pay
			to[i] = list[i]
		}
		at += len(list)
	}
	return out, nil
}

// texts gives v the n byte strings of runs.
func (g *gatherer) texts(m *Allowance, v, from *vector.Vector, n int) (err error) {
	if v.Ends, err = Grow(m, v.Ends, n+1); err != nil {
		return err
	}
	size := 0
	for _, r := range g.runs {
		size += int(from.Ends[r.to] - from.Ends[r.from])
	}
	if v.Data, err = Grow(m, v.Data, size); err != nil {
		return err
	}
	v.Ends, v.Data = v.Ends[:n+1], v.Data[:0]
	v.Ends[0] = 0
	at := 0
	for _, r := range g.runs {
		shift := int32(len(v.Data)) - from.Ends[r.from]
		v.Data = append(v.Data, from.Data[from.Ends[r.from]:from.Ends[r.to]]...)
		for _, end := range from.Ends[r.from+1 : r.to+1] {
			at++
			v.Ends[at] = end + shift
		}
	}
	return nil
}

package position

import (
	"slices"
	"sort"

	"github.com/penstock-ml/penstock/api/pb"
)

// Set is a set of positions: disjoint, non-touching intervals in ascending order. The zero value is empty.
// Methods return new sets and leave their operands alone.
type Set []Interval

// NewSet returns the union of intervals given in any order, overlapping or not.
func NewSet(intervals ...Interval) Set {
	all := slices.DeleteFunc(slices.Clone(intervals), Interval.Empty)
	slices.SortFunc(all, func(a, b Interval) int { return a.From.Compare(b.From) })
	var s Set
	for _, i := range all {
		s = s.extend(i)
	}
	return s
}

// Union returns the positions in s or t.
func (s Set) Union(t Set) Set {
	if len(t) == 0 {
		return s
	}
	if len(s) == 0 {
		return t
	}
	out := make(Set, 0, len(s)+len(t))
	for len(s) > 0 || len(t) > 0 {
		if len(s) == 0 || len(t) > 0 && t[0].From.Less(s[0].From) {
			s, t = t, s
		}
		out = out.extend(s[0])
		s = s[1:]
	}
	return out
}

// extend adds an interval that does not begin before the last one to a set under construction.
func (s Set) extend(i Interval) Set {
	n := len(s)
	if n == 0 || s[n-1].To.Less(i.From) {
		return append(s, i)
	}
	if s[n-1].To.Less(i.To) {
		s[n-1].To = i.To
	}
	return s
}

// Subtract returns the positions in s and not in t.
func (s Set) Subtract(t Set) Set {
	var out Set
	j := 0
	for _, i := range s {
		from := i.From
		for j < len(t) && !from.Less(t[j].To) {
			j++
		}
		for k := j; k < len(t) && t[k].From.Less(i.To); k++ {
			if from.Less(t[k].From) {
				out = append(out, Interval{From: from, To: t[k].From})
			}
			from = t[k].To
		}
		if from.Less(i.To) {
			out = append(out, Interval{From: from, To: i.To})
		}
	}
	return out
}

// Intersect returns the positions in both s and t.
func (s Set) Intersect(t Set) Set {
	var out Set
	for i, j := 0, 0; i < len(s) && j < len(t); {
		from, to := s[i].From, s[i].To
		if from.Less(t[j].From) {
			from = t[j].From
		}
		if t[j].To.Less(to) {
			to = t[j].To
		}
		if from.Less(to) {
			out = append(out, Interval{From: from, To: to})
		}
		if s[i].To.Less(t[j].To) {
			i++
		} else {
			j++
		}
	}
	return out
}

// Contains reports whether p lies in s.
func (s Set) Contains(p Position) bool {
	i := sort.Search(len(s), func(i int) bool { return p.Less(s[i].To) })
	return i < len(s) && !p.Less(s[i].From)
}

// Covers reports whether all of t lies in s.
func (s Set) Covers(t Set) bool { return len(t.Subtract(s)) == 0 }

// Equal reports whether s and t hold the same positions.
func (s Set) Equal(t Set) bool { return slices.Equal(s, t) }

// Proto returns s as it crosses the wire.
func (s Set) Proto() []*pb.Interval {
	out := make([]*pb.Interval, len(s))
	for i, iv := range s {
		out[i] = iv.Proto()
	}
	return out
}

// SetFromProto reads a set. Intervals from outside may come in any order and overlap.
func SetFromProto(m []*pb.Interval) Set {
	s := make([]Interval, len(m))
	for i, iv := range m {
		s[i] = IntervalFromProto(iv)
	}
	return NewSet(s...)
}

package parquet

import (
	"encoding/binary"

	"github.com/penstock-ml/penstock/api/pb"
)

// contradiction says what of statistics of so many values cannot be; "" if nothing. Of lists less is known: nulls may
// count rows or elements.
func (s *rawStats) contradiction(l *Leaf, values int64) string {
	known := max(0, s.nulls)
	low, high := s.bounds(l)
	switch {
	case s.nulls > values:
		return "it has more nulls than values"
	case s.distinct > values:
		return "it has more distinct values than values"
	case s.nulls < -1 || s.distinct < -1:
		return "it counts less than none"
	case l.MaxRep > 0:
		return ""
	case l.MaxDef == 0 && known > 0:
		return "it has nulls, but none are allowed"
	case s.distinct > values-known:
		return "it has more distinct values than values"
	case known == values && values > 0 && (len(low) > 0 || len(high) > 0):
		return "it has bounds, but nothing that is not null"
	case s.differ(l):
		return "its bounds, which are written twice, differ"
	case l.Physical != ByteArray && !l.unbounded && (len(low) > 0 && len(low) != l.width() || len(high) > 0 &&
		len(high) != l.width()):
		return "its bounds have not the length of its values"
	case !l.holds(low) || !l.holds(high):
		return "its bounds are none of the small integers that its type has"
	}
	return s.levelsContradict(l, values)
}

// bounds are those of the column's order, or of old files the old ones, where these were compared as the new ones are.
func (s *rawStats) bounds(l *Leaf) (low, high []byte) {
	if s.min == nil && s.max == nil && signed(l) {
		return s.oldMin, s.oldMax
	}
	return s.min, s.max
}

// differ reports whether the old bounds, where they were compared as the new ones are, are others than these.
func (s *rawStats) differ(l *Leaf) bool {
	if !signed(l) {
		return false
	}
	for _, b := range []struct {
		now, old []byte
		upper    bool
	}{{s.min, s.oldMin, false}, {s.max, s.oldMax, true}} {
		if len(b.now) != l.width() || len(b.old) != l.width() {
			continue
		}
		var room [2][8]byte
		x, okX := bound(room[0][:0], b.now, l, b.upper)
		y, okY := bound(room[1][:0], b.old, l, b.upper)
		if okX && okY && compare(l.Kind, x, y) != 0 {
			return true
		}
	}
	return false
}

// holds reports whether a bound, if there is one, is a value of the leaf's type. Others are cut to values between which
// they say nothing.
func (l *Leaf) holds(bound []byte) bool {
	if len(bound) != 4 {
		return true
	}
	v := int32(binary.LittleEndian.Uint32(bound))
	switch l.Logical.Small {
	case pb.Kind_INT8:
		return v == int32(int8(v))
	case pb.Kind_UINT8:
		return v == int32(uint8(v))
	case pb.Kind_INT16:
		return v == int32(int16(v))
	case pb.Kind_UINT16:
		return v == int32(uint16(v))
	}
	return true
}

// levelsContradict says what of the counts of definition levels cannot be.
func (s *rawStats) levelsContradict(l *Leaf, values int64) string {
	if len(s.levels) == 0 {
		return ""
	}
	if len(s.levels) != l.MaxDef+1 {
		return "it counts other definition levels than there are"
	}
	left := values
	for _, n := range s.levels {
		if n < 0 || n > left {
			return "it counts other definition levels than there are values"
		}
		left -= n
	}
	if left != 0 {
		return "it counts other definition levels than there are values"
	}
	low, high := s.bounds(l)
	switch present := s.levels[l.MaxDef]; {
	case s.nulls >= 0 && present != values-s.nulls:
		return "its definition levels say that there are other nulls"
	case present == 0 && (len(low) > 0 || len(high) > 0):
		return "it has bounds, but its definition levels say that there is nothing that is not null"
	}
	return ""
}

package columns

import (
	"unsafe"
)

// gather decodes the next len(dst) indices and writes what they name in dict.
func gather[T word](r *runs, dict, dst []T) error {
	for len(dst) > 0 {
		if r.left == 0 {
			if err := r.next(); err != nil {
				return err
			}
			continue
		}
		m := min(len(dst), r.left)
		if r.packed {
			if err := gatherPacked(r, dict, dst[:m]); err != nil {
				return err
			}
		} else {
			if r.value >= uint64(len(dict)) {
				return errIndex(r.value, len(dict))
			}
			v, same := dict[r.value], dst[:m]
			for i := range same {
				same[i] = v
			}
		}
		r.take(m)
		dst = dst[m:]
	}
	return nil
}

// gatherPacked decodes indices of a packed run, which has at least len(dst) left.
func gatherPacked[T word](r *runs, dict, dst []T) error {
	at, i, w := r.at, 0, r.width
	if head := -at & 7; head > 0 {
		i = min(head, len(dst))
		if err := gatherSlow(r, dict, dst[:i], at); err != nil {
			return err
		}
	}
	if len(dict) > 0 {
		// Eight indices take w bytes; the last of them is loaded from byte (7*w)>>3 of these on, so that loads
		// end at most 8 bytes behind them.
		first := (at + i) / 8 * w
		groups := min((len(dst)-i)/8, max(len(r.bits)-first-8, 0)/w)
		if groups > 0 {
			if largest := gatherGroups(unsafe.Pointer(&r.bits[first]), uint(w), dict, dst[i:i+groups*8]); largest >= uint64(len(dict)) {
				return errIndex(largest, len(dict))
			}
			i += groups * 8
		}
	}
	return gatherSlow(r, dict, dst[i:], at+i)
}

// gatherSlow does so from index at of the run on, one by one.
func gatherSlow[T word](r *runs, dict, dst []T, at int) error {
	mask := lowBits(r.width)
	for i := range dst {
		v := bitsAt(r.bits, (at+i)*r.width) & mask
		if v >= uint64(len(dict)) {
			return errIndex(v, len(dict))
		}
		dst[i] = dict[v]
	}
	return nil
}

// gatherGroups decodes indices of w bits, 1 to 32, eight at a time. len(dst) is a multiple of eight, there are
// len(dst)/8*w+8 bytes to read at q, and dict is not empty. If an index lies outside of dict it stops and returns
// that index, else it returns a smaller number.
func gatherGroups[T word](q unsafe.Pointer, w uint, dict, dst []T) uint64 {
	mask := uint64(1)<<w - 1
	n := uint64(len(dict))
	d := unsafe.Pointer(unsafe.SliceData(dict))
	for len(dst) >= 8 {
		out := (*[8]T)(dst)
		i0 := *(*uint64)(q) & mask
		i1 := *(*uint64)(unsafe.Add(q, w>>3)) >> (w & 7) & mask
		i2 := *(*uint64)(unsafe.Add(q, 2*w>>3)) >> (2 * w & 7) & mask
		i3 := *(*uint64)(unsafe.Add(q, 3*w>>3)) >> (3 * w & 7) & mask
		i4 := *(*uint64)(unsafe.Add(q, 4*w>>3)) >> (4 * w & 7) & mask
		i5 := *(*uint64)(unsafe.Add(q, 5*w>>3)) >> (5 * w & 7) & mask
		i6 := *(*uint64)(unsafe.Add(q, 6*w>>3)) >> (6 * w & 7) & mask
		i7 := *(*uint64)(unsafe.Add(q, 7*w>>3)) >> (7 * w & 7) & mask
		if i0|i1|i2|i3|i4|i5|i6|i7 >= n {
			if largest := max(i0, i1, i2, i3, i4, i5, i6, i7); largest >= n {
				return largest
			}
		}
		out[0] = at[T](d, i0)
		out[1] = at[T](d, i1)
		out[2] = at[T](d, i2)
		out[3] = at[T](d, i3)
		out[4] = at[T](d, i4)
		out[5] = at[T](d, i5)
		out[6] = at[T](d, i6)
		out[7] = at[T](d, i7)
		q = unsafe.Add(q, w)
		dst = dst[8:]
	}
	return 0
}

// at is element i of the array at d, which must have it.
func at[T word](d unsafe.Pointer, i uint64) T {
	var t T
	return *(*T)(unsafe.Add(d, uintptr(i)*unsafe.Sizeof(t)))
}

package parquet

import (
	"unsafe"

	"github.com/penstock-ml/penstock/internal/simd"
)

// gather decodes the next len(dst) indices and writes what they name in dict.
func gather[D, T word](r *runs, dict []D, dst []T) error {
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
			v, same := T(dict[r.value]), dst[:m]
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
func gatherPacked[D, T word](r *runs, dict []D, dst []T) error {
	if simdLevel >= simd.AVX2 && len(dict) > 0 && r.width <= maxVectorWidth {
		return gatherCodes(r, dict, dst)
	}
	return gatherGroups(r, dict, dst)
}

// gatherGroups unpacks eight indices at a time and looks them up at once.
func gatherGroups[D, T word](r *runs, dict []D, dst []T) error {
	at, i, w := r.at, 0, r.width
	if head := -at & 7; head > 0 {
		i = min(head, len(dst))
		if err := gatherSlow(r, dict, dst[:i], at); err != nil {
			return err
		}
	}
	if len(dict) > 0 && w <= maxFastWidth {
		first := (at + i) / 8 * w
		groups := min((len(dst)-i)/8, max(len(r.bits)-first-8, 0)/w)
		if groups > 0 {
			if largest := gatherPairs(unsafe.Pointer(&r.bits[first]), uint(w), dict,
				dst[i:i+groups*8]); largest >= uint64(len(dict)) {
				return errIndex(largest, len(dict))
			}
			i += groups * 8
		}
	}
	return gatherSlow(r, dict, dst[i:], at+i)
}

// gatherCodes unpacks indices by the vector unit, some at a time, and then looks them up. dict is not empty.
func gatherCodes[D, T word](r *runs, dict []D, dst []T) error {
	var codes [512]uint32
	for at := r.at; len(dst) > 0; {
		n := min(len(dst), len(codes))
		if largest := unpack(codes[:n], r.bits, at, r.width); uint64(largest) >= uint64(len(dict)) {
			return errIndex(uint64(largest), len(dict))
		}
		lookUpCodes(dict, codes[:n], dst[:n])
		at, dst = at+n, dst[n:]
	}
	return nil
}

// lookUpCodes writes the values of codes, as many as dst has, which must all lie in dict.
func lookUpCodes[D, T word](dict []D, codes []uint32, dst []T) {
	d := unsafe.Pointer(unsafe.SliceData(dict))
	for len(dst) >= 8 && len(codes) >= 8 {
		out, in := (*[8]T)(dst), (*[8]uint32)(codes)
		out[0], out[1] = T(at[D](d, uint64(in[0]))), T(at[D](d, uint64(in[1])))
		out[2], out[3] = T(at[D](d, uint64(in[2]))), T(at[D](d, uint64(in[3])))
		out[4], out[5] = T(at[D](d, uint64(in[4]))), T(at[D](d, uint64(in[5])))
		out[6], out[7] = T(at[D](d, uint64(in[6]))), T(at[D](d, uint64(in[7])))
		dst, codes = dst[8:], codes[8:]
	}
	for i := range dst {
		dst[i] = T(dict[codes[i]])
	}
}

// gatherSlow does so from index at of the run on, one by one.
func gatherSlow[D, T word](r *runs, dict []D, dst []T, at int) error {
	mask := lowBits(r.width)
	for i := range dst {
		v := bitsAt(r.bits, (at+i)*r.width) & mask
		if v >= uint64(len(dict)) {
			return errIndex(v, len(dict))
		}
		dst[i] = T(dict[v])
	}
	return nil
}

// maxFastWidth is the widest index of which two, from any bit of a byte on, fit 64 bits.
const maxFastWidth = 28

// gatherPairs decodes indices of w bits, 1 to maxFastWidth, eight at a time. len(dst) is a multiple of eight, there
// are len(dst)/8*w+8 bytes to read at q (eight indices take w bytes; loads begin in these and end at most 8 bytes
// behind them), and dict is not empty. If an index lies outside of dict it stops and returns that index, else it
// returns a smaller number.
func gatherPairs[D, T word](q unsafe.Pointer, w uint, dict []D, dst []T) uint64 {
	mask, n := uint64(1)<<w-1, uint64(len(dict))
	d := unsafe.Pointer(unsafe.SliceData(dict))
	at2, shift2 := 2*w>>3, 2*w&7
	at4, shift4 := 4*w>>3, 4*w&7
	at6, shift6 := 6*w>>3, 6*w&7
	for len(dst) >= 8 {
		out := (*[8]T)(dst)
		i0 := *(*uint64)(q)
		i2 := *(*uint64)(unsafe.Add(q, at2)) >> (shift2 & 7)
		i4 := *(*uint64)(unsafe.Add(q, at4)) >> (shift4 & 7)
		i6 := *(*uint64)(unsafe.Add(q, at6)) >> (shift6 & 7)
		i1, i3, i5, i7 := i0>>(w&63)&mask, i2>>(w&63)&mask, i4>>(w&63)&mask, i6>>(w&63)&mask
		i0, i2, i4, i6 = i0&mask, i2&mask, i4&mask, i6&mask
		if i0|i1|i2|i3|i4|i5|i6|i7 >= n {
			if largest := max(i0, i1, i2, i3, i4, i5, i6, i7); largest >= n {
				return largest
			}
		}
		out[0], out[1], out[2], out[3] = T(at[D](d, i0)), T(at[D](d, i1)), T(at[D](d, i2)), T(at[D](d, i3))
		out[4], out[5], out[6], out[7] = T(at[D](d, i4)), T(at[D](d, i5)), T(at[D](d, i6)), T(at[D](d, i7))
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

package columns

import "unsafe"

// spread moves values v[from:from+present] apart, so that value i stands at the i-th of positions from to from+n
// that have a bit in valid. There are present such positions. What is written elsewhere among them is unspecified, but
// some value of v[from:from+n].
func spread[T any](v []T, valid []uint64, from, n, present int) {
	var t T
	end, src := from+n, from+present
	if first, behind := (from+7)&^7, end&^7; haveVectorSpread && behind > first && (unsafe.Sizeof(t) == 4 || unsafe.Sizeof(t) == 8) {
		if src = spreadSlow(v, valid, from, behind, end, src); src >= behind { // these are in place
			return
		}
		src = spreadVector(unsafe.Pointer(unsafe.SliceData(v[:end])), valid[:(end+63)>>6], unsafe.Sizeof(t), first, behind, src)
		end = first
	}
	spreadSlow(v, valid, from, from, end, src)
}

// spreadSlow does so for positions first to end, of which those that have a bit get the values before v[src], the last one first, down
// to v[from]. It returns where the ones that are left end, or stops where the ones before src are in place.
func spreadSlow[T any](v []T, valid []uint64, from, first, end, src int) int {
	for i := end; i > max(first, src); {
		word := valid[(i-1)>>6]
		for low := max(first, src, (i-1)&^63); i > low && src > from; {
			if i&7 == 0 && i-low >= 8 && src-from >= 8 && byte(word>>((i-8)&63)) == 0xff {
				eight := [8]T(v[src-8:]) // most come in runs
				i, src = i-8, src-8
				*(*[8]T)(v[i:]) = eight
				continue
			}
			i--
			v[i] = v[src-1]
			src -= int(word >> (i & 63) & 1)
		}
		if src == from {
			return src
		}
	}
	return src
}

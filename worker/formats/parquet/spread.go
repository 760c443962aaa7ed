package parquet

// spread moves values v[from:from+present] apart, so that value i stands at the i-th of positions from to from+n
// that have a bit in valid. There are present such positions. What is written elsewhere among them is unspecified.
func spread[T any](v []T, valid []uint64, from, n, present int) {
	src := from + present // behind the last value that is not moved yet
	for i := from + n; i > src; {
		word := valid[(i-1)>>6]
		for low := max(src, (i-1)&^63); i > low && src > from; {
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
			return
		}
	}
}

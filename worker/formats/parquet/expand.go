package parquet

// expandPlain is what expand does, on any CPU, for the positions from `from` to `to`: it takes the last of src, and
// returns how many are left.
func expandPlain[T word](dst, src []T, valid []uint64, from, to int, fill T) (left int) {
	k := len(src)
	for i := to; i > from; {
		word := valid[(i-1)>>6]
		if k == 0 {
			for j := range dst[from:i] {
				dst[from+j] = fill
			}
			return 0
		}
		for low := max(from, (i-1)&^63); i > low && k > 0; {
			if i&7 == 0 && i-low >= 8 && k >= 8 && byte(word>>((i-8)&63)) == 0xff {
				eight := [8]T(src[k-8:]) // most come in runs
				i, k = i-8, k-8
				*(*[8]T)(dst[i:]) = eight
				continue
			}
			i--
			bit := T(word >> (i & 63) & 1) // chance decides, so no branch does
			dst[i] = src[k-1]&-bit | fill&(bit-1)
			k -= int(bit)
		}
	}
	return k
}

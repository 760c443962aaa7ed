package features

import (
	"iter"
	"math/bits"

	"github.com/penstock-ml/penstock/api/pb"
)

// Members are the features of a set, by index, ascending.
func Members(s *pb.FeatureSet) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, b := range s.GetFeatures() {
			for ; b != 0; b &= b - 1 {
				if !yield(8*i + bits.TrailingZeros8(b)) {
					return
				}
			}
		}
	}
}

// with adds a member to a set's bits.
func with(set []byte, i int) []byte {
	for len(set) <= i/8 {
		set = append(set, 0)
	}
	set[i/8] |= 1 << (i % 8)
	return set
}

// trimmed are bits without zeros at the end.
func trimmed(set []byte) []byte {
	for len(set) > 0 && set[len(set)-1] == 0 {
		set = set[:len(set)-1]
	}
	return set
}

// last is the greatest member of trimmed bits, -1 if there is none.
func last(set []byte) int {
	if len(set) == 0 {
		return -1
	}
	return 8*len(set) - 1 - bits.LeadingZeros8(set[len(set)-1])
}

package storage_test

import (
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
)

// TestOverlaps: ranges that have bytes in common are found wherever they stand, empty ones have none.
func TestOverlaps(t *testing.T) {
	for _, test := range []struct {
		ranges []storage.Range
		want   []bool
	}{
		{nil, []bool{}},
		{[]storage.Range{{Offset: 8, Length: 4}, {Offset: 0, Length: 8}}, []bool{false, false}},
		{
			[]storage.Range{{Offset: 0, Length: 4}, {Offset: 9, Length: 3}, {Offset: 0, Length: 4}},
			[]bool{true, false, true},
		},
		{
			[]storage.Range{
				{Offset: 0, Length: 10},
				{Offset: 2, Length: 1},
				{Offset: 5, Length: 1},
				{Offset: 10, Length: 1},
			},
			[]bool{true, true, true, false},
		},
		{[]storage.Range{{Offset: 4, Length: 0}, {Offset: 4, Length: 2}}, []bool{false, false}},
	} {
		if got := storage.Overlaps(test.ranges); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.ranges, got, test.want)
		}
	}
}

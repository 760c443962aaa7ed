package records

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

// TestSpacing: however large a file is, its restarts take less than a thousandth of it, and 8 MiB at most, which etcd
// and answers have room for.
func TestSpacing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 1<<rapid.IntRange(10, 60).Draw(t, "bits")).Draw(t, "size")
		spacing := spacingOf(Gzip, size)
		if spacing == 0 {
			return
		}
		if all := (size - 1) / spacing * format.MaxWindow; all > min(size/1000, 8<<20) {
			t.Errorf("restarts of a file of %d bytes, each %d, take %d", size, spacing, all)
		}
	})
}

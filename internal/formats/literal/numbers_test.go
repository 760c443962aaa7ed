package literal

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestParseFloat: numbers are those of strconv, bit for bit, whichever way they are read.
func TestParseFloat(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`-?[0-9]{0,20}\.?[0-9]{0,20}`), rapid.StringMatching(`[-+]?[0-9.]{1,4}(e-?[0-9]{1,3})?`),
		).Draw(r, "text")
		for _, bits := range []int{32, 64} {
			want, err := strconv.ParseFloat(text, bits)
			got, ok := ParseFloat([]byte(text), bits)
			if ok != (err == nil) || ok && math.Float64bits(got) != math.Float64bits(want) {
				r.Fatalf("%q as float%d: %v %v, want %v %v", text, bits, got, ok, want, err)
			}
		}
	})
}

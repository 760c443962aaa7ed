package simd

import (
	"slices"
	"testing"
)

func TestEachRunsWhatTheCPUHas(t *testing.T) {
	level := AVX512
	var ran []string
	Each(&level, func(name string) {
		if name != level.String() {
			t.Errorf("%s runs at level %v", name, level)
		}
		ran = append(ran, name)
	}, VNNI, AVX512, AVX2)
	if want := []string{"AVX-512", "AVX2", "plain"}; !slices.Equal(ran, want) || level != AVX512 {
		t.Errorf("got %v, and level %v after them, want %v", ran, level, want)
	}
}

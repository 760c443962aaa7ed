// Package simd says which of the CPU's vector instructions the inner loops may use beyond those that each CPU has.
// Results do not depend on them: each loop has a form in plain Go, which tests compare the others with.
package simd

import "golang.org/x/sys/cpu"

// Level is a set of instructions; each has those of the ones before it.
type Level int

// The levels that loops are written for.
const (
	Plain  Level = iota // what Go makes by itself, on any CPU
	AVX2                // with FMA and POPCNT: most of amd64
	AVX512              // F, BW, DQ and VL: Intel's servers, AMD's from Zen 4 on
	VNNI                // products of bytes
)

// String is how tests and benchmarks call the level.
func (l Level) String() string {
	return [...]string{"plain", "AVX2", "AVX-512", "VNNI"}[l]
}

// Best is the highest level that this CPU has.
func Best() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasPOPCNT:
		return Plain
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return AVX2
	case !x.HasAVX512VNNI:
		return AVX512
	}
	return VNNI
}

// Each runs f, of a test or a benchmark, for each of the levels that this CPU has, and for Plain, with *level set to
// it.
func Each(level *Level, f func(name string), levels ...Level) {
	had := *level
	defer func() { *level = had }()
	for _, l := range append(levels, Plain) {
		if l <= had {
			*level = l
			f(l.String())
		}
	}
}

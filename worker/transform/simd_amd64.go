package transform

import "golang.org/x/sys/cpu"

// simd says which instructions kernels may use beyond those that each CPU has. Results do not depend on it.
var simd = struct{ avx2, avx512 bool }{ //nolint:gochecknoglobals // a property of the machine: only tests write it
	avx2:   cpu.X86.HasAVX2 && cpu.X86.HasFMA,
	avx512: cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW,
}

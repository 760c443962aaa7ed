package transform

import (
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// BenchmarkFused measures what one loop would save that does a column's steps value by value: a chain of steps, beside
// the same arithmetic in one loop written by hand, over pieces of a column that are those of windows with many columns,
// of few, and larger than the caches.
func BenchmarkFused(b *testing.B) {
	for _, n := range []int{512, 4096, 1 << 20} {
		v := fusedInput(n)
		b.Run(fmt.Sprintf("fill+log1p+scale/chain/%d", n), func(b *testing.B) {
			benchSteps(b, v, opStep{fillNull(), values{"value": 0}}, opStep{log1p(), nil},
				opStep{scaleTo01(), values{"min": 1, "max": 26}})
		})
		b.Run(fmt.Sprintf("fill+log1p+scale/fused/%d", n), func(b *testing.B) {
			benchLoop(b, v, func(dst []float32, valid []uint64, src []float32) {
				for at := 0; at < len(src); at += 64 { // a word of nulls; what is shared lies in the nearest cache
					some := dst[at : at+64]
					fillWord(some, src[at:at+64], valid[at>>6])
					logs32(some, some)
					scaled(some)
				}
			})
		})
		b.Run(fmt.Sprintf("fill+log1p+scale/log1p alone/%d", n), func(b *testing.B) {
			benchLoop(b, v, func(dst []float32, _ []uint64, src []float32) { logs32(dst, src) })
		})
		b.Run(fmt.Sprintf("clamp+scale/chain/%d", n), func(b *testing.B) {
			benchSteps(b, v, opStep{clamp(), values{"min": 0, "max": 100}},
				opStep{scaleTo01(), values{"min": 1, "max": 26}})
		})
		b.Run(fmt.Sprintf("clamp+scale/fused/%d", n), func(b *testing.B) {
			benchLoop(b, v, func(dst []float32, _ []uint64, src []float32) {
				dst = dst[:len(src)]
				for i, x := range src {
					if x < 0 {
						x = 0
					} else if x > 100 {
						x = 100
					}
					dst[i] = (x - 1) / 25
				}
			})
		})
	}
}

type opStep struct {
	op     Op
	params values
}

// fusedInput has a null in eight values.
func fusedInput(n int) *vector.Vector {
	v := &vector.Vector{
		Type: scalar(pb.Kind_FLOAT32), Rows: n, F32: make([]float32, n),
		Valid: make([]uint64, vector.Words(n)),
	}
	for i := range v.F32 {
		v.F32[i] = float32(i%97) / 3
	}
	for i := range v.Valid {
		v.Valid[i] = 0x7f7f7f7f7f7f7f7f
	}
	return v
}

func benchSteps(b *testing.B, in *vector.Vector, steps ...opStep) {
	b.Helper()
	p := &pb.Program{
		Sources: []*pb.Source{{Name: "x", Type: in.Type.Proto()}},
		Outputs: []*pb.Output{{Slots: []uint32{uint32(len(steps))}}},
	}
	for i, s := range steps {
		sig, err := Builtin().Check(s.op.Name, s.params.proto(), []spec.Type{in.Type})
		if err != nil {
			b.Fatal(err)
		}
		p.Steps = append(p.Steps, &pb.Step{
			Op: s.op.Name, Version: sig.Version, Params: sig.Params, Outs: 1, Name: fmt.Sprint("x", i),
			In: []uint32{uint32(i)}, Type: sig.Out.Proto(),
		})
	}
	chain, err := Compile(Builtin(), p, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		run(b, chain, in)
	}
	perElement(b, in.Rows)
}

func benchLoop(b *testing.B, in *vector.Vector, loop func(dst []float32, valid []uint64, src []float32)) {
	b.Helper()
	dst := make([]float32, in.Rows)
	for b.Loop() {
		loop(dst, in.Valid, in.F32)
	}
	perElement(b, in.Rows)
}

// fillWord copies values, 0 in place of those whose bit is not set.
func fillWord(dst, src []float32, valid uint64) {
	dst = dst[:len(src)]
	for i, x := range src {
		if valid>>(i&63)&1 == 0 {
			x = 0
		}
		dst[i] = x
	}
}

func scaled(of []float32) {
	for i, x := range of {
		of[i] = (x - 1) / 25
	}
}

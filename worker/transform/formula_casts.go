package transform

import (
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// casting converts values as the op cast does, and makes text of them.
func casting(of part, from, to pb.Kind) part {
	switch from {
	case pb.Kind_BOOL:
		return castingBits(of, to)
	case pb.Kind_INT32, pb.Kind_INT64:
		return castingInts(of, from, to)
	case pb.Kind_FLOAT32:
		return castingFloats[float32](of, from, to)
	case pb.Kind_FLOAT64:
		return castingFloats[float64](of, from, to)
	}
	switch to {
	case pb.Kind_BOOL:
		return &toBits[[]byte]{of, newChunk(to), parseBool}
	case pb.Kind_INT32:
		return parsingText(of, to, func(x []byte) (int64, bool) {
			n, ok := parseInt(x)
			return max(math.MinInt32, min(math.MaxInt32, n)), ok
		})
	case pb.Kind_INT64:
		return parsingText(of, to, parseInt)
	case pb.Kind_FLOAT32:
		return parsingText(of, to, func(x []byte) (float32, bool) {
			number, ok := parseFloat(x, 32)
			return float32(number), ok
		})
	case pb.Kind_FLOAT64:
		return parsingText(of, to, func(x []byte) (float64, bool) { return parseFloat(x, 64) })
	}
	return of
}

// parsingText makes null what parse cannot read.
func parsingText[D partValue](of part, to pb.Kind, parse func(x []byte) (D, bool)) part {
	return &each[D, []byte]{of, newChunk(to), func(out *chunk, dst []D, src [][]byte) {
		var zero D
		words := vector.Words(len(src))
		for i, x := range src {
			dst[i] = zero
			if wordOf(out.valid, i>>6)>>(i&63)&1 == 0 {
				continue
			}
			number, ok := parse(x)
			if !ok {
				clearBit(out.mayLose(words), i)
				continue
			}
			dst[i] = number
		}
	}}
}

// toBits makes bools of values, null where they have none.
type toBits[S partValue] struct {
	of  part
	out chunk
	is  func(x S) (truth, ok bool)
}

func (p *toBits[S]) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid = of.valid
	clear(p.out.bits)
	for i, x := range valuesIn[S](of)[:s.n] {
		if wordOf(of.valid, i>>6)>>(i&63)&1 == 0 {
			continue
		}
		truth, ok := p.is(x)
		if p.out.bits[i>>6] |= bit(truth) << (i & 63); !ok {
			clearBit(p.out.mayLose(s.words()), i)
		}
	}
	return &p.out
}

// ofBits makes values of bools.
type ofBits[D int64 | float32 | float64] struct {
	of  part
	out chunk
}

func (p *ofBits[D]) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid = of.valid
	for i, dst := 0, valuesIn[D](&p.out)[:s.n]; i < len(dst); i++ {
		dst[i] = D(of.bits[i>>6] >> (i & 63) & 1)
	}
	return &p.out
}

func castingBits(of part, to pb.Kind) part {
	switch to {
	case pb.Kind_INT32, pb.Kind_INT64:
		return &ofBits[int64]{of, newChunk(to)}
	case pb.Kind_FLOAT32:
		return &ofBits[float32]{of, newChunk(to)}
	case pb.Kind_FLOAT64:
		return &ofBits[float64]{of, newChunk(to)}
	case pb.Kind_BINARY:
		return &bitTexts{of, newChunk(to), [2][]byte{[]byte("false"), []byte("true")}}
	}
	return of
}

func castingInts(of part, from, to pb.Kind) part {
	switch to {
	case pb.Kind_BOOL:
		return &toBits[int64]{of, newChunk(to), func(x int64) (truth, ok bool) { return x != 0, true }}
	case pb.Kind_FLOAT32:
		return newEach(of, to, convert[float32, int64])
	case pb.Kind_FLOAT64:
		return newEach(of, to, convert[float64, int64])
	case pb.Kind_BINARY:
		return newWriting(of, appending(appendInt))
	case pb.Kind_INT32:
		if from != to {
			return newEach(of, to, func(dst, src []int64) { clampPlain(dst, src, math.MinInt32, math.MaxInt32) })
		}
	}
	return of
}

func castingFloats[S float32 | float64](of part, from, to pb.Kind) part {
	switch to {
	case from:
		return of
	case pb.Kind_BOOL:
		return &toBits[S]{of, newChunk(to), func(x S) (truth, ok bool) { return x != 0, x == x }}
	case pb.Kind_INT32:
		return cutting[S](of, to, math.MinInt32, math.MaxInt32)
	case pb.Kind_INT64:
		return cutting[S](of, to, math.MinInt64, math.MaxInt64)
	case pb.Kind_FLOAT32:
		return newEach(of, to, convert[float32, S])
	case pb.Kind_FLOAT64:
		return newEach(of, to, convert[float64, S])
	}
	return newWriting(of, appending(appendNumber[S]))
}

// cutting rounds to integers towards zero, within [least, most]; NaN becomes null.
func cutting[S float32 | float64](of part, to pb.Kind, least, most int64) part {
	low, high := S(least), -S(least) // a power of two, hence exact
	return &each[int64, S]{of, newChunk(to), func(out *chunk, dst []int64, src []S) {
		for i, x := range src {
			switch {
			case x >= high:
				dst[i] = most
			case x <= low:
				dst[i] = least
			case x == x:
				dst[i] = int64(x)
			default:
				dst[i] = 0
				clearBit(out.mayLose(vector.Words(len(src))), i)
			}
		}
	}}
}

package transform

import (
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
)

// lengths counts characters. A byte that is no part of one counts as one.
func lengths(dst []int64, src [][]byte) {
	for i, x := range src {
		dst[i] = int64(utf8.RuneCount(x))
	}
}

func byteLengths(dst []int64, src [][]byte) {
	for i, x := range src {
		dst[i] = int64(len(x))
	}
}

// writing makes texts in memory of its own.
type writing[S partValue] struct {
	of    part
	out   chunk
	arena []byte
	// write appends the text of x, or returns it as it lies elsewhere.
	write func(arena []byte, x S) (more, text []byte)
}

func (p *writing[S]) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid, p.arena = of.valid, p.arena[:0]
	for i, x := range valuesIn[S](of)[:s.n] {
		if wordOf(of.valid, i>>6)>>(i&63)&1 == 0 {
			p.out.texts[i] = nil
			continue
		}
		p.arena, p.out.texts[i] = p.write(p.arena, x)
	}
	return &p.out
}

func newWriting[S partValue](of part, write func(arena []byte, x S) (more, text []byte)) part {
	return &writing[S]{of: of, out: newChunk(pb.Kind_BINARY), write: write}
}

// appending makes a writer of a function that appends.
func appending[S any](write func(arena []byte, x S) []byte) func(arena []byte, x S) (more, text []byte) {
	return func(arena []byte, x S) (more, text []byte) {
		more = write(arena, x)
		return more, more[len(arena):]
	}
}

// recased maps character by character; bytes that are no part of one stay.
func recased(to func(r rune) rune) func(arena, x []byte) (more, text []byte) {
	return func(arena, x []byte) (more, text []byte) {
		same := true
		for _, c := range x {
			same = same && c < utf8.RuneSelf && to(rune(c)) == rune(c)
		}
		if same {
			return arena, x
		}
		more = arena
		for len(x) > 0 {
			r, n := utf8.DecodeRune(x)
			if r == utf8.RuneError && n == 1 {
				more = append(more, x[0])
			} else {
				more = utf8.AppendRune(more, to(r))
			}
			x = x[n:]
		}
		return more, more[len(arena):]
	}
}

func lowered() func(arena, x []byte) (more, text []byte) { return recased(unicode.ToLower) }

func raised() func(arena, x []byte) (more, text []byte) { return recased(unicode.ToUpper) }

func appendInt(arena []byte, x int64) []byte { return strconv.AppendInt(arena, x, 10) }

// appendNumber writes the shortest decimal number that is read as x, as Python does.
func appendNumber[T float32 | float64](arena []byte, x T) []byte {
	wide, bits := float64(x), 64
	if _, narrow := any(x).(float32); narrow {
		bits = 32
	}
	switch {
	case wide != wide:
		return append(arena, "nan"...)
	case math.IsInf(wide, 0):
		if wide < 0 {
			arena = append(arena, '-')
		}
		return append(arena, "inf"...)
	}
	if size := math.Abs(wide); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.AppendFloat(arena, wide, 'e', -1, bits)
	}
	before := len(arena)
	arena = strconv.AppendFloat(arena, wide, 'f', -1, bits)
	for _, c := range arena[before:] {
		if c == '.' {
			return arena
		}
	}
	return append(arena, ".0"...)
}

// bitTexts are those of bools.
type bitTexts struct {
	of  part
	out chunk
	two [2][]byte
}

func (p *bitTexts) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid = of.valid
	for i := range s.n {
		p.out.texts[i] = p.two[of.bits[i>>6]>>(i&63)&1]
	}
	return &p.out
}

// hashes are never null.
type hashes struct {
	of   part // nil: of the rows' places
	kind pb.Kind
	hash filter.Hash
	out  chunk
}

func (p *hashes) compute(s *stretch) *chunk {
	ids := p.out.ints[:s.n]
	if p.of == nil {
		for i := range ids {
			ids[i] = p.hash.Of(filter.RowID(s.file, s.first+int64(s.from+i)))
		}
		return &p.out
	}
	of := p.of.compute(s)
	switch p.kind {
	case pb.Kind_BOOL:
		for i := range ids {
			ids[i] = int64(of.bits[i>>6] >> (i & 63) & 1)
		}
	case pb.Kind_INT32, pb.Kind_INT64:
		copy(ids, of.ints)
	case pb.Kind_FLOAT32:
		for i, x := range of.f32[:s.n] {
			ids[i] = int64(filter.FloatID(float64(x)))
		}
	case pb.Kind_FLOAT64:
		for i, x := range of.f64[:s.n] {
			ids[i] = int64(filter.FloatID(x))
		}
	default:
		for i, x := range of.texts[:s.n] {
			ids[i] = int64(filter.TextID(x))
		}
	}
	for i, id := range ids {
		if wordOf(of.valid, i>>6)>>(i&63)&1 == 0 {
			id = -1 // filter.NullID
		}
		ids[i] = p.hash.Of(uint64(id))
	}
	return &p.out
}

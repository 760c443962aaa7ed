package arrow

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// binaries are byte strings of any lengths.
type binaries struct {
	memory         *decode.Allowance
	offsets, bytes *buffer
	large          bool // the offsets are int64

	ends []int32
	data []byte
}

func (b *binaries) reserve(n int) (err error) {
	b.ends, err = decode.Grow(b.memory, b.ends[:0], n+1)
	b.data = b.data[:0]
	if err == nil {
		b.ends[0] = 0
	}
	return err
}

func (b *binaries) read(at int, runs []run) error {
	all := span(runs)
	if all.n == 0 {
		return nil
	}
	offset, err := b.offsets.offsets(all.from, all.n, b.large)
	if err != nil {
		return err
	}
	first, last := offset(0), offset(all.n)
	if first < 0 || last < first {
		return fmt.Errorf("values %d to %d have bytes %d to %d: the file is damaged",
			all.from, all.from+all.n-1, first, last)
	}
	data, err := b.bytes.bytes(first, last-first)
	if err != nil {
		return err
	}
	for _, r := range runs {
		begin, end := offset(r.from-all.from), len(b.data)
		next := begin
		for i := range r.n {
			last, to := next, offset(r.from-all.from+i+1)
			if to < last || last < first || to-first > int64(len(data)) || int64(end)+to-begin > math.MaxInt32 {
				return fmt.Errorf(
					"value %d has bytes %d to %d: the file is damaged, or a window of it has more than %d bytes",
					r.from+i, last, to, math.MaxInt32)
			}
			b.ends[at+i+1] = int32(int64(end) + to - begin)
			next = to
		}
		size := end + int(next-begin)
		if b.data, err = decode.Grow(b.memory, b.data, size); err != nil {
			return err
		}
		b.data = b.data[:size]
		copy(b.data[end:], data[begin-first:next-first])
		at += r.n
	}
	return nil
}

func (b *binaries) show(v *vector.Vector, n int) error {
	v.Ends, v.Data = b.ends[:n+1], b.data
	return nil
}

// fixedBinaries are byte strings of one length.
type fixedBinaries struct {
	memory *decode.Allowance
	bytes  *buffer
	width  int

	ends []int32
	data []byte
}

func (b *fixedBinaries) reserve(n int) (err error) {
	if int64(n)*int64(b.width) > math.MaxInt32 {
		return fmt.Errorf("a window has more than %d bytes: write smaller record batches", math.MaxInt32)
	}
	if b.ends, err = decode.Grow(b.memory, b.ends[:0], n+1); err != nil {
		return err
	}
	for i := range b.ends[:n+1] {
		b.ends[i] = int32(i * b.width)
	}
	b.data, err = decode.Grow(b.memory, b.data[:0], n*b.width)
	return err
}

func (b *fixedBinaries) read(at int, runs []run) error {
	all := span(runs)
	data, err := b.bytes.bytes(int64(all.from)*int64(b.width), int64(all.n)*int64(b.width))
	if err != nil {
		return err
	}
	for _, r := range runs {
		copy(b.data[at*b.width:][:r.n*b.width], data[(r.from-all.from)*b.width:])
		at += r.n
	}
	return nil
}

func (b *fixedBinaries) show(v *vector.Vector, n int) error {
	v.Ends, v.Data = b.ends[:n+1], b.data[:n*b.width]
	return nil
}

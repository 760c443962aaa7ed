package parquet

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// pageOf is a page of n random values.
type pageOf struct {
	data     []byte
	encoding encoding
	n        int
}

// book draws dictionaries and pages.
type book struct {
	*rand.Rand
	entries int
}

func (b *book) plain(n int, most int64) []byte {
	var data []byte
	for range n {
		// the widest range has negative ones
		data = binary.LittleEndian.AppendUint64(data, uint64(b.Int64N(most)-most>>40))
	}
	return data
}

// dictionary has values of 32 bits, or not.
func (b *book) dictionary() pageOf {
	b.entries = 1 + b.IntN(40)
	if b.IntN(8) == 0 {
		b.entries = aheadDictionary/4 + b.IntN(10)
	}
	return pageOf{b.plain(b.entries, int64(1)<<(20+30*(b.IntN(5)/4))), encodingPlain, b.entries}
}

func (b *book) page() pageOf {
	n := b.IntN(300)
	if b.entries == 0 || b.IntN(4) == 0 {
		return pageOf{b.plain(n, 1<<20), encodingPlain, n}
	}
	data := []byte{17} // bits of an index, in runs of one each
	for range n {
		i := b.IntN(b.entries)
		data = append(data, 2, byte(i), byte(i>>8), byte(i>>16))
	}
	return pageOf{data, encodingDictionary, n}
}

// narrowing reads the same pages by values that may be narrow and by others.
type narrowing struct {
	testing.TB
	*book
	both [2]values
	left int // of the page
}

func (p *narrowing) next() {
	p.left = 0
	for p.left == 0 {
		page, dictionary := p.page(), p.IntN(10) == 0
		if dictionary {
			page = p.dictionary()
		}
		stays := p.IntN(2) == 0
		for _, v := range p.both {
			v.(lender).keep()
			data, err := slices.Clone(page.data), error(nil) // so that what is shown of the last page is this one's
			if dictionary {
				err = v.dictionary(data, page.encoding, page.n)
			} else {
				v.(lender).lend(stays)
				err = v.page(data, page.encoding, page.n)
				p.left = page.n
			}
			if err != nil {
				p.Fatal(err)
			}
		}
	}
}

// window reads rows, some of them null.
func (p *narrowing) window(rows int) {
	valid := make([]uint64, vector.Words(rows))
	nulls := []int{0, 0, 3, 100}[p.IntN(4)] // in a hundred
	for at := 0; at < rows; {
		if p.left == 0 {
			p.next()
		}
		n, present := min(rows-at, p.left, 1+p.IntN(100)), 0
		for i := at; i < at+n; i++ {
			if p.IntN(100) >= nulls {
				valid[i>>6] |= 1 << (i & 63)
				present++
			}
		}
		for _, v := range p.both {
			if err := v.reserve(at+n, rows); err != nil {
				p.Fatal(err)
			}
			if err := v.read(at, present); err != nil {
				p.Fatal(err)
			}
			if present < n {
				v.spread(valid, at, n, present)
			}
		}
		at, p.left = at+n, p.left-n
	}
}

// TestNarrow: values that may be narrow are those that are wide, whatever dictionaries and pages come in turns within a
// window.
func TestNarrow(t *testing.T) {
	seen := map[bool]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := &narrowing{TB: t, book: &book{Rand: r}}
		var both [2]*fixed[uint64]
		for i := range both {
			v, err := newFixed(shape{physical: footer.Int64, kind: pb.Kind_INT64, read: pb.Kind_INT64},
				decode.NewAllowance(1<<30))
			if err != nil {
				t.Fatal(err)
			}
			both[i] = v.(*fixed[uint64])
			both[i].fill, p.both[i] = uint64(seed%3), both[i]
		}
		p.both[0] = newNarrow(both[0])
		vectors := [2]*vector.Vector{{Type: spec.Type{Kind: pb.Kind_INT64}}, {Type: spec.Type{Kind: pb.Kind_INT64}}}
		for window := range 60 {
			rows := 1 + r.IntN(400)
			p.window(rows)
			for i, v := range p.both {
				v.into(vectors[i], rows)
			}
			got, want := vectors[0], vectors[1].I64
			if (got.U32 == nil) == (got.I64 == nil) {
				t.Fatalf("seed %d, window %d: %d values of 32 bits and %d of 64",
					seed, window, len(got.U32), len(got.I64))
			}
			seen[got.U32 != nil]++
			if have := widened(got); !slices.Equal(have, want) {
				t.Fatalf("seed %d, window %d: %v, want %v", seed, window, have, want)
			}
		}
	}
	if seen[true] < 100 || seen[false] < 100 {
		t.Errorf("windows that were narrow, and not: %v", seen)
	}
}

// widened are the values of a vector of kind INT64.
func widened(v *vector.Vector) []int64 {
	if v.U32 == nil {
		return v.I64
	}
	out := make([]int64, len(v.U32))
	for i, x := range v.U32 {
		out[i] = int64(x)
	}
	return out
}

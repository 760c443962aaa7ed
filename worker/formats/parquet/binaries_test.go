package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// plainOf has values as a page of PLAIN has them.
func plainOf(values [][]byte) (page []byte) {
	for _, v := range values {
		page = append(binary.LittleEndian.AppendUint32(page, uint32(len(v))), v...)
	}
	return page
}

func checkBinaries(t *testing.T, b *binaries, want [][]byte) {
	t.Helper()
	for i, w := range want {
		if got := b.data[b.ends[i]:b.ends[i+1]]; !bytes.Equal(got, w) {
			t.Fatalf("value %d is %q, want %q", i, got, w)
		}
	}
}

// randomValues are of at most some bytes, one in ten of the most.
func randomValues(r *rand.Rand, n, most int) [][]byte {
	values := make([][]byte, n)
	for i := range values {
		size := most
		if r.IntN(10) > 0 {
			size = r.IntN(most + 1)
		}
		values[i] = make([]byte, size)
		for k := range values[i] {
			values[i][k] = byte(r.Uint32())
		}
	}
	return values
}

// TestSlots looks up values of all lengths that slots have and have not, with memory for slots and without.
func TestSlots(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for most := range 40 {
		for _, memory := range []int64{testMemory, 0} {
			mem := decode.NewAllowance(testMemory)
			b := &binaries{mem: mem}
			for _, n := range []int{1, 300, 20} { // dictionaries of a column's chunks
				dict := randomValues(r, n, most)
				if err := b.dictionary(plainOf(dict), encodingPlain, n); err != nil {
					t.Fatal(err)
				}
				codes, want := make([]uint32, 5000), make([][]byte, 5000)
				for i := range codes {
					codes[i] = uint32(r.IntN(n))
					want[i] = dict[codes[i]]
				}
				if err := b.reserve(len(codes), len(codes)); err != nil {
					t.Fatal(err)
				}
				if _, err := b.room(1, len(codes)*longSlot); err != nil {
					t.Fatal(err)
				}
				b.data = b.data[:0]
				if mem.Allow(memory); memory == 0 {
					mem.Allow(mem.Held())
				}
				if err := b.lookUp(0, codes, nil); err != nil {
					t.Fatal(err)
				}
				mem.Allow(testMemory)
				longest := len(slices.MaxFunc(dict, func(a, b []byte) int { return len(a) - len(b) }))
				if have := longest < longSlot && memory > 0; b.slots.filled != have {
					t.Fatalf("entries of up to %d bytes with %d bytes of memory: slots %v, want %v",
						longest, memory, b.slots.filled, have)
				}
				checkBinaries(t, b, want)
			}
		}
	}
}

// TestEmptyDeltaPage reads values of a page of DELTA_BYTE_ARRAY without bytes, which has none: those of the page before
// are gone.
func TestEmptyDeltaPage(t *testing.T) {
	b := &binaries{mem: decode.NewAllowance(testMemory)}
	if err := b.reserve(2, 2); err != nil {
		t.Fatal(err)
	}
	// 0 and 1, 1 and 0
	const prefixes, lengths = "\x80\x01\x04\x02\x00\x02\x00\x00\x00\x00", "\x80\x01\x04\x02\x02\x01\x00\x00\x00\x00"
	page := prefixes + lengths + "a"
	if err := errors.Join(b.page([]byte(page), encodingDeltaByteArray, 2), b.read(0, 1)); err != nil {
		t.Fatal(err)
	}
	checkBinaries(t, b, [][]byte{[]byte("a")})
	if err := b.page(nil, encodingDeltaByteArray, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.read(1, 1); !errors.Is(err, errValues) {
		t.Errorf("%v, want %v", err, errValues)
	}
}

// TestPlainValues reads values of all lengths, in blocks, and pages that are cut short.
func TestPlainValues(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for most := range 80 {
		values := randomValues(r, 300, most)
		page := bytes.Clone(plainOf(values))
		page = page[:len(page):len(page)]
		read := func(page []byte) (*binaries, error) {
			b := &binaries{mem: decode.NewAllowance(testMemory)}
			if err := b.page(page, encodingPlain, len(values)); err != nil {
				return b, err
			}
			if err := b.reserve(len(values), len(values)); err != nil {
				return b, err
			}
			for at := 0; at < len(values); at += 100 {
				if err := b.read(at, 100); err != nil {
					return b, err
				}
			}
			return b, nil
		}
		b, err := read(page)
		if err != nil {
			t.Fatal(err)
		}
		checkBinaries(t, b, values)
		for range 20 {
			if _, err := read(bytes.Clone(page[:r.IntN(len(page))])); err == nil {
				t.Fatal("a page that is cut short is read")
			}
		}
	}
}

// BenchmarkLookUp looks up short strings, in slots and where the dictionary has them.
func BenchmarkLookUp(b *testing.B) {
	const n = 1 << 15
	for _, entries := range []int{100, 50_000} {
		r := rand.New(rand.NewPCG(5, 6))
		v := &binaries{mem: decode.NewAllowance(testMemory)}
		if err := v.dictionary(plainOf(randomValues(r, entries, 8)), encodingPlain, entries); err != nil {
			b.Fatal(err)
		}
		codes := make([]uint32, n)
		for i := range codes {
			codes[i] = uint32(r.IntN(entries))
		}
		if err := v.reserve(n, n); err != nil {
			b.Fatal(err)
		}
		for _, size := range []int{shortSlot, 0} {
			b.Run(fmt.Sprintf("entries=%d/slots=%t", entries, size > 0), func(b *testing.B) {
				v.slots.size, v.slots.filled = size, false
				for b.Loop() {
					if err := v.lookUp(0, codes, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
			})
		}
	}
}

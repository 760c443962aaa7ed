package parquet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/golang/snappy"
)

// snappyPages are what numbers and texts look like, by their writers' own compression.
func snappyPages() (pages [][]byte) {
	r := rand.New(rand.NewPCG(5, 6))
	ids := rand.NewZipf(r, 1.2, 8, 1<<20)
	for _, n := range []int{0, 1, 15, 16, 17, 200, 5000, 70_000} {
		var numbers, texts, noise, same []byte
		for range n {
			numbers = binary.LittleEndian.AppendUint64(numbers, ids.Uint64()*0x9E3779B97F4A7C15)
			texts = append(texts, "the quick brown fox jumps over the lazy dog"[r.IntN(40):]...)
			noise = append(noise, byte(r.Uint32()))
			same = append(same, byte(len(same)/100%3))
		}
		pages = append(pages, numbers, texts, noise, same)
	}
	return pages
}

func TestSnappy(t *testing.T) {
	for i, page := range snappyPages() {
		packed := snappy.Encode(nil, page)
		got := make([]byte, len(page))
		if n, err := snappyDecode(got, packed); n != len(page) || err != nil || !bytes.Equal(got, page) {
			t.Errorf("page %d of %d bytes: %d, %v", i, len(page), n, err)
		}
	}
}

// FuzzSnappy decodes what may be anything as golang/snappy does.
func FuzzSnappy(f *testing.F) {
	for _, page := range snappyPages() {
		if packed := snappy.Encode(nil, page); len(packed) < 4096 {
			f.Add(packed)
		}
	}
	// Elements by hand, behind 300 bytes: offsets that overlap, are 0, or too far, and the long forms of all.
	front := append(binary.AppendUvarint(nil, 700), 60<<2, 199)
	front = append(front, bytes.Repeat([]byte("0123456789"), 20)...)
	for _, elements := range [][]byte{
		{63<<2 | 2, 1, 0},
		{63<<2 | 2, 15, 0},
		{63<<2 | 2, 16, 0},
		{1, 0},
		{2, 0, 0},
		{63<<2 | 2, 255, 255},
		{63<<2 | 3, 20, 0, 0, 0},
		{63<<2 | 3, 255, 255, 255, 255},
		{61 << 2, 3, 0, 'a', 'b', 'c', 'd'},
		{62 << 2, 0, 0, 0, 'a'},
		{63 << 2, 255, 255, 255, 255},
		{60 << 2},
	} {
		f.Add(append(bytes.Clone(front), bytes.Repeat(elements, 8)...))
	}
	f.Fuzz(func(t *testing.T, packed []byte) { checkSnappy(t, packed) })
}

// checkSnappy compares with golang/snappy, and reports whether that decompresses it.
func checkSnappy(t *testing.T, packed []byte) bool {
	size, err := snappy.DecodedLen(packed)
	if err != nil || size > 1<<20 {
		t.Skip()
	}
	want, wantErr := snappy.Decode(nil, packed)
	memory := bytes.Repeat([]byte{0xee}, size+64) // what is behind dst must stay
	n, err := snappyDecode(memory[:size:size], packed)
	if good := err == nil && n == size; good != (wantErr == nil) || good && !bytes.Equal(memory[:size], want) {
		t.Errorf("%x: %d of %d bytes, %v; want %v", packed, n, size, err, wantErr)
	}
	if !bytes.Equal(memory[size:], bytes.Repeat([]byte{0xee}, 64)) {
		t.Errorf("%x: it wrote behind the page", packed)
	}
	return wantErr == nil
}

// TestSnappyElements decodes elements of all types, lengths and offsets, in any order; now and then one is not good.
func TestSnappyElements(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	good, bad := 0, 0
	for range 5000 {
		var elements []byte
		size := 0
		for range 5 + r.IntN(200) {
			offset := 1 + r.IntN(max(1, min(size, 1<<r.IntN(11))))
			if r.IntN(2000) == 0 {
				offset = []int{0, size + 1}[r.IntN(2)]
			}
			length := 1 + r.IntN(64)
			switch kind := r.IntN(4); {
			case kind == 0 || size == 0:
				length = 1 + r.IntN(60)
				elements = append(elements, byte(length-1)<<2)
				for range length {
					elements = append(elements, byte(r.Uint32()))
				}
			case kind == 1:
				length = 4 + r.IntN(8)
				elements = append(elements, byte(offset>>8&7<<5|(length-4)<<2|1), byte(offset))
			case kind == 2:
				elements = binary.LittleEndian.AppendUint16(append(elements, byte(length-1)<<2|2), uint16(offset))
			default:
				elements = binary.LittleEndian.AppendUint32(append(elements, byte(length-1)<<2|3), uint32(offset))
			}
			size += length
		}
		if checkSnappy(t, append(binary.AppendUvarint(nil, uint64(size)), elements...)) {
			good++
		} else {
			bad++
		}
	}
	if good < 1000 || bad < 100 {
		t.Errorf("%d were good, %d not", good, bad)
	}
}

func BenchmarkSnappy(b *testing.B) {
	for i, name := range []string{"numbers", "texts", "noise", "same"} {
		page := snappyPages()[28+i]
		packed, out := snappy.Encode(nil, page), make([]byte, len(page))
		for by, decode := range map[string]func() error{
			"columns": func() error { _, err := snappyDecode(out, packed); return err },
			"golang":  func() error { _, err := snappy.Decode(out, packed); return err },
		} {
			b.Run(name+"/"+by, func(b *testing.B) {
				b.SetBytes(int64(len(page)))
				for b.Loop() {
					if err := decode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

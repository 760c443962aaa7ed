package parquet

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"
)

func TestInt96(t *testing.T) {
	for _, text := range []string{
		"1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z",
		"2026-02-03T04:05:06.789Z", "1700-01-01T12:00:00Z",
	} {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		day := at.Truncate(24 * time.Hour)
		var src [12]byte
		binary.LittleEndian.PutUint64(src[:], uint64(at.Sub(day)))
		binary.LittleEndian.PutUint32(src[8:], uint32(day.Unix()/86400+2440588))
		if got := int96(src[:]); got != at.UnixNano() {
			t.Errorf("%s is %d, want %d", text, got, at.UnixNano())
		}
	}
}

func TestCodecsRefuse(t *testing.T) {
	var c codecs
	for codec := range int32(9) {
		if err := c.decompress(codec, make([]byte, 10), []byte("not compressed at all")); err == nil {
			t.Errorf("%s: no error for nonsense", codecName(codec))
		}
	}
	for _, test := range []struct {
		codec        int32
		stored, size int
		ok           bool
	}{
		{codecNone, 5, 5, true},
		{codecNone, 5, 6, false},
		{codecSnappy, 100, 2200, true},
		{codecSnappy, 100, 1 << 20, false},
		{codecZstd, 20, 1 << 17, true},
		{codecZstd, 1 << 20, maxPage + 1, false},
		{3, 1, 1, false},
		{-1, 1, 1, false},
		{100, 1, 1, false},
	} {
		if err := checkSize(test.codec, test.stored, test.size); (err == nil) != test.ok {
			t.Errorf("%d bytes of %s as %d: %v", test.stored, codecName(test.codec), test.size, err)
		}
	}
}

// TestHadoopLZ4 reads blocks as Hadoop frames them, each of one piece or more, and raw ones as old writers leave them.
func TestHadoopLZ4(t *testing.T) {
	want := bytes.Repeat([]byte("penstock "), 100)
	pack := func(part []byte) []byte {
		block := make([]byte, lz4.CompressBlockBound(len(part)))
		n, err := lz4.CompressBlock(part, block, nil)
		if err != nil {
			t.Fatal(err)
		}
		return block[:n]
	}
	framed := func(blocks ...[][]byte) (out []byte) {
		for _, pieces := range blocks {
			out = binary.BigEndian.AppendUint32(out, uint32(len(bytes.Join(pieces, nil))))
			for _, piece := range pieces {
				packed := pack(piece)
				out = append(binary.BigEndian.AppendUint32(out, uint32(len(packed))), packed...)
			}
		}
		return out
	}
	var c codecs
	for name, src := range map[string][]byte{
		"blocks": framed([][]byte{want[:500]}, [][]byte{want[500:]}),
		"pieces": framed([][]byte{want[:300], want[300:500]}, [][]byte{want[500:510], want[510:511], want[511:]}),
		"raw":    pack(want),
	} {
		got := make([]byte, len(want))
		if err := c.decompress(codecLZ4, got, src); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
		for i := range src {
			if err := c.decompress(codecLZ4, got, src[:i]); err == nil {
				t.Errorf("%s: %d of %d bytes were enough", name, i, len(src))
			}
		}
		for _, size := range []int{1, 499, len(want) - 1, len(want) + 1} {
			if err := c.decompress(codecLZ4, make([]byte, size), src); err == nil {
				t.Errorf("%s: taken for %d bytes", name, size)
			}
		}
	}
	for name, src := range map[string][]byte{
		"a longer piece than there is":    {0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 1, 'x'},
		"pieces of nothing":               make([]byte, 64),
		"a piece that exceeds its block":  append([]byte{0, 0, 0, 1}, framed([][]byte{want[:9]})[4:]...),
		"a piece of nothing, and no more": {0, 0, 0, 9, 0, 0, 0, 0},
	} {
		if err := c.decompress(codecLZ4, make([]byte, 9), src); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestDelta compares with values packed by hand: two blocks, the last part short, with deltas of up to 64 bits.
func TestDelta(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		want := rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 9)), 1, 300).Draw(r, "values")
		src := append(packDeltas(want), "rest"...)
		var d delta
		if n, err := d.begin(src, len(want)); err != nil || n != len(want) {
			r.Fatalf("%d values: %v", n, err)
		}
		if rest, err := d.rest(); err != nil || string(rest) != "rest" {
			r.Fatalf("rest is %q: %v", rest, err)
		}
		bits := 64
		for at := 0; at < len(want); {
			n := min(rapid.IntRange(1, 100).Draw(r, "piece"), len(want)-at)
			if rapid.Bool().Draw(r, "low bits only") {
				bits = 32 // of all that follow, too
				checkDeltas[uint32](r, &d, want[at:at+n], bits)
			} else {
				checkDeltas[uint64](r, &d, want[at:at+n], bits)
			}
			at += n
		}
	})
}

// checkDeltas compares the low bits of the next values.
func checkDeltas[T word](r *rapid.T, d *delta, want []int64, bits int) {
	got := make([]T, len(want))
	if err := nextDeltas(d, got); err != nil {
		r.Fatal(err)
	}
	for i, v := range got {
		if w := T(want[i]); (v^w)&T(lowBits(bits)) != 0 {
			r.Fatalf("value %d is %d, want %d", i, v, w)
		}
	}
}

// packDeltas encodes in blocks of 128 values in 4 parts, the simple way: bit by bit.
func packDeltas(values []int64) []byte {
	out := binary.AppendUvarint(nil, 128)
	out = binary.AppendUvarint(out, 4)
	out = binary.AppendUvarint(out, uint64(len(values)))
	out = binary.AppendVarint(out, values[0])
	deltas := make([]int64, len(values)-1)
	for i := range deltas {
		deltas[i] = values[i+1] - values[i]
	}
	for len(deltas) > 0 {
		block := deltas[:min(128, len(deltas))]
		deltas = deltas[len(block):]
		least := block[0]
		for _, v := range block {
			least = min(least, v)
		}
		out = binary.AppendVarint(out, least)
		widths, packed := make([]byte, 4), []byte(nil)
		for i := 0; i*32 < len(block); i++ {
			part := block[i*32 : min(i*32+32, len(block))]
			var all uint64
			for _, v := range part {
				all |= uint64(v - least)
			}
			for all>>widths[i] != 0 {
				widths[i]++
			}
			packed = append(packed, packBits(part, least, int(widths[i]))...)
		}
		out = append(append(out, widths...), packed...)
	}
	return out
}

func packBits(part []int64, least int64, width int) []byte {
	packed := make([]byte, 32*width/8)
	for i, v := range part {
		for b := range width {
			p := i*width + b
			packed[p/8] |= byte(uint64(v-least)>>b&1) << (p % 8)
		}
	}
	return packed
}

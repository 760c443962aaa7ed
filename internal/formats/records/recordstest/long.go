package recordstest

import (
	"bytes"
	stdlib "compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"
)

// LongText draws a file of lines that is long enough for its writers to begin several blocks.
func LongText(t *rapid.T) []byte {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	n := rapid.SampledFrom([]int{20e3, 150e3, 400e3}).Draw(t, "bytes")
	letters := rapid.SampledFrom([]int{2, 6}).Draw(t, "letters") // how well it compresses
	text := []byte("head\n")
	for len(text) < n {
		for range r.IntN(300) {
			text = append(text, byte('a'+r.IntN(letters)))
		}
		text = append(text, '\n')
	}
	return text
}

// LongGzip compresses a text by one of several writers and levels, as one member or some, flushed or not.
func LongGzip(t *rapid.T, text []byte) []byte {
	var out bytes.Buffer
	level := rapid.IntRange(-2, 9).Draw(t, "level") // -2 uses Huffman codes alone, and 0 stores
	klauspost := rapid.Bool().Draw(t, "klauspost")
	flush := rapid.SampledFrom([]int{0, 0, 3000, 50e3}).Draw(t, "flush")
	member := rapid.SampledFrom([]int{len(text), len(text), 120e3}).Draw(t, "member")
	for left := text; len(left) > 0; {
		n := min(member, len(left))
		w := writer(&out, klauspost, level)
		for piece := left[:n]; len(piece) > 0; {
			m := len(piece)
			if flush > 0 {
				m = min(m, flush)
			}
			must(w.Write(piece[:m]))
			if piece = piece[m:]; flush > 0 {
				must(0, w.Flush())
			}
		}
		must(0, w.Close())
		left = left[n:]
	}
	return out.Bytes()
}

type flusher interface {
	io.WriteCloser
	Flush() error
}

func writer(out io.Writer, klauspost bool, level int) flusher {
	var w flusher
	var err error
	if klauspost {
		w, err = gzip.NewWriterLevel(out, level)
	} else {
		w, err = stdlib.NewWriterLevel(out, level)
	}
	if err != nil {
		panic(fmt.Errorf("level %d: %w", level, err))
	}
	return w
}

package spec

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestTextsComeOutAsTheyWerePacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), -1, 300)).Draw(t, "texts")
		var packed []byte
		for _, text := range texts {
			packed = PackText(packed, text)
		}
		for i, want := range texts {
			text, rest, err := UnpackText(packed)
			if err != nil || !bytes.Equal(text, want) {
				t.Fatalf("text %d is %q: %v; want %q", i, text, err, want)
			}
			packed = rest
		}
		if len(packed) > 0 {
			t.Fatalf("%q is left", packed)
		}
	})
}

func FuzzUnpackText(f *testing.F) {
	f.Add([]byte("\x01a\x00"))
	f.Add([]byte("\x05abc"))
	f.Add(bytes.Repeat([]byte{0xff}, 10))
	f.Fuzz(func(t *testing.T, packed []byte) {
		for len(packed) > 0 {
			text, rest, err := UnpackText(packed)
			if err != nil {
				return
			}
			if len(text)+len(rest) >= len(packed) || !bytes.HasSuffix(packed, rest) {
				t.Fatalf("%q became %q and %q", packed, text, rest)
			}
			packed = rest
		}
	})
}

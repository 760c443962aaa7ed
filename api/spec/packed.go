package spec

import (
	"encoding/binary"
	"errors"
)

// PackOp is the op that makes one text of a list of texts: each of them behind its length, a uvarint, without nulls. No
// layout brings lists of texts, so the passes of a fit read them by it. Specs that people write may not name it.
const PackOp = "pack_texts"

// PackText adds a text to those that are packed.
func PackText(packed, text []byte) []byte {
	return append(binary.AppendUvarint(packed, uint64(len(text))), text...)
}

// UnpackText takes the first text off those that are packed.
func UnpackText(packed []byte) (text, rest []byte, err error) {
	length, n := binary.Uvarint(packed)
	if n <= 0 || length > uint64(len(packed)-n) {
		return nil, nil, errors.New("packed texts end early")
	}
	end := n + int(length)
	return packed[n:end:end], packed[end:], nil
}

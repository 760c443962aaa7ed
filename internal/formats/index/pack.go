package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// PackBytes is about how many bytes of indexes are packed together; one that is longer is alone.
const PackBytes = 8 << 20

const (
	packMagic = "PSINDEXES1"
	// maxPack bounds a pack.
	maxPack = MaxBytes + PackBytes
	// minIndex is the least that an index has, and minPacked one with its name's length and its own.
	minIndex  = len(magic) + 7 + sha256.Size
	minPacked = minIndex + 2
)

// Packed is a file's index in a pack: the file's name in its directory, the stored form, and where that begins in the
// pack, which Unpack says.
type Packed struct {
	Name  string
	Index []byte
	At    int64
}

// Pack puts the indexes of several files of one directory together, in the order of their names.
func Pack(of []Packed) []byte {
	of = slices.SortedFunc(slices.Values(of), func(a, b Packed) int { return strings.Compare(a.Name, b.Name) })
	out := binary.AppendUvarint([]byte(packMagic), uint64(len(of)))
	for _, p := range of {
		out = appendText(out, p.Name)
		out = append(binary.AppendUvarint(out, uint64(len(p.Index))), p.Index...)
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

// PackName is the name of a pack's file, which is that of its bytes: packs are never written over.
func PackName(pack []byte) string {
	sum := sha256.Sum256(pack)
	return hex.EncodeToString(sum[:8]) + PackEnding
}

// PackEnding is that of packs' names.
const PackEnding = ".indexes"

var errPack = errors.New("it is no pack of indexes, or was cut off or changed: its digest is not that of its bytes")

// Unpack reads a pack. The indexes are not looked at: Parse does that.
func Unpack(data []byte) ([]Packed, error) {
	body := len(data) - sha256.Size
	if len(data) > maxPack || body < len(packMagic) || string(data[:len(packMagic)]) != packMagic {
		return nil, errPack
	}
	if sum := sha256.Sum256(data[:body]); !bytes.Equal(sum[:], data[body:]) {
		return nil, errPack
	}
	r := &reader{left: data[len(packMagic):body:body]}
	n := r.number()
	if r.failed || n > uint64(len(r.left)/minPacked) {
		return nil, errPack
	}
	out := make([]Packed, 0, n)
	for range n {
		name := r.text()
		size := r.number()
		if r.failed || size < uint64(minIndex) || size > uint64(len(r.left)) {
			return nil, errPack
		}
		out = append(out, Packed{name, r.left[:size:size], int64(body - len(r.left))})
		r.left = r.left[size:]
	}
	if len(r.left) > 0 {
		return nil, fmt.Errorf("%d bytes stand behind the pack's last index", len(r.left))
	}
	return out, nil
}

package tokens

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/npy"
)

const (
	// maxIndex bounds the bytes of a file that says where documents begin.
	maxIndex = 1 << 30
	// Megatron's index begins with these, the version, the kind of tokens, and how many sequences there are, and one
	// more than documents.
	megatronMagic  = "MMIDIDX\x00\x00"
	megatronHeader = len(megatronMagic) + 8 + 1 + 8 + 8
)

var errCut = errors.New("it is cut off")

// read reads the file that says where documents begin.
func (f *File) read(ctx context.Context, in *format.Input, beside *pb.File) error {
	size := beside.GetSize()
	if size > maxIndex {
		return fmt.Errorf("it has %d bytes; at most %d can be read: divide the tokens into more files", size, maxIndex)
	}
	if err := in.Take(2 * size); err != nil {
		return err
	}
	of := format.Input{Storage: in.Storage, Profile: in.Profile, File: beside}
	data := make([]byte, size)
	if err := of.ReadAt(ctx, data, 0); err != nil {
		return err
	}
	if bytes.HasPrefix(data, []byte(megatronMagic)) {
		return f.megatron(data)
	}
	if !isArray(data) {
		head, err := in.Head(ctx)
		if err != nil {
			return err
		}
		if err := f.guess(data, head); err != nil {
			return err
		}
		return f.offsets(pb.Kind_INT64, data, true)
	}
	a, err := arrayOf(data, size)
	switch {
	case err != nil:
		return err
	case f.kind == pb.Kind_KIND_UNSPECIFIED:
		return errNoKind
	}
	first := make([]byte, spec.Width(a.kind))
	return f.offsets(a.kind, bytes.TrimPrefix(data[a.from:], first), false) // where the first document begins
}

// megatron reads Megatron's index: the lengths of sequences (int32), where each begins (int64), and the number of the
// first sequence of each document, and the end (int64).
func (f *File) megatron(data []byte) error {
	le := binary.LittleEndian
	if len(data) < megatronHeader {
		return errCut
	}
	head := data[len(megatronMagic):]
	kind, ok := map[byte]pb.Kind{
		1: pb.Kind_UINT8, 2: pb.Kind_INT8, 3: pb.Kind_INT16, 4: pb.Kind_INT32, 5: pb.Kind_INT64, 8: pb.Kind_UINT16,
	}[head[8]]
	sequences, documents := le.Uint64(head[9:]), le.Uint64(head[17:])
	switch {
	case le.Uint64(head) != 1:
		return fmt.Errorf("it is of version %d of Megatron's index; version 1 can be read", le.Uint64(head))
	case !ok:
		return fmt.Errorf("its tokens are of kind %d, which no tokens are", head[8])
	case f.kind != pb.Kind_KIND_UNSPECIFIED && f.kind != kind:
		return fmt.Errorf("its tokens are %s, and dataset.format.%s says %s", spec.KindName(kind), optionKind,
			spec.KindName(f.kind))
	case sequences > uint64(len(data))/12 || documents > uint64(len(data))/8 ||
		uint64(len(data)-megatronHeader) < 12*sequences+8*documents:
		return errCut
	}
	f.kind = kind
	data = data[megatronHeader:]
	lengths, begins, firsts := data[:4*sequences], data[4*sequences:12*sequences], data[12*sequences:][:8*documents]
	f.lengths = make([]int32, sequences)
	at := uint64(0)
	for i := range f.lengths {
		f.lengths[i] = int32(le.Uint32(lengths[4*i:]))
		if f.lengths[i] < 0 || le.Uint64(begins[8*i:]) != at {
			return fmt.Errorf("sequence %d does not begin where the one before ends: it is damaged", i)
		}
		at += uint64(f.lengths[i]) * uint64(spec.Width(kind))
	}
	f.firsts = make([]int64, documents)
	for i := range f.firsts {
		f.firsts[i] = int64(le.Uint64(firsts[8*i:]))
		if f.firsts[i] < 0 || f.firsts[i] > int64(sequences) || i > 0 && f.firsts[i] < f.firsts[i-1] {
			return fmt.Errorf("document %d does not begin behind the one before: it is damaged", i)
		}
	}
	if documents > 0 && (f.firsts[0] != 0 || f.firsts[documents-1] != int64(sequences)) {
		return errors.New("its documents are not all of its sequences: it is damaged")
	}
	return nil
}

// offsets reads where documents end, in tokens. The last one may be left out, unless the end is told.
func (f *File) offsets(kind pb.Kind, data []byte, endTold bool) error {
	width := spec.Width(kind)
	if kind != pb.Kind_INT64 && kind != pb.Kind_INT32 && kind != pb.Kind_UINT32 {
		return fmt.Errorf("its offsets are %s; want int64, uint64, int32 or uint32", spec.KindName(kind))
	}
	if len(data)%width != 0 {
		return errCut
	}
	n := len(data) / width
	at := func(i int) int64 {
		if width == 4 {
			return int64(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
	before := int64(0)
	f.lengths = make([]int32, 0, n+1)
	add := func(end int64) error {
		if end < before || end-before > math.MaxInt32 {
			return fmt.Errorf("document %d ends at token %d, and begins at %d: it is damaged", len(f.lengths), end,
				before)
		}
		f.lengths, before = append(f.lengths, int32(end-before)), end
		return nil
	}
	for i := range n {
		if err := add(at(i)); err != nil {
			return err
		}
	}
	total := f.tokens()
	switch {
	case before < total && endTold:
		return fmt.Errorf("its documents have %d tokens, and the file %d of %s: one of them is cut off, or of another "+
			"kind", before, total, spec.KindName(f.kind))
	case before < total:
		return add(total)
	}
	return nil
}

var errNoKind = fmt.Errorf("it does not tell of which kind the tokens are: say it by dataset.format.%s, such as uint16",
	optionKind)

// guess finds out of which kind tokens are, by where the last document ends, as datatrove writes it. Half an index of
// tokens of two bytes tells four: so those of four must look like it, whose ids are less than 2^24.
func (f *File) guess(ends, head []byte) error {
	if f.kind != pb.Kind_KIND_UNSPECIFIED {
		return nil
	}
	switch {
	case len(ends)%8 != 0:
		return errCut
	case len(ends) == 0:
		return errNoKind
	}
	switch tokens := binary.LittleEndian.Uint64(ends[len(ends)-8:]); {
	case tokens == 0 || tokens > uint64(f.size):
		return errNoKind
	case 2*tokens == uint64(f.size):
		f.kind = pb.Kind_UINT16
		return nil
	case 4*tokens != uint64(f.size):
		return errNoKind
	}
	for at := 3; at < len(head); at += 4 {
		if head[at] != 0 {
			return errNoKind
		}
	}
	f.kind = pb.Kind_UINT32
	return nil
}

// array is one of numpy in a file.
type array struct {
	kind pb.Kind
	from int64 // its first value
}

func isArray(head []byte) bool { return npy.Is(head) }

// arrayOf reads the header of an array of one dimension, which has all of a file of so many bytes.
func arrayOf(head []byte, size int64) (a array, err error) {
	h, err := npy.HeaderOf(head)
	switch {
	case err != nil:
		return a, err
	case len(h.Shape) != 1:
		return a, fmt.Errorf("its array has the shape %v; want one dimension", h.Shape)
	case !isToken(h.Kind):
		return a, fmt.Errorf("its numbers are %s; want whole numbers", spec.KindName(h.Kind))
	}
	width, have := int64(spec.Width(h.Kind)), size-int64(h.From)
	if n := h.Shape[0]; n != have/width || have%width != 0 {
		return a, fmt.Errorf("its array has %d numbers of %d bytes, and there are %d bytes: it is cut off or damaged; "+
			"write it again", n, width, have)
	}
	return array{h.Kind, int64(h.From)}, nil
}

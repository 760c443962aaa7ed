// Package index is the stored form of an index: where the extents of a file are that says nothing of them itself. A
// worker makes it (worker/serve), or `penstock index`; the master plans by it. It is a pure function of the file's
// bytes, the format's version and the dataset's options, so two of one file are equal to the byte, and a digest tells
// that. docs/internals/indexes.md describes the bytes.
//
// An index is not trusted: it may have been cut, or made up by somebody. Parse checks what it says in itself, and Open
// that it is one of the file. What it says of records is checked when these are read. An Index is immutable.
package index

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// MaxBytes bounds an index: some 6 million extents, which have 25 TiB.
const MaxBytes = 64 << 20

const (
	magic = "PSINDEX2"
	// maxText bounds names and ETags, and maxHead all that stands in front of the extents, and the digest.
	maxText, maxHead = 4 << 10, 16 << 10
	// minExtent is the least that an extent takes.
	minExtent = 5
)

// Of says what an index is of.
type Of struct {
	Format  string
	Version uint32 // of the format's rule
	Options string // their digest, see Options; "" of none
	Size    int64  // of the file
	ETag    string
}

// For is what the index of a file must be of.
func For(f *pb.File, of format.Scanned, how *pb.Format) Of {
	return Of{of.Format(), of.Version(), Options(of, how), f.GetSize(), f.GetEtag()}
}

// Options is the digest of those options of a dataset that a file's extents may depend on; "" if it gives none.
func Options(of format.Scanned, how *pb.Format) string {
	h := sha256.New()
	given := false
	for _, name := range slices.Sorted(maps.Keys(how.GetOptions())) {
		if !of.Cuts(name) {
			continue
		}
		given = true
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(how.GetOptions()[name]) // it was unmarshalled
		h.Write(append(appendText(nil, name), appendText(nil, string(text))...))
	}
	if !given {
		return ""
	}
	return string(h.Sum(nil))
}

// Index is where the extents of a file are.
type Index struct {
	Of
	data     []byte // the stored form
	extents  []byte // of data
	n        int
	restarts []byte // of data
}

// Bytes is the stored form.
func (x *Index) Bytes() []byte { return x.data }

// Digest is that of all that the index says.
func (x *Index) Digest() []byte { return x.data[len(x.data)-sha256.Size:] }

// Extents is how many there are.
func (x *Index) Extents() int { return x.n }

// Builder makes an index of extents, which come in their order.
type Builder struct {
	of       Of
	extents  []byte
	n        int
	end      int64 // of the last extent's bytes
	restarts restarts
}

// NewBuilder returns the builder of an index.
func NewBuilder(of Of) *Builder { return &Builder{of: of} }

// Add takes an extent.
func (b *Builder) Add(p format.Place) error {
	out := binary.AppendUvarint(b.extents, uint64(p.Rows))
	out = binary.AppendVarint(out, p.Stored.Offset-b.end)
	out = binary.AppendUvarint(out, uint64(p.Stored.Length))
	out = binary.AppendUvarint(out, uint64(p.Skip))
	b.extents = binary.AppendVarint(out, p.Bytes-p.Stored.Length)
	b.end = p.Stored.Offset + p.Stored.Length
	if p.Restart != nil {
		b.restarts.add(b.n, p.Restart)
	}
	if b.n++; b.size() > MaxBytes-maxHead {
		return fmt.Errorf("its index has more than %d bytes: cut the file into several", MaxBytes)
	}
	return nil
}

// size is how many bytes the extents take.
func (b *Builder) size() int { return len(b.extents) + len(b.restarts.data) }

// Index is that of the extents so far.
func (b *Builder) Index() (*Index, error) {
	out := []byte(magic)
	out = appendText(out, b.of.Format)
	out = binary.AppendUvarint(out, uint64(b.of.Version))
	out = appendText(out, b.of.Options)
	out = binary.AppendUvarint(out, uint64(b.of.Size))
	out = appendText(out, b.of.ETag)
	out = binary.AppendUvarint(out, uint64(b.n))
	out = append(out, b.extents...)
	out = binary.AppendUvarint(out, uint64(b.restarts.n))
	out = append(out, b.restarts.data...)
	sum := sha256.Sum256(out)
	return Parse(append(out, sum[:]...))
}

func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// errForm is the error of what is no index, or not all of one.
var errForm = errors.New("it is no index, or was cut off or changed: its digest is not that of its bytes")

// Parse reads the stored form, which the index keeps.
func Parse(data []byte) (*Index, error) {
	body := len(data) - sha256.Size
	if len(data) > MaxBytes || body < len(magic) || string(data[:len(magic)]) != magic {
		return nil, errForm
	}
	if sum := sha256.Sum256(data[:body]); !bytes.Equal(sum[:], data[body:]) {
		return nil, errForm
	}
	r := &reader{left: data[len(magic):body:body]}
	x := &Index{data: data}
	x.Format = r.text()
	x.Version = uint32(min(r.number(), math.MaxUint32))
	x.Options = r.text()
	x.Size = int64(r.number())
	x.ETag = r.text()
	n := r.number()
	if r.failed || n > uint64(len(r.left)/minExtent) {
		return nil, errForm
	}
	x.n, x.extents = int(n), r.left
	if err := x.check(); err != nil {
		return nil, err
	}
	return x, nil
}

// check fails unless the extents leave none of the file out behind the first of them, and are in order, and restarts
// are those of extents.
func (x *Index) check() error {
	r := x.read()
	last := format.Place{}
	for i := range x.n {
		p, ok := r.place()
		switch s := p.Stored; {
		case !ok || p.Rows < 1 || s.Length < 1 || p.Skip < 0 || p.Bytes < 1 ||
			i > 0 && s.Offset <= last.Stored.Offset || s.Offset < 0 || s.Offset > x.Size-s.Length:
			return fmt.Errorf("extent %d of its index cannot be", i)
		case i > 0 && s.Offset > last.Stored.Offset+last.Stored.Length:
			return fmt.Errorf("its index leaves out bytes %d to %d", last.Stored.Offset+last.Stored.Length, s.Offset)
		}
		last = p
	}
	if end := last.Stored.Offset + last.Stored.Length; x.n > 0 && end != x.Size {
		return fmt.Errorf("its index ends at byte %d of %d", end, x.Size)
	}
	x.extents, x.restarts = x.extents[:len(x.extents)-len(r.left)], r.left
	return x.checkRestarts()
}

// Places are the extents.
func (x *Index) Places() []format.Place {
	out := make([]format.Place, x.n)
	r := x.read()
	for i := range out {
		out[i], _ = r.place() // Parse checked them
	}
	for s := x.readRestarts(); s.next(); {
		out[s.extent].Restart = s.restart()
	}
	for i := range out {
		if i > 0 {
			before := &out[i-1]
			before.Shared = before.Stored.Offset + before.Stored.Length - out[i].Stored.Offset
			before.Over, before.Next = out[i].Skip, out[i].Restart
		}
	}
	return out
}

// Open is a file with the extents of its index. It fails if the index is that of another file, or of other options.
func (x *Index) Open(of format.Scanned, want Of) (format.File, error) {
	if err := x.Is(want); err != nil {
		return nil, err
	}
	if int64(x.n) > of.Most() {
		return nil, fmt.Errorf("its index has %d extents, and the file %d at most", x.n, of.Most())
	}
	return of.At(x.Places())
}

// Is fails if the index is of something else.
func (x *Index) Is(want Of) error {
	differs := ""
	switch have := x.Of; {
	case have == want:
		return nil
	case have.Format != want.Format || have.Version != want.Version:
		differs = fmt.Sprintf("%s (version %d), not %s (version %d)", have.Format, have.Version, want.Format,
			want.Version)
	case have.Size != want.Size || have.ETag != want.ETag:
		differs = fmt.Sprintf("a file of %d bytes and ETag %q, not of %d and %q", have.Size, have.ETag, want.Size,
			want.ETag)
	default:
		differs = fmt.Sprintf("other options of the format (digest %.16s, not %.16s)",
			cmp.Or(hex.EncodeToString([]byte(have.Options)), "none"),
			cmp.Or(hex.EncodeToString([]byte(want.Options)), "none"))
	}
	return fmt.Errorf("its index is of %s", differs)
}

func (x *Index) read() *extents { return &extents{reader: reader{left: x.extents}} }

// extents reads extents.
type extents struct {
	reader
	n, rows, end int64
}

func (r *extents) place() (p format.Place, ok bool) {
	p.Index, p.FirstRow = int(r.n), r.rows
	p.Rows = int64(r.number())
	p.Stored.Offset = r.end + r.delta()
	p.Stored.Length = int64(r.number())
	p.Skip = int64(r.number())
	p.Bytes = p.Stored.Length + r.delta()
	r.n, r.rows, r.end = r.n+1, r.rows+p.Rows, p.Stored.Offset+p.Stored.Length
	return p, !r.failed && p.Rows <= math.MaxInt32
}

// reader reads numbers and texts.
type reader struct {
	left   []byte
	failed bool
}

// number reads one that an int64 may have.
func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 || v > math.MaxInt64 {
		r.failed = true
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *reader) delta() int64 {
	v, n := binary.Varint(r.left)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *reader) text() string {
	n := r.number()
	if n > maxText || n > uint64(len(r.left)) {
		r.failed = true
		return ""
	}
	text := string(r.left[:n])
	r.left = r.left[n:]
	return text
}

const (
	// stepBytes is for how many bytes of extents memory is asked at once. Copies is how many there are of them: as they
	// grow, and in the index that is made of them.
	stepBytes, copies = 1 << 20, 4
)

// Scan makes the index of a file, by reading all of it.
func Scan(ctx context.Context, in *format.Input, of format.Scanned) (*Index, error) {
	return Make(in, of, func(found func(format.Place) error) error { return of.Scan(ctx, in, found) })
}

// Make makes the index of a file of what finds its extents.
func Make(
	in *format.Input, of format.Scanned, find func(found func(format.Place) error) error,
) (*Index, error) {
	b := NewBuilder(For(in.File, of, in.How))
	paid := stepBytes
	err := find(func(p format.Place) error {
		if b.size() > paid {
			if err := in.Ask(stepBytes * copies); err != nil {
				return err
			}
			paid += stepBytes
		}
		return b.Add(p)
	})
	if err != nil {
		return nil, err
	}
	return b.Index()
}

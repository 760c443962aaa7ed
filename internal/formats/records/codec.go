package records

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Codec compresses a file as a whole, as members one after the other.
type Codec uint8

// The codecs.
const (
	Plain Codec = iota
	Gzip
	Zstd
)

// String is the codec's name.
func (c Codec) String() string { return [...]string{"plain", "gzip", "zstd"}[c] }

const (
	zstdMagic     = 0xfd2fb528
	skippable     = 0x184d2a50 // to skippable + 15
	skippableMask = 0xfffffff0
	// maxWindow bounds what a frame of zstd may have its reader hold: what --ultra --long=27 takes.
	maxWindow = 128 << 20
	// membersOfExtent is about how many members are told of an extent at most.
	membersOfExtent = 256
)

// codecOf tells a codec by a file's first bytes. Of gzip's header no more is asked: one that is damaged is to fail, not
// to be read as it is.
func codecOf(head []byte) Codec {
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return Gzip
	}
	if len(head) >= 4 {
		if magic := binary.LittleEndian.Uint32(head); magic == zstdMagic || magic&skippableMask == skippable {
			return Zstd
		}
	}
	return Plain
}

// Member is where a part of a file begins that can be decompressed without what is in front of it, from where the
// reader began on.
type Member struct {
	Stored int64 // as it is stored
	Bytes  int64 // decompressed
}

// Unpacked reads a file decompressed, and tells of its members. Close it.
type Unpacked struct {
	codec  Codec
	limits Limits
	take   func(bytes int64) error // for what is more than little; nil: there is enough
	in     *counted
	offset int64 // at which in begins in the file
	gzip   *gzip.Reader
	zstd   *zstd.Decoder
	frame  frame
	window int64 // that was taken for frames

	open    bool // a member is
	bytes   int64
	members []Member // that began, and nobody has passed yet
	told    bool     // members has had one
	last    int64    // where the last one that was told begins, decompressed
	awaited Member
	came    bool // the one that was awaited
}

// NewUnpacked returns the reader of a file from an offset on, where a member begins. Take is asked for memory that is
// not little; nil: there is enough.
func NewUnpacked(
	codec Codec, in io.Reader, offset int64, limits Limits, take func(bytes int64) error,
) *Unpacked {
	u := &Unpacked{codec: codec, limits: limits, take: take}
	u.Reset(in, offset)
	return u
}

// Reset begins another file of the codec, or a member of one, on the memory of the last one.
func (u *Unpacked) Reset(in io.Reader, offset int64) {
	u.offset = offset
	if u.in == nil {
		u.in = newCounted(in)
	} else {
		u.in.reset(in)
	}
	u.open, u.told, u.bytes, u.members = false, false, 0, u.members[:0]
	if u.codec == Plain {
		u.members = append(u.members, Member{})
	}
}

// Close gives up what the reader holds.
func (u *Unpacked) Close() {
	if u.zstd != nil {
		u.zstd.Close()
		u.zstd = nil
	}
}

// Members are those that began in what was read. Those that are closer to each other than a small part of an extent
// are told as one, however many there are.
func (u *Unpacked) Members() []Member { return u.members }

// Await has Came tell whether a member that began in what was read is this one.
func (u *Unpacked) Await(m Member) { u.awaited, u.came = m, false }

// Came reports whether the member that was awaited began.
func (u *Unpacked) Came() bool { return u.came }

// Pass forgets the first members.
func (u *Unpacked) Pass(n int) { u.members = u.members[n:] }

// Read reads.
func (u *Unpacked) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if u.codec == Plain {
		return u.in.Read(p)
	}
	for {
		for !u.open { // what is skippable is no member
			if err := u.begin(); err != nil {
				return 0, err
			}
		}
		var n int
		var err error
		if u.codec == Gzip {
			n, err = u.gzip.Read(p)
		} else {
			n, err = u.zstd.Read(p)
		}
		u.bytes += int64(n)
		if errors.Is(err, io.EOF) {
			u.open, err = false, nil
			if u.codec == Zstd {
				err = u.frame.drained()
			}
		}
		if err != nil {
			return n, fmt.Errorf("%s, after %d bytes of the file: %w", u.codec, u.offset+u.in.at(), err)
		}
		// The ratio is that of the file from its front on: so who reads it from a member on refuses nothing that its
		// scan took.
		stored := u.offset + u.in.at()
		if r := u.limits.Ratio; r > 0 && u.bytes > ratioFromBytes && u.bytes/r > stored {
			return 0, fmt.Errorf("%s: %d bytes of the file decompress to more than %d: if it is to be trusted, raise "+
				"dataset.format.%s above %d", u.codec, stored, u.bytes, optionRatio, r)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// begin begins a member; io.EOF: there is none.
func (u *Unpacked) begin() error {
	at := u.in.at()
	begun, err := u.beginMember()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("%s, at byte %d of the file: %w", u.codec, u.offset+at, err)
	}
	if begun {
		u.open = true
		u.came = u.came || u.awaited == Member{at, u.bytes}
		if !u.told || u.bytes-u.last > u.limits.Extent/membersOfExtent {
			u.told, u.last = true, u.bytes
			u.members = append(u.members, Member{at, u.bytes})
		}
	}
	return nil
}

func (u *Unpacked) beginMember() (begun bool, err error) {
	if u.codec == Zstd {
		return u.beginFrame()
	}
	if err := u.in.passZeros(); err != nil { // padding, as on tapes
		return false, err
	}
	if _, err := u.in.Peek(1); err != nil {
		return false, err
	}
	if u.gzip == nil {
		u.gzip, err = gzip.NewReader(u.in.Reader)
	} else {
		err = u.gzip.Reset(u.in.Reader)
	}
	if err != nil {
		return false, unexpected(err)
	}
	u.gzip.Multistream(false)
	return true, nil
}

func (u *Unpacked) beginFrame() (begun bool, err error) {
	magic, err := u.in.Peek(4)
	if len(magic) == 0 {
		return false, err
	}
	if len(magic) < 4 {
		return false, io.ErrUnexpectedEOF
	}
	if m := binary.LittleEndian.Uint32(magic); m&skippableMask == skippable {
		var head [8]byte
		if _, err := io.ReadFull(u.in, head[:]); err != nil {
			return false, unexpected(err)
		}
		n := int64(binary.LittleEndian.Uint32(head[4:]))
		if skipped, _ := io.CopyN(io.Discard, u.in, n); skipped < n {
			return false, io.ErrUnexpectedEOF
		}
		return false, nil
	}
	u.frame = frame{in: u.in, hold: u.hold}
	if u.zstd == nil {
		u.zstd, err = zstd.NewReader(&u.frame, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(1<<62))
	} else {
		err = u.zstd.Reset(&u.frame)
	}
	return err == nil, err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// hold asks for the memory of a frame's window, if it is not little, and more than the last one's.
func (u *Unpacked) hold(window int64) error {
	if more := window - max(u.window, heldUnpacked); u.take != nil && more > 0 && window <= maxWindow {
		if err := u.take(more); err != nil {
			return err
		}
		u.window = window
	}
	return nil
}

// counted counts what is taken of a file. That it is a *bufio.Reader is what keeps gzip's reader from taking more than
// it needs, and fast.
type counted struct {
	*bufio.Reader
	from *counter
}

type counter struct {
	in io.Reader
	n  int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

func newCounted(in io.Reader) *counted {
	from := &counter{in: in}
	return &counted{bufio.NewReaderSize(from, 1<<16), from}
}

func (c *counted) reset(in io.Reader) {
	*c.from = counter{in: in}
	c.Reset(c.from)
}

// at is how many bytes were taken.
func (c *counted) at() int64 { return c.from.n - int64(c.Buffered()) }

// passZeros passes over zeros; io.EOF: there is nothing else.
func (c *counted) passZeros() error {
	for {
		b, err := c.Peek(1)
		if err != nil || b[0] != 0 {
			return err
		}
		if _, err := c.ReadByte(); err != nil {
			return err
		}
	}
}

// frame gives the bytes of one frame of zstd, whose blocks say how long they are, and no more.
// https://datatracker.ietf.org/doc/html/rfc8878#section-3.1.1
type frame struct {
	in    *counted
	hold  func(window int64) error
	ahead []byte // that were looked at, and are given next
	left  int64  // bytes of the block behind these
	sum   bool   // a checksum follows the last block
	begun bool
	last  bool // the block is the last one
	ended bool
}

var errFrame = errors.New("a frame goes on behind its last block: the file is damaged")

// drained fails if the decoder did not take all of the frame.
func (f *frame) drained() error {
	n, err := f.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errFrame
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// Read reads.
func (f *frame) Read(p []byte) (int, error) {
	for len(f.ahead) == 0 && f.left == 0 {
		if f.ended {
			return 0, io.EOF
		}
		if err := f.next(); err != nil {
			return 0, unexpected(err)
		}
	}
	if len(f.ahead) > 0 {
		n := copy(p, f.ahead)
		f.ahead = f.ahead[n:]
		return n, nil
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, unexpected(err)
}

// next reads the frame's header, that of a block, or the checksum.
func (f *frame) next() error {
	switch {
	case !f.begun:
		return f.header()
	case f.last:
		f.ended = true
		if f.sum {
			f.left = 4
		}
		return nil
	}
	head := make([]byte, 3)
	if _, err := io.ReadFull(f.in, head); err != nil {
		return err
	}
	word := uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16
	f.ahead, f.last, f.left = head, word&1 != 0, int64(word>>3)
	if kind := word >> 1 & 3; kind == 1 { // one byte that is repeated
		f.left = 1
	}
	return nil
}

func (f *frame) header() error {
	head := make([]byte, 5, 18)
	if _, err := io.ReadFull(f.in, head); err != nil {
		return err
	}
	flags := head[4]
	single := flags>>5&1 != 0
	n := []int{0, 1, 2, 4}[flags&3] // of the dictionary's id
	if !single {
		n++
	}
	switch size := flags >> 6; {
	case size > 0:
		n += 1 << size
	case single:
		n++
	}
	head = head[:5+n]
	if _, err := io.ReadFull(f.in, head[5:]); err != nil {
		return err
	}
	f.begun, f.ahead, f.sum = true, head, flags>>2&1 != 0
	if single { // the window is all of it
		return f.hold(contentSize(head[5:], flags))
	}
	exponent, eighths := head[5]>>3, int64(head[5]&7) //nolint:gosec // it has the window's byte if it is not single
	return f.hold(1<<(10+exponent) + 1<<(7+exponent)*eighths)
}

// contentSize is what a frame of a single segment says behind the dictionary's id of how long it is, decompressed.
func contentSize(fields []byte, flags byte) int64 {
	var size [8]byte
	copy(size[:], fields[[]int{0, 1, 2, 4}[flags&3]:])
	n := binary.LittleEndian.Uint64(size[:])
	if flags>>6 == 1 {
		n += 256
	}
	return int64(min(n, maxWindow+1))
}

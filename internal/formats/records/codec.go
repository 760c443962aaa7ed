package records

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/penstock-ml/penstock/internal/formats/format"
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
	// endsOfSpacing is about how many blocks are told between two restarts.
	endsOfSpacing = 64
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

// Border is where a file that is compressed can be cut, from where the reader began on: a member or frame begins there,
// or a block inside a member of gzip.
type Border struct {
	Stored int64 // as it is stored
	Bytes  int64 // decompressed
	// Restart is what it takes to begin with a block; nil: a member begins, or one only ends there what is read.
	Restart *format.Restart

	back int // how many borders in front of it there is one to begin with
}

// end is up to where what is in front of the border is read.
func (b Border) end() int64 {
	if b.Restart != nil || b.back > 0 {
		return b.Stored + behindBlock
	}
	return b.Stored
}

// Unpacked reads a file decompressed, and tells of its borders. Close it.
type Unpacked struct {
	codec  Codec
	limits Limits
	take   func(bytes int64) error // for what is more than little; nil: there is enough
	in     *counted
	offset int64 // at which in begins in the file
	gzip   member
	zstd   *zstd.Decoder
	frame  frame
	window int64 // that was taken for frames

	open    bool // a member is
	bytes   int64
	borders []Border // that came, and nobody has passed yet
	told    bool     // borders has had one
	last    int64    // where the last member that was told begins, decompressed

	spacing int64 // of restarts that are told; 0: blocks are not
	begun   int64 // where the last border that was told to begin with lies, as stored
	tellAt  int64 // from where on another block is told, as stored

	part    format.Place // that is read; its length is 0 if it is all of the file
	inside  bool         // what is read may end inside a member
	cut     bool         // it does
	awaited Border
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
	u.open, u.told, u.bytes, u.borders = false, false, 0, u.borders[:0]
	u.part, u.inside, u.cut, u.came = format.Place{}, false, false, false
	if u.codec == Plain {
		u.borders = append(u.borders, Border{})
	}
}

// restarts has blocks of gzip be told, too: some to begin with, if so many stored bytes are behind the last border of
// that kind, and between these some to end at.
func (u *Unpacked) restarts(spacing int64) {
	if u.codec == Gzip {
		u.spacing = spacing
	}
}

// Part says which extent it is that is read, and whether it is the last one, before anything is read.
func (u *Unpacked) Part(p format.Place, last bool) {
	u.part, u.inside = p, !last && u.codec == Gzip && u.limits.Spacing > 0
	u.awaited = Border{Stored: p.Stored.Length - p.Shared, Bytes: p.Skip + p.Bytes - p.Over, Restart: p.Next}
}

// GoesOn reports whether the part ended where its place says: the border came with which the next extent begins.
// AtEnd says that nothing is left to be read.
func (u *Unpacked) GoesOn(atEnd bool) bool {
	if u.part.Next == nil && u.part.Shared == 0 {
		return atEnd && !u.cut
	}
	return u.came
}

// Close gives up what the reader holds.
func (u *Unpacked) Close() {
	if u.zstd != nil {
		u.zstd.Close()
		u.zstd = nil
	}
}

// Borders are those in what was read. Members that are closer to each other than a small part of an extent are told as
// one, however many there are.
func (u *Unpacked) Borders() []Border { return u.borders }

// Pass forgets the first borders. Of those that are left the first must be one to begin with.
func (u *Unpacked) Pass(n int) { u.borders = u.borders[n:] }

// Read reads.
func (u *Unpacked) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if u.codec == Plain {
		return u.in.Read(p)
	}
	if u.cut {
		return 0, io.EOF
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
		switch {
		case errors.Is(err, io.EOF):
			u.open, err = false, nil
			if u.codec == Zstd {
				err = u.frame.drained()
			}
		case u.inside && errors.Is(err, io.ErrUnexpectedEOF):
			u.cut, err = true, io.EOF
		}
		if u.cut {
			return n, err
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
		u.came = u.came || u.awaited.Restart == nil && u.awaited.Stored == at && u.awaited.Bytes == u.bytes
		if !u.told || u.bytes-u.last > u.limits.Extent/membersOfExtent {
			u.told, u.last = true, u.bytes
			u.tell(Border{Stored: at, Bytes: u.bytes})
		}
	}
	return nil
}

// tell adds a border.
func (u *Unpacked) tell(b Border) {
	if b.back == 0 {
		u.begun = b.Stored
	}
	u.tellAt = b.Stored + u.spacing/endsOfSpacing
	u.borders = append(u.borders, b)
}

// block sees where a block begins.
func (u *Unpacked) block(b block) {
	at := Border{Stored: b.stored, Bytes: u.bytes + b.ahead}
	if w := u.awaited; w.Restart != nil && !u.came && w.Stored == at.Stored && w.Bytes == at.Bytes {
		u.came = w.Restart.Is(b.restart())
	}
	switch {
	case u.spacing == 0:
	case at.Stored-u.begun >= u.spacing:
		at.Restart = b.restart()
		u.tell(at)
	case at.Stored >= u.tellAt:
		at.back = 1
		if n := len(u.borders); n > 0 {
			at.back += u.borders[n-1].back
		}
		u.tell(at)
	}
}

// blocks is who is told of blocks; nil: nobody needs to know.
func (u *Unpacked) blocks() func(block) {
	if u.spacing > 0 || u.part.Next != nil {
		return u.block
	}
	return nil
}

func (u *Unpacked) beginMember() (begun bool, err error) {
	if u.codec == Zstd {
		return u.beginFrame()
	}
	if r := u.part.Restart; r != nil && u.in.at() == 0 {
		u.gzip.resume(u.in, r, u.blocks())
		return true, nil
	}
	if err := u.in.passZeros(); err != nil { // padding, as on tapes
		return false, err
	}
	if _, err := u.in.Peek(1); err != nil {
		return false, err
	}
	if err := u.gzip.open(u.in, u.blocks()); err != nil {
		return false, unexpected(err)
	}
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

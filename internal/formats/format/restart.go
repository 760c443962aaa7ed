package format

import (
	"crypto/sha256"

	"github.com/penstock-ml/penstock/api/pb"
)

// MaxWindow is how many bytes a restart's window has at most: no block of deflate refers to what is further back.
const MaxWindow = 32 << 10

// Restart is what it takes to decompress a member of gzip from a block in its middle on.
type Restart struct {
	Bit    uint8             // of the first stored byte, at which the block begins
	CRC    uint32            // of what the member has in front of the block, decompressed
	Size   int64             // of that
	Window []byte            // its last MaxWindow bytes, or all that there are; nil: only their sum is known
	Sum    [sha256.Size]byte // of Window
}

// NewRestart returns a restart with the sum of its window, which it keeps.
func NewRestart(bit uint8, crc uint32, size int64, window []byte) *Restart {
	return &Restart{bit, crc, size, window, sha256.Sum256(window)}
}

// Is reports whether both are the same; nil is none.
func (r *Restart) Is(other *Restart) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Bit == other.Bit && r.CRC == other.CRC && r.Size == other.Size && r.Sum == other.Sum
}

// May reports whether it may be a restart, and the window that of as many bytes.
func (r *Restart) May() bool {
	return r.Bit < 8 && r.Size >= 0 && int64(len(r.Window)) == min(r.Size, MaxWindow)
}

// proto is what a ticket says of it, where an extent begins with it.
func (r *Restart) proto() *pb.Restart {
	if r == nil {
		return nil
	}
	return &pb.Restart{Bit: uint32(r.Bit), Crc: r.CRC, Size: r.Size, Window: r.Window}
}

// sum is what a ticket says of it, where the next extent begins with it.
func (r *Restart) sum() *pb.Restart {
	if r == nil {
		return nil
	}
	return &pb.Restart{Bit: uint32(r.Bit), Crc: r.CRC, Size: r.Size, Sum: r.Sum[:]}
}

// restartOf is what a ticket says of where an extent begins.
func restartOf(r *pb.Restart) *Restart {
	if r == nil {
		return nil
	}
	return NewRestart(uint8(min(r.GetBit(), 8)), r.GetCrc(), r.GetSize(), r.GetWindow()) // 8 is none, as May says
}

// nextOf is what it says of where the next one begins.
func nextOf(r *pb.Restart) *Restart {
	if r == nil {
		return nil
	}
	of := &Restart{Bit: uint8(min(r.GetBit(), 8)), CRC: r.GetCrc(), Size: r.GetSize()}
	copy(of.Sum[:], r.GetSum())
	return of
}

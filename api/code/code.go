// Package code says how the bytes of a session's Python functions travel: in parts, named by their SHA-256, from the
// trainer that opens a session to the master, and from any of its trainers to a worker that lacks them. Who lacks them
// answers Needed; who has them sends Parts, and asks again. It is used by all of them, and knows no network.
package code

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"iter"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// PartBytes is what each part has, but for the last.
	PartBytes = 1 << 20
	// MaxBytes bounds the bytes of a session's code.
	MaxBytes = 16 << 20
	// maxIdentity bounds what identifies it, in bytes: each ticket has that.
	maxIdentity = 64 << 10
)

// Of describes bytes.
func Of(data []byte, identity *pb.Code) *pb.StoredCode {
	sum := sha256.Sum256(data)
	return &pb.StoredCode{Sha256: sum[:], Size: int64(len(data)), Identity: identity}
}

// Count is how many parts bytes have.
func Count(size int64) int { return int((size + PartBytes - 1) / PartBytes) }

// Parts are those of the bytes that c describes.
func Parts(c *pb.StoredCode, data []byte) iter.Seq[*pb.CodePart] {
	return func(yield func(*pb.CodePart) bool) {
		for offset := 0; offset < len(data); offset += PartBytes {
			part := &pb.CodePart{
				Sha256: c.GetSha256(), Size: c.GetSize(), Offset: int64(offset),
				Data: data[offset:min(offset+PartBytes, len(data))],
			}
			if !yield(part) {
				return
			}
		}
	}
}

// Check refuses what cannot describe a session's code.
func Check(c *pb.StoredCode) error {
	if err := check(c.GetSha256(), c.GetSize()); err != nil {
		return err
	}
	return CheckIdentity(c.GetIdentity())
}

// CheckIdentity refuses what cannot identify a session's code.
func CheckIdentity(c *pb.Code) error {
	switch n := proto.Size(c); {
	case len(c.GetDigest()) != sha256.Size:
		return fmt.Errorf("the code's identity has a digest of %d bytes; want %d", len(c.GetDigest()), sha256.Size)
	case n > maxIdentity:
		return fmt.Errorf("the code's identity has %d bytes; it may have %d: have the functions import less", n,
			maxIdentity)
	}
	return nil
}

func check(sum []byte, size int64) error {
	switch {
	case len(sum) != sha256.Size:
		return fmt.Errorf("the code's SHA-256 has %d bytes; want %d", len(sum), sha256.Size)
	case size < 1 || size > MaxBytes:
		return fmt.Errorf("the code has %d bytes; want 1 to %d: keep what is large, such as a model's weights, in "+
			"files that the function reads", size, MaxBytes)
	}
	return nil
}

// CheckPart refuses what cannot be a part.
func CheckPart(p *pb.CodePart) error {
	if err := check(p.GetSha256(), p.GetSize()); err != nil {
		return err
	}
	offset, n := p.GetOffset(), int64(len(p.GetData()))
	if offset < 0 || offset%PartBytes != 0 || offset >= p.GetSize() || n != min(PartBytes, p.GetSize()-offset) {
		return fmt.Errorf("a part of %d bytes at %d is none of code of %d bytes, in parts of %d", n, offset,
			p.GetSize(), PartBytes)
	}
	return nil
}

// CheckWhole refuses bytes that are not those which c describes.
func CheckWhole(c *pb.StoredCode, data []byte) error {
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], c.GetSha256()) {
		return fmt.Errorf("the code's bytes have SHA-256 %x; want %x", sum, c.GetSha256())
	}
	return nil
}

// Needed is the answer, in words, of who lacks the bytes of a SHA-256.
func Needed(sum []byte, words string) error {
	st := status.New(codes.FailedPrecondition, words)
	if with, err := st.WithDetails(&pb.NeedCode{Sha256: sum}); err == nil {
		st = with
	}
	return st.Err()
}

// Need is the SHA-256 of the bytes that an answer asks for, nil if it asks for none.
func Need(err error) []byte {
	if err == nil {
		return nil
	}
	for _, d := range status.Convert(err).Details() {
		if n, ok := d.(*pb.NeedCode); ok {
			return n.GetSha256()
		}
	}
	return nil
}

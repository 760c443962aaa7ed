package spec

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"google.golang.org/protobuf/proto"
)

// Marshal serialises a program; equal programs give equal bytes. These bytes travel as they are: what receives
// them checks their digest before it reads them.
func Marshal(p *pb.Program) ([]byte, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("serialise program: %w", err)
	}
	return data, nil
}

// Digest is the digest by which tickets name the program: ticket.Digest of what Marshal returns.
func Digest(p *pb.Program) (string, error) {
	data, err := Marshal(p)
	if err != nil {
		return "", err
	}
	return ticket.Digest(data), nil
}

package spec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
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

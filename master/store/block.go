package store

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// maxPartBytes leaves room in a transaction for head and ranks beside a block's first part.
	maxPartBytes = 1 << 19
	// maxParts bounds a block in etcd to 64 MiB, maxBlockBytes in memory.
	maxParts      = 128
	maxBlockBytes = 1 << 30
)

// encodeBlock compresses a block, whose shards repeat their files' names, and cuts it into parts.
func (s *Store) encodeBlock(b *pb.Block) ([][]byte, error) {
	raw, err := proto.Marshal(b)
	if err != nil {
		return nil, err
	}
	data := s.encoder.EncodeAll(raw, nil)
	n := (len(data) + maxPartBytes - 1) / maxPartBytes
	if n > maxParts || len(raw) > maxBlockBytes {
		return nil, fmt.Errorf("%w: %d shards in %d bytes; plan smaller blocks", ErrTooLarge, len(b.GetShards()),
			len(data))
	}
	parts := make([][]byte, n)
	for i := range parts {
		p := &pb.BlockPart{Zstd: data[i*maxPartBytes : min(len(data), (i+1)*maxPartBytes)]}
		if i == 0 {
			p.Parts = uint32(n)
		}
		if parts[i], err = proto.Marshal(p); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// decodeBlock reads the parts of a block in order. More than the block has are left from a Commit that failed.
func (s *Store) decodeBlock(parts []*pb.BlockPart) (*pb.Block, error) {
	n := int(parts[0].GetParts())
	if n == 0 || n > len(parts) {
		return nil, fmt.Errorf("%d parts of %d", len(parts), n)
	}
	var data []byte
	for _, p := range parts[:n] {
		data = append(data, p.GetZstd()...)
	}
	raw, err := s.decoder.DecodeAll(data, nil)
	if err != nil {
		return nil, err
	}
	b := &pb.Block{}
	if err := proto.Unmarshal(raw, b); err != nil {
		return nil, errors.Join(errors.New("its parts do not fit together"), err)
	}
	return b, nil
}

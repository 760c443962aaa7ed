package store

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/etcd/api/v3/mvccpb"
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

// codec turns what is large or repeats itself into values of keys, and back: compressed messages.
type codec struct {
	// Both are used through their stateless EncodeAll and DecodeAll only.
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newCodec() (codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
	if err != nil {
		return codec{}, fmt.Errorf("store: zstd: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlockBytes))
	if err != nil {
		return codec{}, fmt.Errorf("store: zstd: %w", err)
	}
	return codec{encoder, decoder}, nil
}

// encodeBlock compresses a block, whose shards repeat their files' names, and cuts it into parts.
func (c *codec) encodeBlock(b *pb.Block) ([][]byte, error) {
	raw, err := proto.Marshal(b)
	if err != nil {
		return nil, err
	}
	data := c.encoder.EncodeAll(raw, nil)
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
func (c *codec) decodeBlock(parts []*pb.BlockPart) (*pb.Block, error) {
	n := int(parts[0].GetParts())
	if n == 0 || n > len(parts) {
		return nil, fmt.Errorf("%d parts of %d", len(parts), n)
	}
	var data []byte
	for _, p := range parts[:n] {
		data = append(data, p.GetZstd()...)
	}
	raw, err := c.decoder.DecodeAll(data, nil)
	if err != nil {
		return nil, err
	}
	b := &pb.Block{}
	if err := proto.Unmarshal(raw, b); err != nil {
		return nil, errors.Join(errors.New("its parts do not fit together"), err)
	}
	return b, nil
}

// encodeMeta compresses a meta: the program of ten thousand features, which repeats itself, would not fit into a
// transaction.
func (c *codec) encodeMeta(m *pb.SessionMeta) ([]byte, error) {
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return c.encoder.EncodeAll(raw, nil), nil
}

func (c *codec) decodeMeta(kv *mvccpb.KeyValue) (*pb.SessionMeta, error) {
	raw, err := c.decoder.DecodeAll(kv.Value, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", ErrCorrupt, kv.Key, err)
	}
	m := &pb.SessionMeta{}
	if err := proto.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", ErrCorrupt, kv.Key, err)
	}
	return m, nil
}

func (c *codec) decodeClosed(name Name, kv *mvccpb.KeyValue) (*Closed, error) {
	raw, err := c.decoder.DecodeAll(kv.Value, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", ErrCorrupt, kv.Key, err)
	}
	closed := &Closed{Name: name, ClosedSession: &pb.ClosedSession{}, revision: kv.ModRevision}
	if err := proto.Unmarshal(raw, closed.ClosedSession); err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", ErrCorrupt, kv.Key, err)
	}
	return closed, nil
}

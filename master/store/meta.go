package store

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// encodeMeta compresses a meta: the program of ten thousand features, which repeats itself, would not fit into a
// transaction.
func (s *Store) encodeMeta(m *pb.SessionMeta) ([]byte, error) {
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return s.encoder.EncodeAll(raw, nil), nil
}

func (s *Store) decodeMeta(kv *mvccpb.KeyValue) (*pb.SessionMeta, error) {
	raw, err := s.decoder.DecodeAll(kv.Value, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", ErrCorrupt, kv.Key, err)
	}
	m := &pb.SessionMeta{}
	if err := proto.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%w: key %q: %w", ErrCorrupt, kv.Key, err)
	}
	return m, nil
}

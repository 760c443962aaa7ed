package store

import (
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/penstock-ml/penstock/api/pb"
)

// Whatever lies in etcd, it is read or refused.
func FuzzReadSession(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	s := &Store{codec: c}
	defer s.decoder.Close()
	parts, err := s.encodeBlock(block(0, 0, 3))
	if err != nil {
		f.Fatal(err)
	}
	meta, err := s.encodeMeta(&pb.SessionMeta{ListingPages: 0})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(partKey(BlockID{}, 0), parts[0], keyMeta, meta)
	f.Add(pageKey(0), []byte{}, rankKey(3), []byte{})
	f.Add(partKey(BlockID{}, 1), parts[0], keyHead, []byte{})
	f.Add(dirFoot, []byte{}, dirRank, []byte{})
	f.Fuzz(func(t *testing.T, key1 string, value1 []byte, key2 string, value2 []byte) {
		session := &Session{Head: &pb.SessionHead{}, Ranks: map[uint32]*pb.SessionRank{}, revisions: map[string]int64{}}
		r := reader{store: s, session: session}
		for key, value := range map[string][]byte{key1: value1, key2: value2} {
			if err := r.key(key, &mvccpb.KeyValue{Key: []byte(key), Value: value}); err != nil {
				return
			}
		}
		if err := r.finish(); err == nil && session.Meta == nil {
			t.Error("a session without a meta")
		}
	})
}

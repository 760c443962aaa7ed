package store

import (
	"bytes"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestIndexes: what is put is read, under its name alone. All together are bounded, and those used longest ago go.
func TestIndexes(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	get := func(name byte) []byte {
		t.Helper()
		data, err := s.Index(ctx, l, IndexName{name})
		check(t, err)
		return data
	}
	put := func(name byte, size int) {
		t.Helper()
		check(t, s.PutIndex(ctx, l, IndexName{name}, bytes.Repeat([]byte{name}, size)))
	}
	if data := get(1); data != nil {
		t.Errorf("at first there is an index of %d bytes", len(data))
	}
	put(1, 10)
	put(1, 20) // of another version: it takes the other's place
	put(2, 10)
	if data := get(1); !bytes.Equal(data, bytes.Repeat([]byte{1}, 20)) {
		t.Errorf("read %x", data)
	}
	if err := s.PutIndex(ctx, l, IndexName{3}, make([]byte, MaxIndex+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("what is too long is taken: %v", err)
	}
	const many = maxIndexBytes/MaxIndex + 1
	for i := range many - 2 {
		put(byte(10+i), MaxIndex)
	}
	put(1, 20) // it is used
	for i := range 2 {
		put(byte(200+i), MaxIndex)
	}
	if get(2) != nil || get(10) != nil || get(1) == nil || get(11) == nil || get(201) == nil {
		t.Error("not the index goes that was used longest ago")
	}
	resp, err := s.client.Get(ctx, s.keys.indexes(), clientv3.WithPrefix())
	check(t, err)
	total := 0
	for _, kv := range resp.Kvs {
		total += len(kv.Value)
	}
	if total > maxIndexBytes || len(resp.Kvs) != many {
		t.Errorf("%d indexes of %d bytes are kept", len(resp.Kvs), total)
	}
}

// TestTheLeaderKnowsIndexes: it lists their keys once. What another leader wrote since, a later term knows of.
func TestTheLeaderKnowsIndexes(t *testing.T) {
	e := etcd(t)
	s := open(t, e)
	l := lead(t, s)
	check(t, s.PutIndex(t.Context(), l, IndexName{1}, []byte("one")))
	other := s.keys.index(IndexName{2}, 3)
	_, err := s.client.Put(t.Context(), other, "two") // as nobody does who does not lead
	check(t, err)
	if data, err := s.Index(t.Context(), l, IndexName{2}); data != nil || err != nil {
		t.Errorf("the leader lists again: %q, %v", data, err)
	}
	if data, err := s.Index(t.Context(), l, IndexName{1}); string(data) != "one" || err != nil {
		t.Errorf("read %q, %v", data, err)
	}
	later := open(t, e)
	check(t, l.Resign(t.Context()))
	if data, err := later.Index(t.Context(), lead(t, later), IndexName{2}); string(data) != "two" || err != nil {
		t.Errorf("a later leader reads %q, %v", data, err)
	}
}

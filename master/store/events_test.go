package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func someEvents(first, n uint64) []*pb.Event {
	var out []*pb.Event
	for i := range n {
		out = append(out, &pb.Event{
			Number: first + i, UnixMs: 7, Kind: pb.EventKind_WORKER,
			Words: fmt.Sprint("word ", first+i),
		})
	}
	return out
}

func TestEvents(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	read := func() []*pb.Event {
		t.Helper()
		got, err := s.Events(ctx)
		check(t, err)
		return got
	}
	if got := read(); len(got) != 0 {
		t.Fatalf("at first there are %v", got)
	}
	check(t, s.AppendEvents(ctx, l, nil))
	check(t, s.AppendEvents(ctx, l, someEvents(1, 3)))
	equal(t, "the first events", read(), someEvents(1, 3))
	if err := s.AppendEvents(ctx, l, someEvents(1, 4)); !errors.Is(err, ErrConflict) {
		t.Errorf("the same numbers again: %v", err)
	}
	for first := uint64(4); first < 1250; first += 100 {
		check(t, s.AppendEvents(ctx, l, someEvents(first, 100)))
	}
	equal(t, "the newest events", read(), someEvents(1303-KeptEvents+1, KeptEvents))

	if _, err := s.client.Put(ctx, s.keys.event(1303), "\xff"); err != nil {
		t.Fatal(err)
	}
	if got := read(); len(got) != KeptEvents || got[KeptEvents-1].GetNumber() != 1303 ||
		got[KeptEvents-1].GetWords() == "" {
		t.Errorf("with a damaged one: %d events, the last is %v", len(got), got[len(got)-1])
	}
	check(t, l.Resign(context.WithoutCancel(ctx)))
	if err := s.AppendEvents(ctx, l, someEvents(1304, 1)); !errors.Is(err, ErrNotLeader) {
		t.Errorf("who leads no more: %v", err)
	}
}

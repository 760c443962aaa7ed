package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestOutcomes(t *testing.T) {
	e := etcd(t)
	s := open(t, e)
	l := lead(t, s)
	ctx := t.Context()
	create := func(id string) *Session {
		session, err := s.Create(ctx, l, meta(id), files(1))
		check(t, err)
		check(t, s.Commit(ctx, l, session, Writes{Head: head(1), Ranks: map[uint32]*pb.SessionRank{0: rank(1)}}))
		return session
	}
	tests := []struct {
		name    string
		disturb func(id string, session *Session)
		writes  Writes
		want    error
		stale   bool
	}{
		{"the head was changed", func(id string, _ *Session) {
			_, err := s.client.Put(ctx, s.keys.session(NameOf("", id))+keyHead, "")
			check(t, err)
		}, Writes{Head: head(2)}, ErrConflict, true},
		{"another rank was changed", func(id string, _ *Session) {
			_, err := s.client.Put(ctx, s.keys.session(NameOf("", id))+rankKey(1), "")
			check(t, err)
		}, Writes{Head: head(2)}, nil, false},
		{"a rank appeared", func(id string, _ *Session) {
			_, err := s.client.Put(ctx, s.keys.session(NameOf("", id))+rankKey(1), "")
			check(t, err)
		}, Writes{Ranks: map[uint32]*pb.SessionRank{1: rank(1)}}, ErrConflict, true},
		{"a rank disappeared", func(id string, _ *Session) {
			_, err := s.client.Delete(ctx, s.keys.session(NameOf("", id))+rankKey(0))
			check(t, err)
		}, Writes{Ranks: map[uint32]*pb.SessionRank{0: rank(2)}}, ErrConflict, true},
		{"the block exists", func(_ string, session *Session) {
			check(t, s.Commit(ctx, l, session, Writes{Blocks: []*pb.Block{block(0, 0, 1)}}))
		}, Writes{Blocks: []*pb.Block{block(0, 0, 1)}}, ErrConflict, true},
		{"the session was deleted", func(id string, _ *Session) {
			check(t, s.Delete(ctx, l, NameOf("", id)))
		}, Writes{}, ErrNotFound, false},
		{"it was deleted and created again", func(id string, _ *Session) {
			check(t, s.Delete(ctx, l, NameOf("", id)))
			create(id)
		}, Writes{}, ErrConflict, true},
		// What was sent before a Load and arrives after it must not be written, even if it shares no key with
		// what came since.
		{"it was loaded since", func(id string, _ *Session) {
			_, err := s.Load(ctx, l, NameOf("", id))
			check(t, err)
		}, Writes{Ranks: map[uint32]*pb.SessionRank{5: rank(1)}}, ErrConflict, true},
		{"too many writes", nil, Writes{Drop: make([]BlockID, MaxWrites+1)}, ErrTooLarge, false},
		{
			"too many bytes", nil,
			Writes{Head: &pb.SessionHead{Failure: strings.Repeat("x", maxTxnBytes)}},
			ErrTooLarge,
			false,
		},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			id := fmt.Sprintf("run-%d", i)
			session := create(id)
			if test.disturb != nil {
				test.disturb(id, session)
			}
			if err := s.Commit(ctx, l, session, test.writes); !errors.Is(err, test.want) || err != nil &&
				test.want == nil {
				t.Errorf("outcome %v, want %v", err, test.want)
			}
			err := s.Commit(ctx, l, session, Writes{})
			if stale := errors.Is(err, ErrStale); stale != test.stale {
				t.Errorf("the next commit: %v; stale should be %v", err, test.stale)
			}
		})
	}
}

func TestADeposedLeaderWritesNothing(t *testing.T) {
	e := etcd(t)
	a, b := open(t, e), open(t, e)
	ctx := t.Context()
	old := lead(t, a)
	session, err := a.Create(ctx, old, meta("run"), files(1))
	check(t, err)
	// The lease is revoked behind the leader's back, as by its end.
	_, err = b.client.Revoke(ctx, old.session.Lease())
	check(t, err)
	next := lead(t, b)
	writes := map[string]func() error{
		"commit":  func() error { return a.Commit(ctx, old, session, Writes{Head: head(1)}) },
		"confirm": func() error { return a.Commit(ctx, old, session, Writes{}) },
		"block": func() error {
			return a.Commit(ctx, old, session,
				Writes{Blocks: []*pb.Block{block(0, 0, 20_000)}})
		},
		"create":  func() error { _, err := a.Create(ctx, old, meta("other"), files(1)); return err },
		"load":    func() error { _, err := a.Load(ctx, old, "run"); return err },
		"delete":  func() error { return a.Delete(ctx, old, "run") },
		"compact": func() error { return a.Compact(ctx, old) },
	}
	for name, write := range writes {
		if err := write(); !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s: %v, want ErrNotLeader", name, err)
		}
	}
	resp, err := b.client.Get(ctx, b.keys.sessions(), prefix, countOnly)
	check(t, err)
	if resp.Count != 2 { // meta and one listing page
		t.Errorf("%d keys are there, want 2", resp.Count)
	}
	loaded, err := b.Load(ctx, next, "run")
	check(t, err)
	check(t, b.Commit(ctx, next, loaded, Writes{Head: head(2)}))
}

// Every call ends when etcd is gone, with an outcome that says what is known.
func TestEtcdIsGone(t *testing.T) {
	e, err := Embedded(t.Context(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	check(t, err)
	cfg := patient(e)
	cfg.LeaseTTL = 5 * time.Second
	s, err := Open(t.Context(), cfg)
	check(t, err)
	ctx := context.Background()
	l, err := s.Campaign(ctx, "a")
	check(t, err)
	session, err := s.Create(ctx, l, meta("run"), files(1))
	check(t, err)
	check(t, e.Close())

	s.cfg.CallTimeout = 300 * time.Millisecond
	calls := []struct {
		name string
		call func() error
		want error
	}{
		{"commit", func() error { return s.Commit(ctx, l, session, Writes{Head: head(1)}) }, ErrUnknown},
		{"commit again", func() error { return s.Commit(ctx, l, session, Writes{Head: head(1)}) }, ErrStale},
		{"create", func() error { _, err := s.Create(ctx, l, meta("other"), nil); return err }, ErrUnknown},
		{"delete", func() error { return s.Delete(ctx, l, "run") }, ErrUnavailable},
		{"load", func() error { _, err := s.Load(ctx, l, "run"); return err }, ErrUnknown},
		{"take over", func() error { _, err := s.TakeOver(ctx, l); return err }, ErrUnavailable},
		{"leader", func() error { _, err := s.Leader(ctx); return err }, ErrUnavailable},
		{"campaign", func() error { _, err := s.Campaign(ctx, "b"); return err }, ErrUnavailable},
		{"resign", func() error { return l.Resign(ctx) }, ErrUnknown},
		{"open", func() error {
			_, err := Open(ctx, Config{Endpoints: e.Endpoints(), CallTimeout: 300 * time.Millisecond})
			return err
		}, ErrUnavailable},
	}
	for _, c := range calls {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	<-l.Done()
	check(t, s.Close())
}

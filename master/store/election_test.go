package store

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestElectionHandsOver(t *testing.T) {
	e := etcd(t)
	a, b := open(t, e), open(t, e)
	ctx := t.Context()
	if _, err := a.Leader(ctx); !errors.Is(err, ErrNoLeader) {
		t.Errorf("before any campaign: %v", err)
	}
	first, err := a.Campaign(ctx, "a:1")
	check(t, err)
	if leader, err := b.Leader(ctx); err != nil || leader != "a:1" {
		t.Errorf("leader %q, %v", leader, err)
	}
	type result struct {
		lead *Leadership
		err  error
	}
	second := make(chan result)
	go func() {
		l, err := b.Campaign(ctx, "b:1")
		second <- result{l, err}
	}()
	awaitCandidates(t, a, 2)
	select {
	case r := <-second:
		t.Fatalf("two lead: %+v", r)
	default:
	}
	check(t, first.Resign(ctx))
	<-first.Done()
	r := <-second
	check(t, r.err)
	if leader, err := a.Leader(ctx); err != nil || leader != "b:1" || r.lead.revision <= first.revision {
		t.Errorf("leader %q of revision %d after %d, %v", leader, r.lead.revision, first.revision, err)
	}
	check(t, r.lead.Resign(ctx))
	check(t, r.lead.Resign(ctx)) // again does no harm
}

// awaitCandidates waits until n masters stand.
func awaitCandidates(t *testing.T, s *Store, n int) {
	t.Helper()
	for {
		resp, err := s.client.Get(t.Context(), s.keys.elections(), prefix, countOnly)
		check(t, err)
		if resp.Count == int64(n) {
			return
		}
		check(t, s.awaitChange(t.Context(), s.keys.elections(), resp.Header.Revision+1, prefix))
	}
}

func TestCampaignEndsWithItsContext(t *testing.T) {
	e := etcd(t)
	a, b := open(t, e), open(t, e)
	lead(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := b.Campaign(ctx, "b")
		done <- err
	}()
	awaitCandidates(t, a, 2)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled campaign ends with %v", err)
	}
	awaitCandidates(t, a, 1)
}

// A leader that is cut off from etcd loses its lease and learns of it.
func TestLeadershipIsLostWithTheLease(t *testing.T) {
	e := etcd(t)
	b := open(t, e)
	cfg := patient(e)
	cfg.LeaseTTL = 3 * time.Second
	a, err := Open(t.Context(), cfg)
	check(t, err)
	defer func() { check(t, a.Close()) }()
	l, err := a.Campaign(t.Context(), "a")
	check(t, err)
	_, err = b.client.Revoke(t.Context(), l.session.Lease())
	check(t, err)
	select {
	case <-l.Done():
	case <-time.After(time.Minute):
		t.Fatal("the leader does not notice")
	}
	if err := a.Compact(t.Context(), l); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a deposed leader compacts: %v", err)
	}
}

func TestObserve(t *testing.T) {
	e := etcd(t)
	a, b := open(t, e), open(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string)
	done := make(chan error)
	go func() { done <- b.Observe(ctx, func(address string) { seen <- address }) }()
	expect := func(want string) {
		t.Helper()
		if got := <-seen; got != want {
			t.Errorf("observed %q, want %q", got, want)
		}
	}
	expect("")
	first, err := a.Campaign(t.Context(), "one")
	check(t, err)
	expect("one")
	check(t, first.Resign(t.Context()))
	expect("")
	second, err := a.Campaign(t.Context(), "two")
	check(t, err)
	expect("two")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Observe ends with %v", err)
	}
	check(t, second.Resign(t.Context()))
}

func TestCompact(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	before, err := s.client.Get(t.Context(), l.key)
	check(t, err)
	for range 3 {
		_, err := s.client.Put(t.Context(), "k", "v")
		check(t, err)
		check(t, s.Compact(t.Context(), l))
	}
	if _, err := s.client.Get(t.Context(), "k", atRevision(before.Header.Revision)); err == nil {
		t.Error("the history is still there")
	}
	if _, err := s.client.Get(t.Context(), "k", atRevision(before.Header.Revision+3)); err != nil {
		t.Errorf("what came after the last but one Compact is gone: %v", err)
	}
}

package master_test

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net"
	"testing"

	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/store"
)

// newMaster prepares a master that gossips at an address.
func newMaster(t *testing.T, gossip string) (*master.Master, net.Listener) {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Endpoints: etcd(t, "").Endpoints()})
	check(t, err)
	t.Cleanup(func() { check(t, st.Close()) })
	disk, err := storage.New(storage.Config{})
	check(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	m, err := master.New(master.Config{
		Listener: l, Store: st, Storage: disk, Ops: noOps{}, Logger: slog.New(slog.DiscardHandler),
		Fleet:  fleet.Config{Bind: gossip},
		Signer: ticket.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))),
	})
	check(t, err)
	return m, l
}

func TestRunEndsBeforeItBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		m, _ := newMaster(t, "127.0.0.1:0")
		check(t, m.Run(ctx))
	}
}

func TestRunClosesItsListener(t *testing.T) {
	m, l := newMaster(t, "no gossip address")
	if err := m.Run(t.Context()); err == nil {
		t.Fatal("ran without gossip")
	}
	if err := l.Close(); err == nil {
		t.Error("the listener is open still")
	}
}

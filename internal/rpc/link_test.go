package rpc_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

var preface = [4]byte{'L', 'I', 'N', 'K'} //nolint:gochecknoglobals // never changed

// dialLink opens a link.
func dialLink(ctx context.Context, address string, cfg rpc.Config) (net.Conn, error) {
	conn, err := rpc.LinkDialer(cfg)(ctx, address)
	if err == nil {
		_, err = conn.Write(preface[:])
	}
	return conn, err
}

// TestLinks: a port's links are encrypted as its calls are, which go on beside them.
func TestLinks(t *testing.T) {
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	for name, cfg := range map[string]rpc.Config{
		"plain text":   {},
		"TLS":          {Cert: cert, Key: key, CA: authority.CA},
		"certificates": {Cert: cert, Key: key, CA: authority.CA, ClientCA: authority.CA},
		"small window": {StreamWindow: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan net.Conn, 1)
			option, err := rpc.Links(cfg, preface, func(c net.Conn) error { entered <- c; return nil })
			if err != nil {
				t.Fatal(err)
			}
			address := serve(t, "tcp", "127.0.0.1:0", cfg, option)
			link, err := dialLink(t.Context(), address, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer link.Close()
			far := <-entered
			defer far.Close()
			go func() { _, _ = io.WriteString(far, "hello") }() // else the read below fails
			got := make([]byte, 5)
			if err := link.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(link, got); err != nil || string(got) != "hello" {
				t.Errorf("a link brings %q, %v", got, err)
			}
			if err := call(t, address, cfg); err != nil {
				t.Errorf("a call beside a link: %v", err)
			}
		})
	}
}

// TestNoLinkForStrangers: a port that asks for certificates has no link for who shows none.
func TestNoLinkForStrangers(t *testing.T) {
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	cfg := rpc.Config{Cert: cert, Key: key, CA: authority.CA, ClientCA: authority.CA}
	option, err := rpc.Links(cfg, preface, func(net.Conn) error { t.Error("a stranger's link was let in"); return nil })
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, "tcp", "127.0.0.1:0", cfg, option)
	link, err := dialLink(t.Context(), address, rpc.Config{CA: authority.CA})
	if err == nil { // in TLS 1.3 the client's handshake ends first
		_, err = link.Read(make([]byte, 1))
		_ = link.Close()
	}
	if err == nil {
		t.Error("a link without a certificate was let in")
	}
}

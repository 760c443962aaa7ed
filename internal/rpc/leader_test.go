package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// master knows no session, or who leads.
type master struct {
	pb.UnimplementedMasterServer
	leader *string
}

func (m master) GetSession(context.Context, *pb.GetSessionRequest) (*pb.Session, error) {
	if m.leader == nil {
		return nil, status.Error(codes.NotFound, "no such session")
	}
	s, err := status.New(codes.Unavailable, "this one follows").WithDetails(&pb.NotLeader{Leader: *m.leader})
	if err != nil {
		return nil, err
	}
	return nil, s.Err()
}

func serveMaster(t *testing.T, m master) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := rpc.NewServer(rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pb.RegisterMasterServer(s, m)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestAtLeader(t *testing.T) {
	var leader, lost string
	leads := serveMaster(t, master{})
	follower := serveMaster(t, master{leader: &leader})
	astray := serveMaster(t, master{leader: &lost})
	leader, lost = leads, astray
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		masters []string
		calls   int
		says    []string
	}{
		"the leader": {[]string{leads, gone}, 1, []string{"master " + leads + ": no such session"}},
		"whom a follower names": {
			[]string{follower, gone, astray},
			2,
			[]string{"master " + leads + ": no such session"},
		},
		"after one that is gone": {[]string{gone, follower}, 3, []string{"master " + leads + ": no such session"}},
		"nobody leads": {
			[]string{astray, gone, astray},
			2,
			[]string{
				"master " + astray + ": this one follows", "master " + gone + ": ", "refused", rpc.StartMaster,
				"`penstock doctor --master " + astray + "," + gone + "," + astray + "`",
			},
		},
		"nobody to ask": {nil, 0, []string{"--master names no address"}},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := rpc.AtLeader(t.Context(), c.masters, rpc.Config{},
				func(ctx context.Context, m pb.MasterClient) error {
					calls++
					_, err := m.GetSession(ctx, &pb.GetSessionRequest{})
					return err
				})
			if err == nil || calls != c.calls {
				t.Fatalf("%d calls and %v, want %d calls", calls, err, c.calls)
			}
			for _, words := range c.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q does not say %q", err, words)
				}
			}
		})
	}
}

// A leader that gives no answer in time is looked into as one that is not there.
func TestAtLeaderInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err := rpc.AtLeader(ctx, []string{serveMaster(t, master{})}, rpc.Config{},
		func(ctx context.Context, m pb.MasterClient) error {
			_, err := m.GetSession(ctx, &pb.GetSessionRequest{})
			return err
		})
	if !errors.Is(err, rpc.ErrUnavailable) || !strings.Contains(err.Error(), "`penstock doctor --master ") {
		t.Error(err)
	}
}

// Who forgets TLS is told so.
func TestAtLeaderWithoutTLS(t *testing.T) {
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	s, err := rpc.NewServer(rpc.Config{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	at := rpctest.Serve(t, s)
	err = rpc.AtLeader(t.Context(), []string{at}, rpc.Config{}, func(ctx context.Context, m pb.MasterClient) error {
		_, err := m.GetSession(ctx, &pb.GetSessionRequest{})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "set --tls-ca, or --tls") {
		t.Error(err)
	}
}

// The port of another process of the fleet in a master's place says what it is, at once.
func TestPortsOfOthers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := rpc.NewServer(rpc.Config{}) // without a master's service
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- worker.Serve(l) }()
	defer func() {
		worker.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	dashboard := httptest.NewServer(nil)
	defer dashboard.Close()
	for address, want := range map[string]string{
		l.Addr().String():                  "no master's port, but a worker's",
		dashboard.Listener.Addr().String(): "speaks HTTP, as a dashboard's does",
	} {
		err := rpc.AtLeader(t.Context(), []string{address}, rpc.Config{},
			func(ctx context.Context, m pb.MasterClient) error {
				_, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
				return err
			})
		if err == nil || errors.Is(err, rpc.ErrUnavailable) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "7070") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Gossip's port in a master's place says so, with TLS and without.
func TestGossipsPort(t *testing.T) {
	f, err := fleet.New(fleet.Config{
		Self: fleet.Member{Name: "m", Address: "127.0.0.1:1"}, Bind: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, cfg := range []rpc.Config{{}, {TLS: true}} {
		err := rpc.AtLeader(t.Context(), []string{f.Address()}, cfg,
			func(ctx context.Context, m pb.MasterClient) error {
				_, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
				return err
			})
		if err == nil || !strings.Contains(err.Error(),
			"as gossip's does: name a master's --listen address, whose port is 7070") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

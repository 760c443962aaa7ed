package fake

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock-ml/penstock/api/pb"
)

// StreamWindow is the HTTP/2 window of connections in memory.
const StreamWindow = 1 << 16

// Net is a network on which fakes listen under names.
type Net struct {
	t        testing.TB
	loopback bool

	mu        sync.Mutex
	memory    map[string]*bufconn.Listener // who listens, by name
	addresses map[string]string            // of the loopback device, by name
}

// InMemory makes a network without sockets, on which an address is a name.
func InMemory(t testing.TB) *Net {
	return &Net{t: t, memory: make(map[string]*bufconn.Listener)}
}

// Loopback makes a network of TCP sockets. A name keeps its address when it stops to listen, and listens again.
func Loopback(t testing.TB) *Net {
	return &Net{t: t, loopback: true, addresses: make(map[string]string)}
}

// Address is where name listens, or would.
func (n *Net) Address(name string) string {
	if !n.loopback {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addressOf(name)
}

// addressOf is where name listens from its first use on. n.mu is held.
func (n *Net) addressOf(name string) string {
	if address, known := n.addresses[name]; known {
		return address
	}
	address := reserve(n.t)
	n.addresses[name] = address
	return address
}

// reserve finds a port that is free, and keeps it for the test: the system gives a socket's port to nobody, not for
// connections that go out either, and lets only those listen there that share it (reuse).
func reserve(t testing.TB) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	bound, err := syscall.Getsockname(fd)
	at, ok := bound.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatalf("reserve a port: bound to %v: %v", bound, err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
}

// reuse has a listener share a port that is reserved.
func reuse(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, unix.SO_REUSEPORT,
			1)
	})
	return errors.Join(err, set)
}

// Listen makes a listener of name.
func (n *Net) Listen(name string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.loopback {
		l := bufconn.Listen(StreamWindow)
		n.memory[name] = l
		return l
	}
	l, err := (&net.ListenConfig{Control: reuse}).Listen(context.Background(), "tcp", n.addressOf(name))
	if err != nil {
		n.t.Fatalf("%s: %v", name, err)
	}
	return l
}

// Serve starts a server and returns what stops it.
func (n *Net) Serve(name string, register func(*grpc.Server), options ...grpc.ServerOption) (stop func()) {
	l := n.Listen(name)
	srv := grpc.NewServer(append(options, grpc.WaitForHandlers(true))...)
	register(srv)
	var done sync.WaitGroup
	done.Go(func() {
		if err := srv.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			n.t.Errorf("serve %s: %v", name, err)
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			n.mu.Lock()
			if !n.loopback && n.memory[name] == l {
				delete(n.memory, name)
			}
			n.mu.Unlock()
			srv.Stop()
			done.Wait()
		})
	}
	n.t.Cleanup(stop)
	return stop
}

// Dial connects to an address.
func (n *Net) Dial(address string) (*grpc.ClientConn, error) {
	if n.loopback {
		return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(StreamWindow), // or gRPC widens it by itself
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			n.mu.Lock()
			l := n.memory[address]
			n.mu.Unlock()
			if l == nil {
				return nil, status.Errorf(codes.Unavailable, "nobody listens at %s", address)
			}
			return l.DialContext(ctx)
		}))
}

// Workers are the candidates of a ticket, best first.
func (n *Net) Workers(names ...string) []*pb.Worker {
	var out []*pb.Worker
	for _, name := range names {
		out = append(out, &pb.Worker{Name: name, Address: n.Address(name)})
	}
	return out
}

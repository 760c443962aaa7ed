package worker

import (
	"context"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/serve"
)

// Local is the workers of this process, for trainers in it (client.Config.Local): their streams need no network, and
// hand batches over by reference. The zero value is ready for use, by many goroutines.
type Local struct {
	mu      sync.Mutex
	servers map[string]*serve.Server
}

// Stream serves a request as the worker at an address does, if that runs in this process.
func (l *Local) Stream(
	ctx context.Context, address string, r *pb.StreamRequest, to wire.Receiver,
) (here bool, err error) {
	s := l.at(address)
	if s == nil {
		return false, nil
	}
	return true, s.Local(ctx, r, to)
}

// KeepCode has a part of a session's code kept by the worker at an address, if that runs in this process.
func (l *Local) KeepCode(ctx context.Context, address string, p *pb.CodePart) (here bool, err error) {
	s := l.at(address)
	if s == nil {
		return false, nil
	}
	return true, s.KeepCode(ctx, p)
}

func (l *Local) at(address string) *serve.Server {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers[address]
}

// add lists a worker; the function that it returns takes it off the list.
func (l *Local) add(address string, s *serve.Server) (remove func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers == nil {
		l.servers = make(map[string]*serve.Server)
	}
	l.servers[address] = s
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.servers[address] == s { // else another one has the address since
			delete(l.servers, address)
		}
	}
}

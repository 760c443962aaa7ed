package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Proxy stands between a master and its etcd, and lets a test decide what becomes of each transaction and its answer.
// It may be used by many goroutines at once.
type Proxy struct {
	// Endpoint is for a store's configuration.
	Endpoint string

	server *grpc.Server
	target *grpc.ClientConn
	served chan struct{}

	mu  sync.Mutex
	txn Fault
}

// Fault handles a transaction. To forward it is to have etcd commit it; the error, if there is one, is the answer in
// place of etcd's.
type Fault func(forward func() error) error

// ErrLost is the answer to a request that was lost, or whose answer was.
var ErrLost = status.Error(codes.Unavailable, "the connection was lost")

// NewProxy serves in front of an etcd's endpoint until Close.
func NewProxy(ctx context.Context, endpoint string) (*Proxy, error) {
	target, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(endpoint, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		return nil, fmt.Errorf("storetest: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("storetest: %w", err), target.Close())
	}
	p := &Proxy{Endpoint: "http://" + l.Addr().String(), target: target, served: make(chan struct{})}
	p.server = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.handle))
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // until Close
	}()
	return p, nil
}

// OnTxn sets what handles transactions from now on; nil forwards them.
func (p *Proxy) OnTxn(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.txn = f
}

// Close ends all connections.
func (p *Proxy) Close() error {
	p.server.Stop()
	<-p.served
	return p.target.Close()
}

// handle passes one call on.
func (p *Proxy) handle(_ any, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	if method == "/etcdserverpb.KV/Txn" {
		return p.transaction(ctx, method, in)
	}
	out, err := p.target.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if pass(out, in) == nil {
			_ = out.CloseSend()
		}
	}()
	err = pass(in, out)
	if err == nil {
		<-sent
	}
	return err // which ends what is still sent
}

// transaction passes a transaction on as the test wants it.
func (p *Proxy) transaction(ctx context.Context, method string, in grpc.ServerStream) error {
	var request, reply []byte
	if err := in.RecvMsg(&request); err != nil {
		return err
	}
	p.mu.Lock()
	fault := p.txn
	p.mu.Unlock()
	// A request that is under way arrives, though its sender has gone.
	forward := func() error { return p.target.Invoke(context.WithoutCancel(ctx), method, &request, &reply) }
	if fault == nil {
		fault = func(forward func() error) error { return forward() }
	}
	if err := fault(forward); err != nil {
		return err
	}
	return in.SendMsg(&reply)
}

// messages is one side of a call.
type messages interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// pass copies messages until their end.
func pass(to, from messages) error {
	for {
		var m []byte
		err := from.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := to.SendMsg(&m); err != nil {
			return err
		}
	}
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (rawCodec) Name() string { return "proto" }

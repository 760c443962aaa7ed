package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/tap"
)

const (
	scheme = "Bearer "

	// NamespaceHeader names the namespace that a call is about.
	NamespaceHeader = "penstock-namespace"

	doGet    = "/arrow.flight.protocol.FlightService/DoGet"
	doAction = "/arrow.flight.protocol.FlightService/DoAction"
)

// caller sends with each call who makes it: a token, and the namespace that it is about.
type caller struct {
	token     Secret
	namespace string
}

func (c caller) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	out := map[string]string{}
	if call, _ := credentials.RequestInfoFromContext(ctx); call.Method == doGet || call.Method == doAction {
		return out, nil // of a worker: a ticket opens them, and a token is not for it to see
	}
	if !c.token.IsZero() {
		out["authorization"] = scheme + c.token.Reveal()
	}
	if c.namespace != "" {
		out[NamespaceHeader] = c.namespace
	}
	return out, nil
}

// RequireTransportSecurity is false since Dial has already refused a token in clear text beyond this machine.
func (caller) RequireTransportSecurity() bool { return false }

// Call is what the headers of a call say of it.
type Call struct {
	Method    string // "/penstock.v1.Master/Sync"
	Token     string // "" if it bears none
	Namespace string // "" if it names none
}

// Gate lets a call pass, with the context that its handler gets, or refuses it with a status.
type Gate func(context.Context, Call) (context.Context, error)

// Guarded has a server's calls pass a gate by their headers alone: a stranger's message is never read. The gate says
// Welcome to whom it knows. Requests that are under way are bounded from there on.
func Guarded(gate Gate) grpc.ServerOption {
	return grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if s := strangerOf(ctx); s != nil {
			s.door.charge(s, strangeCall)
		}
		ctx, err := gate(ctx, Call{
			Method: info.FullMethodName, Token: BearerToken(info.Header.Get("authorization")),
			Namespace: first(info.Header.Get(NamespaceHeader)),
		})
		if err != nil {
			return nil, err
		}
		return begin(ctx), nil
	})
}

// Unguarded lets calls pass whose messages say more than their headers: who reads them says Welcome.
func Unguarded(ctx context.Context, _ Call) (context.Context, error) { return ctx, nil }

// BearerToken returns the token of authorization headers, "" if there is none.
func BearerToken(headers []string) string {
	for _, v := range headers {
		if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
			return strings.TrimSpace(v[len(scheme):])
		}
	}
	return ""
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const scheme = "Bearer "

// bearer sends a token with each call.
type bearer struct{ token Secret }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": scheme + b.token.Reveal()}, nil
}

// RequireTransportSecurity is false since Dial has already refused a token in clear text beyond this machine.
func (bearer) RequireTransportSecurity() bool { return false }

// gate lets only calls with the token pass, by their headers alone: a stranger's message is never read.
func gate(token Secret) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		if err := authorise(call.Header, token); err != nil {
			return nil, err
		}
		return ctx, nil
	}
}

func authorise(md metadata.MD, token Secret) error {
	shown := md.Get("authorization")
	for _, v := range shown {
		if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) && token.equals(v[len(scheme):]) {
			return nil
		}
	}
	if len(shown) == 0 {
		return status.Error(codes.Unauthenticated, "the call bears no token, and this port asks for one; set --token-file or PENSTOCK_TOKEN_FILE")
	}
	return status.Error(codes.Unauthenticated, "the call's token is not this port's; --token-file (PENSTOCK_TOKEN_FILE) must hold the same on both sides")
}

// Package identity says who calls: master and worker know their callers by it, on gRPC and HTTP ports. What an identity
// may do with a dataset or a session is decided in master/access. Its values are read-only and may be shared.
package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// Role is what a caller may do.
type Role string

// Roles. An admin may do what a trainer may, and a trainer what a viewer may.
const (
	Viewer  Role = "viewer"  // looks at sessions, events and measurements
	Trainer Role = "trainer" // opens sessions and reads them, deletes its own
	Admin   Role = "admin"   // deletes those of others, too
	Worker  Role = "worker"  // reports as a worker
)

// DefaultNamespace is that of callers who name none.
const DefaultNamespace = "default"

// Identity is a caller.
type Identity struct {
	// Namespace is what the call is about; "" of a caller who may see all and named none.
	Namespace string
	// Everywhere: the caller's rights are the same in all namespaces.
	Everywhere bool
	// Subject is the caller's name; "" where nobody is asked who they are.
	Subject string
	Roles   []Role
}

// Anyone is a caller of a port that asks nobody who they are.
func Anyone() Identity { return Identity{Everywhere: true, Roles: []Role{Admin, Worker}} }

// Has reports whether an identity has a role, or one that includes it.
func (i Identity) Has(role Role) bool {
	for _, r := range i.Roles {
		if r == role || r == Admin && role != Worker || r == Trainer && role == Viewer {
			return true
		}
	}
	return false
}

// Home is the namespace in which the call finds sessions by their ids.
func (i Identity) Home() string { return cmp.Or(i.Namespace, DefaultNamespace) }

// Sees reports whether what belongs to a namespace is the caller's to see; "" is the default namespace.
func (i Identity) Sees(namespace string) bool {
	return i.SeesAll() || cmp.Or(namespace, DefaultNamespace) == i.Home()
}

// SeesAll reports whether what there is in any namespace is the caller's to see.
func (i Identity) SeesAll() bool { return i.Everywhere && i.Namespace == "" }

// Unlimited reports whether no namespace's limits bind the caller.
func (i Identity) Unlimited() bool { return i.Everywhere && i.Has(Admin) }

// In returns the identity of a call that is about a namespace; "" is the caller's own.
func (i Identity) In(namespace string) (Identity, error) {
	switch {
	case namespace == "" || namespace == i.Namespace:
		return i, nil
	case !i.Everywhere:
		return i, status.Errorf(codes.PermissionDenied,
			"%s is of namespace %s, and may do nothing in another one; leave --namespace out, or show another token",
			i, i.Namespace)
	case !ValidNamespace(namespace):
		return i, status.Error(codes.InvalidArgument,
			"the namespace's name is not valid; it has 1 to 63 of a-z, 0-9 and -, and - neither first nor last")
	}
	i.Namespace = namespace
	return i, nil
}

// String names the caller in errors and logs.
func (i Identity) String() string {
	if i.Subject == "" {
		return "the caller"
	}
	return fmt.Sprintf("%q", i.Subject)
}

// ValidNamespace reports whether a name is one that a namespace may have: those of Kubernetes.
func ValidNamespace(name string) bool {
	outside := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	return name != "" && len(name) <= 63 && name[0] != '-' && name[len(name)-1] != '-' &&
		slices.IndexFunc([]rune(name), outside) < 0
}

// ErrStranger says that a token is nobody's.
var ErrStranger = errors.New("the token is nobody's")

// Authenticator knows callers by their tokens.
type Authenticator interface {
	// Authenticate returns whose token it is, or ErrStranger. Any other error says that it cannot be told now.
	Authenticate(ctx context.Context, token string) (Identity, error)
}

// Fleet knows the token that the processes of a fleet share, which opens all of it.
type Fleet struct{ Token rpc.Secret }

// Authenticate implements Authenticator.
func (f Fleet) Authenticate(_ context.Context, token string) (Identity, error) {
	if f.Token.IsZero() || !f.Token.Takes(token) {
		return Identity{}, ErrStranger
	}
	return Identity{Everywhere: true, Subject: "fleet", Roles: []Role{Admin, Worker}}, nil
}

// Know says who shows a token, or why nobody can be let in, as a status. Without an authenticator everybody is.
func Know(ctx context.Context, a Authenticator, token string) (Identity, error) {
	if a == nil {
		return Anyone(), nil
	}
	if token == "" {
		return Identity{}, status.Error(codes.Unauthenticated,
			"the call bears no token, and this port asks for one; set --token-file or PENSTOCK_TOKEN_FILE")
	}
	who, err := a.Authenticate(ctx, token)
	switch {
	case errors.Is(err, ErrStranger):
		return Identity{}, status.Error(codes.Unauthenticated,
			"the call's token is not one that this port knows; --token-file (PENSTOCK_TOKEN_FILE) must hold one "+
				"that the fleet gave out, and that has not expired")
	case err != nil:
		// Why is not for a caller whom nobody knows yet: it names what lies behind this port.
		return Identity{}, status.Error(codes.Unavailable,
			"whose token it is cannot be told now; try again, or see this port's log for why")
	}
	return who, nil
}

type key struct{}

// With returns a context that says who calls.
func With(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, key{}, who)
}

// From returns who calls. A context that does not say has nobody, who may do nothing.
func From(ctx context.Context) Identity {
	who, _ := ctx.Value(key{}).(Identity)
	return who
}

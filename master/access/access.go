// Package access decides who may do what at a master: whose token a call bears, which roles its method asks for, what
// datasets, storage profiles and how much of the fleet a namespace has. docs/reference/access.md is the format of its
// two files. Package master asks it: of each call by its headers, then of what the call is about. Its decisions are
// pure; only tokens are looked up elsewhere (Review). A Control may be used by many goroutines at once.
package access

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/reload"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// logEvery is how often it is logged, at most, that somebody cannot be known.
const logEvery = 10 * time.Second

// Config says whom to know. With none of Fleet, Workers, Tokens and Review everybody may do everything.
type Config struct {
	// Fleet is the token that opens all, and Workers one that reports as a worker and opens nothing.
	Fleet, Workers rpc.Secret
	// Tokens and Namespaces are YAML files, "" for none. They are read anew when they change.
	Tokens, Namespaces string
	// Review, if set, knows further tokens.
	Review identity.Authenticator
	Logger *slog.Logger
}

// Control is the access to a master.
type Control struct {
	known      chain
	logger     *slog.Logger
	told       atomic.Int64             // when it was said last, Unix in nanoseconds, that somebody cannot be known
	namespaces *reload.File[Namespaces] // nil: nobody is limited
}

// New reads the files.
func New(cfg Config) (*Control, error) {
	c := &Control{logger: cfg.Logger}
	refused := func(err error) { cfg.Logger.Error("a file that says who may do what cannot be taken", "error", err) }
	if !cfg.Fleet.IsZero() {
		c.known = append(c.known, identity.Fleet{Token: cfg.Fleet})
	}
	if !cfg.Workers.IsZero() {
		c.known = append(c.known, workers{cfg.Workers})
	}
	if cfg.Tokens != "" {
		file, err := reload.Open(cfg.Tokens, func(text []byte) (tokens, error) { return parseTokens(cfg.Tokens, text) },
			refused)
		if err != nil {
			return nil, err
		}
		c.known = append(c.known, tokenFile{file})
	}
	if cfg.Review != nil {
		c.known = append(c.known, cfg.Review)
	}
	switch {
	case cfg.Namespaces != "" && len(c.known) == 0:
		return nil, errors.New(
			"--namespaces limits nobody where nobody is asked for a token; set --tokens, --token-review or " +
				"--token-file, or leave it out")
	case cfg.Namespaces != "":
		var err error
		parse := func(text []byte) (Namespaces, error) { return ParseNamespaces(cfg.Namespaces, text) }
		if c.namespaces, err = reload.Open(cfg.Namespaces, parse, refused); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Authenticator knows the callers' tokens; nil if nobody is asked for one.
func (c *Control) Authenticator() identity.Authenticator {
	if len(c.known) == 0 {
		return nil
	}
	return c
}

// Authenticate implements identity.Authenticator.
func (c *Control) Authenticate(ctx context.Context, token string) (identity.Identity, error) {
	who, err := c.known.Authenticate(ctx, token)
	if err != nil && !errors.Is(err, identity.ErrStranger) {
		c.logUnknown(err)
	}
	if err == nil && c.namespaces != nil {
		who.Roles = c.namespaces.Get().roles(who)
	}
	return who, err
}

// logUnknown logs now and then why it is not known whose a token is: the caller does not learn it.
func (c *Control) logUnknown(err error) {
	now := time.Now().UnixNano()
	if last := c.told.Load(); now-last >= logEvery.Nanoseconds() && c.told.CompareAndSwap(last, now) {
		c.logger.Warn("whose token a caller shows cannot be told", "error", err)
	}
}

// Gate is a rpc.Gate: it lets calls pass whose callers are known and have the role that the method asks for.
func (c *Control) Gate(ctx context.Context, call rpc.Call) (context.Context, error) {
	who, err := identity.Know(ctx, c.Authenticator(), call.Token)
	if err != nil {
		return nil, err
	}
	if who, err = who.In(call.Namespace); err != nil {
		return nil, err
	}
	if err := MayCall(who, call.Method); err != nil {
		return nil, err
	}
	rpc.Welcome(ctx)
	return identity.With(ctx, who), nil
}

// Limits are those of a namespace for a caller.
func (c *Control) Limits(who identity.Identity) Limits {
	if c.namespaces == nil || who.Unlimited() {
		return Limits{unlimited: true}
	}
	return c.namespaces.Get().limits(who.Home())
}

// Code is which Python functions sessions of a namespace may have, whoever asks; otherwise, if the file says nothing.
func (c *Control) Code(namespace string, otherwise Code) Code {
	if c.namespaces == nil {
		return otherwise
	}
	return cmp.Or(c.namespaces.Get().Namespaces[namespace].Code, otherwise)
}

// workers knows the token that the workers of a fleet share.
type workers struct{ token rpc.Secret }

// Authenticate implements identity.Authenticator.
func (w workers) Authenticate(_ context.Context, token string) (identity.Identity, error) {
	if !w.token.Takes(token) {
		return identity.Identity{}, identity.ErrStranger
	}
	return identity.Identity{Everywhere: true, Subject: "workers", Roles: []identity.Role{identity.Worker}}, nil
}

// chain asks one authenticator after the other.
type chain []identity.Authenticator

// Authenticate implements identity.Authenticator.
func (c chain) Authenticate(ctx context.Context, token string) (identity.Identity, error) {
	err := identity.ErrStranger
	for _, a := range c {
		who, failed := a.Authenticate(ctx, token)
		if failed == nil {
			return who, nil
		}
		if !errors.Is(failed, identity.ErrStranger) {
			err = failed
		}
	}
	return identity.Identity{}, err
}

// MayDelete refuses what only a session's owner and administrators may do to it. A session that was opened while nobody
// was asked who they are belongs to its whole namespace.
func MayDelete(who identity.Identity, owner, what string) error {
	if owner == "" || owner == who.Subject || who.Has(identity.Admin) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied,
		"%s is not the owner of the session, %q, who alone may %s, besides administrators of namespace %s; ask one "+
			"of them",
		who, owner, what, who.Home())
}

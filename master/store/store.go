// Package store keeps the sessions' state in etcd and elects the master that may change it. Between the pure
// state machine (master/session), whose writes it commits, and etcd, which nothing else imports. docs/internals/etcd.md
// beside this file is the storage format. A Store and a Leadership may be used by many goroutines at once; a
// Session by one at a time.
package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Config says where etcd is and how to speak to it. Zero durations mean the default.
type Config struct {
	// Endpoints are URLs ("https://10.0.0.1:2379", "unix:///run/etcd.sock") or host:port.
	Endpoints []string
	// Prefix of all keys; "" is "penstock/".
	Prefix string
	// TLS is for https endpoints; nil means the system's roots.
	TLS *tls.Config
	// Username, if set, logs in with the password that PasswordFile holds.
	Username     string
	PasswordFile string
	// DialTimeout bounds logging in (5 s), CallTimeout every single request (5 s).
	DialTimeout time.Duration
	CallTimeout time.Duration
	// LeaseTTL is how long after a leader's last sign of life another may lead (5 s); whole seconds, rounded up.
	LeaseTTL time.Duration
	// Patience is how long Open waits for an etcd that does not answer; 0: not at all.
	Patience time.Duration
	// Logger takes what the etcd client has to say; nil discards it.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(strings.Trim(c.Prefix, "/"), "penstock") + "/"
	c.DialTimeout = cmp.Or(c.DialTimeout, 5*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, 5*time.Second)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case len(c.Endpoints) == 0:
		return errors.New("store: no etcd endpoints")
	case c.DialTimeout < 0 || c.CallTimeout < 0 || c.LeaseTTL < 0 || c.Patience < 0:
		return errors.New("store: timeouts must not be negative")
	case c.Username == "" && c.PasswordFile != "":
		return errors.New("store: a password file without a user name")
	case c.Username != "" && c.PasswordFile == "":
		return fmt.Errorf("store: user %q needs a password file", c.Username)
	}
	return nil
}

// Store is a connection to etcd.
type Store struct {
	client *clientv3.Client
	cfg    Config
	keys   layout
	codec
	indexes *indexKeys
	coding  chan struct{} // taken by who begins to put code, so that none goes beyond the bound
}

// Open connects to etcd and reads from it once, so that wrong endpoints or credentials show at once. For an etcd that
// does not answer yet, or has no quorum, it waits as the configuration says, and tells so.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	for begin := time.Now(); ; {
		s, err := attempt(ctx, cfg)
		if err == nil || !errors.Is(err, ErrUnavailable) || cfg.Patience == 0 {
			return s, err
		}
		if waited := time.Since(begin).Round(time.Second); waited >= cfg.Patience {
			return nil, fmt.Errorf(
				"etcd did not answer for %v; see that it runs, has a quorum and is reached from here: %w", waited, err)
		}
		cfg.Logger.Warn("etcd does not answer; waiting for it", "endpoints", cfg.Endpoints, "error", err)
		if !sleep(ctx, time.Second) {
			return nil, fmt.Errorf("store: stopped while waiting for etcd: %w", err)
		}
	}
}

// attempt opens the store unless etcd does not answer.
func attempt(ctx context.Context, cfg Config) (*Store, error) {
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, keys: layout{prefix: cfg.Prefix}, codec: c, coding: make(chan struct{}, 1), indexes: newIndexKeys(),
	}
	if s.client, err = connect(ctx, cfg); err != nil {
		return nil, err
	}
	call, cancel := s.call(ctx)
	defer cancel()
	if _, err := s.client.Get(call, s.keys.elections(), clientv3.WithPrefix(), clientv3.WithLimit(1)); err != nil {
		return nil, errors.Join(readError(fmt.Sprintf("open %v", cfg.Endpoints), err), s.Close())
	}
	return s, nil
}

func connect(ctx context.Context, cfg Config) (*clientv3.Client, error) {
	password := ""
	if cfg.PasswordFile != "" {
		b, err := os.ReadFile(cfg.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("store: password of etcd user %q: %w", cfg.Username, err)
		}
		password = strings.TrimRight(string(b), "\r\n")
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  cfg.TLS,
		Username:             cfg.Username,
		Password:             password,
		DialTimeout:          cfg.DialTimeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: cfg.CallTimeout,
		// The client outlives Open's ctx; Close ends it.
		Context: context.WithoutCancel(ctx),
		Logger:  zap.New(&logCore{logger: cfg.Logger.With("part", "etcd client")}),
	})
	if err != nil {
		return nil, readError(fmt.Sprintf("connect to etcd at %v", cfg.Endpoints), err)
	}
	return client, nil
}

// Close ends the connection and with it every Leadership taken through it, whose leases then run out.
func (s *Store) Close() error {
	s.decoder.Close()
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

// call bounds one request.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.CallTimeout)
}

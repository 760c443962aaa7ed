// Package bucket serves blobs of any pod's over HTTP, each bucket from a cache of its own (internal/cache).
//
//	PUT    /buckets/BUCKET/NAME   keeps a blob: 201
//	GET    /buckets/BUCKET/NAME   returns it, or ranges of it; HEAD, without it
//	DELETE /buckets/BUCKET/NAME   removes it: 204
//
// A name is any UTF-8 of up to 1 KiB, and means one blob for ever: the same bytes again are 201, others are 409. What
// is evicted is 404. Callers show a token, as to all HTTP ports of a fleet (internal/identity); their namespace says
// which buckets are theirs. Any node answers for all: it passes on what another one owns (proxy.go).
//
// A Server's Run owns all goroutines. Each request has a deadline, which moves on with the bytes that pass.
package bucket

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
)

const (
	prefix  = "/buckets/"
	maxName = 1 << 10
	// maxHeader has room for a name, of which each byte may be three, and for a token.
	maxHeader = 32 << 10
	// A request may take patience, and a second more for each slowest bytes.
	patience, slowest = 30 * time.Second, 1 << 20
	idleTimeout       = 2 * time.Minute
	// atOnce is how many requests of a bucket run; more are told to come again.
	atOnce = 256
)

// Bucket is what a namespace, or several, have of a node.
type Bucket struct {
	// Name is as a namespace's.
	Name string
	// Namespaces may use it; empty is the one of its name.
	Namespaces []string
	// Cache is the bucket's alone. Its MaxBytes are the quota. It is the caller's to close.
	Cache *cache.Cache
}

// Owner says which node has a key: its address, or that it is this one.
type Owner func(key cache.Key) (address string, self bool)

// Config says what a Server serves. Listener, Buckets and Logger are needed.
type Config struct {
	// Listener is bound already. Run closes it.
	Listener net.Listener
	// TLS is nil for plain text: whoever may listen reads the tokens.
	TLS *tls.Config
	// Authenticator knows the callers; nil asks nobody, but lets in only who calls from this machine.
	Authenticator identity.Authenticator
	Buckets       []Bucket
	// Owner is nil for a node that is alone.
	Owner Owner
	// Peers speaks to other owners; nil is plain HTTP, or HTTPS with the system's authorities if there is TLS.
	Peers  http.RoundTripper
	Logger *slog.Logger
}

// Server is the HTTP port of buckets.
type Server struct {
	cfg     Config
	http    *http.Server
	buckets map[string]*bucket
	proxy   http.Handler
	metrics *metrics
}

// bucket is a Bucket that is served.
type bucket struct {
	Bucket
	slots chan struct{}
}

// New prepares a server. Run runs it.
func New(cfg Config) (*Server, error) {
	if cfg.Listener == nil || cfg.Logger == nil || len(cfg.Buckets) == 0 {
		return nil, errors.New("bucket: Listener, Buckets and Logger are needed")
	}
	s := &Server{cfg: cfg, buckets: map[string]*bucket{}, metrics: newMetrics()}
	for _, b := range cfg.Buckets {
		if !identity.ValidNamespace(b.Name) || s.buckets[b.Name] != nil || b.Cache == nil {
			return nil, fmt.Errorf("bucket %q: name it once, with 1 to 63 of a-z, 0-9 and -, and - neither first nor "+
				"last; and give it a cache", b.Name)
		}
		if len(b.Namespaces) == 0 {
			b.Namespaces = []string{b.Name}
		}
		s.buckets[b.Name] = &bucket{Bucket: b, slots: make(chan struct{}, atOnce)}
	}
	s.proxy = s.newProxy()
	web := identity.Web{Authenticator: cfg.Authenticator}
	s.http = &http.Server{
		Handler:   web.Require(identity.Trainer, http.HandlerFunc(s.serve)),
		TLSConfig: cfg.TLS.Clone(), ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Run serves until ctx ends, and then until running requests have ended.
func (s *Server) Run(ctx context.Context) error {
	return rpc.ServeHTTP(ctx, "bucket", s.http, s.cfg.Listener)
}

// serve answers a request whose caller is known. The path is read as it is: a name may have any bytes, and a mux would
// redirect some.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	of, name, err := parse(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b := s.buckets[of]
	if who := identity.From(r.Context()); b == nil || !b.opens(who) {
		http.Error(w, fmt.Sprintf("%s of namespace %s may not use the bucket, if there is one; name one of the "+
			"namespace's", who, who.Home()), http.StatusForbidden)
		return
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("%d requests of bucket %s run; try again", atOnce, of), http.StatusServiceUnavailable)
		return
	}
	m := s.metrics.begin(b.Name, w, r)
	defer m.end()
	key := keyOf(of, name)
	if s.passOn(m, r, key) {
		return
	}
	b.handle(m, r, key)
}

// parse splits a path.
func parse(path string) (bucket, name string, err error) {
	rest, ok := strings.CutPrefix(path, prefix)
	bucket, name, slash := strings.Cut(rest, "/")
	if !ok || !slash || name == "" {
		return "", "", errors.New("ask for /buckets/BUCKET/NAME")
	}
	if len(name) > maxName || !utf8.ValidString(name) {
		return "", "", fmt.Errorf("the blob's name has %d bytes; it is UTF-8 of at most %d", len(name), maxName)
	}
	return bucket, name, nil
}

// keyOf is the digest of a bucket and a name.
func keyOf(bucket, name string) cache.Key {
	text := binary.AppendUvarint(nil, uint64(len(bucket)))
	return sha256.Sum256(append(append(text, bucket...), name...))
}

// opens reports whether a caller may use a bucket.
func (b *bucket) opens(who identity.Identity) bool {
	return who.SeesAll() || slices.Contains(b.Namespaces, who.Home())
}

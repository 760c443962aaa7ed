// Package telemetry is the HTTP port of a master or a worker: metrics for Prometheus, probes for Kubernetes, profiles
// for who is allowed to take them, and whatever pages its owner adds (master/dashboard).
//
//	/healthz, /readyz   public: 200 while the process serves, and while it is of use to others
//	/metrics            for viewers of the whole fleet: Prometheus' text and OpenMetrics
//	/debug/pprof/       for administrators of the whole fleet
//	/login              where browsers show a token
//
// A Server's Run owns all goroutines; requests that run when it ends are told by their contexts.
package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
)

const (
	readTimeout = 10 * time.Second
	// writeTimeout bounds a whole answer, so a CPU profile too. Who writes for longer moves its own deadline on.
	writeTimeout = 2 * time.Minute
	idleTimeout  = 2 * time.Minute
	maxHeader    = 32 << 10
	// scrapes is how many are answered at once.
	scrapes = 4
)

// Config says what a Server serves. Listener, Metrics and Logger are needed.
type Config struct {
	// Listener is bound already. Run closes it.
	Listener net.Listener
	// TLS is nil for plain text (rpc.HTTPTLS).
	TLS *tls.Config
	// Web says who a caller is, and that only callers from this machine may see what is not public if nobody is asked
	// for a token.
	Web identity.Web
	// Ready says why the process is of no use to others yet; nil is always ready.
	Ready func() error
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	// Pages takes all other paths, and guards them itself.
	Pages  http.Handler
	Logger *slog.Logger
}

// Server is an HTTP port.
type Server struct {
	cfg  Config
	http *http.Server
}

// New prepares a server. Run runs it.
func New(cfg Config) (*Server, error) {
	if cfg.Listener == nil || cfg.Metrics == nil || cfg.Logger == nil {
		return nil, errors.New("telemetry: Listener, Metrics and Logger are needed")
	}
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	s := &Server{cfg: cfg}
	s.http = &http.Server{
		// ServeTLS writes to its configuration, which others may have, too.
		Handler: s.routes(), TLSConfig: cfg.TLS.Clone(), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.cfg.Ready()) })
	mux.Handle("GET /metrics", s.cfg.forFleet(identity.Viewer, promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapes, EnableOpenMetrics: true, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(),
			slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})))
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/", s.cfg.forFleet(identity.Admin, profiles))
	mux.Handle(identity.LoginPath, s.cfg.Web.LoginHandler())
	if s.cfg.Pages != nil {
		mux.Handle("/", s.cfg.Pages)
	}
	return rebound(s.cfg.Listener.Addr(), mux)
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Run serves until ctx ends, and then until running requests have ended.
func (s *Server) Run(ctx context.Context) error {
	return rpc.ServeHTTP(ctx, "telemetry", s.http, s.cfg.Listener)
}

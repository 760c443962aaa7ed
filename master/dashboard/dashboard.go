// Package dashboard is the page that shows what a fleet does and why trainers wait, and the JSON behind it. The page is
// plain HTML, CSS and modules of JavaScript, embedded as they lie in page/: there is nothing to build and nothing to
// fetch from elsewhere.
//
//	/                     the page; its styles and scripts are public
//	/features.html        that of what is read
//	/api/v1/observation   pb.Observation   ?session= &since=MS &workers=1
//	/api/v1/events        pb.ListEventsReply   ?session= &after=NUMBER &limit=
//	/api/v1/sessions      pb.ListSessionsReply, without what is large: specs but for on_error, fingerprints, single ranks
//	/api/v1/features      {"datasets": [features.Report]}   ?uri=
//	/api/v1/stream        server-sent events: `hello` says which master it is, then `workers`, `events`, `observation` and `trouble`, with the
//	                      parameters of the first two
//
// All take namespace=NAME, of viewers who may see several.
//
// JSON is protobuf's, but for features, with the names of the .proto files: fields that are zero are left out, and
// 64-bit integers are text.
//
// It knows the fleet by its Source alone, which package master is. A Dashboard has no goroutines of its own: a stream
// lives in its request. Streams tell at the same times, and what one tells is made once for all that know as much and
// may see as much.
package dashboard

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/access"
)

// Source is asked for what is shown, with the context of the viewer's request.
type Source interface {
	Observe(context.Context, *pb.ObserveRequest) (*pb.Observation, error)
	ListEvents(context.Context, *pb.ListEventsRequest) (*pb.ListEventsReply, error)
	ListSessions(context.Context, *pb.ListSessionsRequest) (*pb.ListSessionsReply, error)
	ListFeatures(context.Context, *pb.ListFeaturesRequest) (*pb.ListFeaturesReply, error)
}

// Config says what a Dashboard shows to whom. Source is needed.
type Config struct {
	Source Source
	// Guard lets those requests for data pass that are allowed to, and tells the others; nil lets all pass.
	Guard func(http.Handler) http.Handler
	// Version of the binary, and Name of the master, are shown.
	Version, Name string
	// Every is between two messages of a stream; 0 means 2 s.
	Every time.Duration
	// Viewers bounds the streams that run at once; 0 means 64. A namespace has a quarter of them.
	Viewers int
	// Life is for how long a stream runs before its viewer asks again, and shows that it still may; 0 means 10 min.
	Life time.Duration
}

// Dashboard serves the page and its data.
type Dashboard struct {
	cfg     Config
	viewers *access.Turns
	round   round
}

// New returns the handler of all paths above.
func New(cfg Config) http.Handler {
	if cfg.Guard == nil {
		cfg.Guard = func(next http.Handler) http.Handler { return next }
	}
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	if cfg.Viewers == 0 {
		cfg.Viewers = 64
	}
	if cfg.Life == 0 {
		cfg.Life = 10 * time.Minute
	}
	d := &Dashboard{cfg: cfg, viewers: access.NewTurns(cfg.Viewers, (cfg.Viewers+3)/4)}
	mux := http.NewServeMux()
	mux.Handle("GET /api/v1/observation", cfg.Guard(http.HandlerFunc(d.observation)))
	mux.Handle("GET /api/v1/events", cfg.Guard(http.HandlerFunc(d.events)))
	mux.Handle("GET /api/v1/sessions", cfg.Guard(http.HandlerFunc(d.sessions)))
	mux.Handle("GET /api/v1/features", cfg.Guard(http.HandlerFunc(d.features)))
	mux.Handle("GET /api/v1/stream", cfg.Guard(http.HandlerFunc(d.stream)))
	mux.HandleFunc("GET /api/v1/version", d.version)
	serve := page()
	mux.Handle("GET /{$}", cfg.Guard(serve)) // which leads browsers to where they show a token
	mux.Handle("GET /features.html", cfg.Guard(serve))
	mux.HandleFunc("GET /", serve)
	return secured(mux)
}

// policy allows what comes from this port alone: no inline script, no frame around the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

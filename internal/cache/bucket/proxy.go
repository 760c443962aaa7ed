package bucket

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// passedOn is the header of requests that another node passed on: they are answered where they come, also while nodes
// see different members.
const passedOn = "Penstock-Passed-On"

// Among returns the owner among a fleet's members, whose addresses are those of their bucket ports. A member more takes
// 1/n of the keys from the others.
func Among(self string, members func() *fleet.Maglev) Owner {
	return func(key cache.Key) (string, bool) {
		owner := members().Candidates(string(key[:]), 1)
		if len(owner) == 0 || owner[0].Name == self {
			return "", true
		}
		return owner[0].Address, false
	}
}

// passage is where a request goes, and where its answer comes back. Its key in a context is its type.
type passage struct {
	address string
	back    http.ResponseWriter
}

func passageOf(r *http.Request) passage {
	p, _ := r.Context().Value(passage{}).(passage)
	return p
}

// passOn lets the owner of a key answer, if it is another node. The owner asks for the caller's token itself.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request, key cache.Key) bool {
	if s.cfg.Owner == nil || r.Header.Get(passedOn) != "" {
		return false
	}
	address, self := s.cfg.Owner(key)
	if self {
		return false
	}
	r = r.WithContext(context.WithValue(r.Context(), passage{}, passage{address, w}))
	if r.ContentLength != 0 {
		r.Body = slow(w, r.Body)
	}
	s.proxy.ServeHTTP(w, r)
	return true
}

func (s *Server) newProxy() http.Handler {
	scheme, peers := "http", s.cfg.Peers
	if s.cfg.TLS != nil {
		scheme = "https"
	}
	if peers == nil {
		peers = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			TLSHandshakeTimeout: 2 * time.Second, ResponseHeaderTimeout: patience, IdleConnTimeout: idleTimeout,
			MaxIdleConnsPerHost: 64, DisableCompression: true,
		}
	}
	return &httputil.ReverseProxy{
		Transport: peers,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme = scheme
			p.Out.URL.Host = passageOf(p.In).address
			p.Out.Header.Set(passedOn, "1")
		},
		ModifyResponse: func(r *http.Response) error {
			allowWrite(passageOf(r.Request).back, r.ContentLength)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.cfg.Logger.DebugContext(r.Context(), "a blob's owner does not answer",
				"owner", passageOf(r).address, "error", err)
			w.Header().Set("Retry-After", "5")
			http.Error(w, "the node that has this blob does not answer; do without, or try again",
				http.StatusServiceUnavailable)
		},
	}
}

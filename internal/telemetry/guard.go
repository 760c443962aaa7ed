package telemetry

import (
	"net"
	"net/http"

	"github.com/penstock-ml/penstock/internal/identity"
)

// forFleet lets callers with a role pass whose rights are those of the whole fleet: what a process tells of itself is
// not of one namespace.
func (c Config) forFleet(role identity.Role, next http.Handler) http.Handler {
	return c.Web.Require(role, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := identity.From(r.Context()); !who.Everywhere {
			http.Error(w,
				who.String()+" sees one namespace, and this is of the whole fleet; show a token of the fleet's",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// rebound refuses names of other machines on a port of loopback: a page from elsewhere, whose name was pointed here,
// could else have a browser read what is for this machine's users.
func rebound(at net.Addr, next http.Handler) http.Handler {
	if host, _, err := net.SplitHostPort(at.String()); err != nil || !net.ParseIP(host).IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !identity.LocalName(r.Host) {
			http.Error(w, "this port is for this machine alone; call it by localhost or its address",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

package identity

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/rpc"
)

const (
	// cookieName holds a browser's sealed token. Scripts do not see it, and no other site's page makes the browser send
	// it. By TLS it is hostCookie, which no other host of the domain can set.
	cookieName, hostCookie = "penstock_login", "__Host-penstock_login"
	// LoginPath is where a browser shows its token. Mount LoginHandler there.
	LoginPath = "/login"
	// maxForm bounds a login's body.
	maxForm = 64 << 10
	// askTimeout bounds finding out whose token it is.
	askTimeout = 5 * time.Second
)

//go:embed login.html
var loginPage string

// Web is the authorisation of an HTTP port.
type Web struct {
	// Authenticator knows the callers; nil asks nobody, but lets in only who calls from this machine, and by a name of
	// its own.
	Authenticator Authenticator
	// Seal is what browsers' logins are sealed with; nil lets none log in.
	Seal *Seal
}

// Require lets only callers with a role through. The handler finds the Identity in its request's context. Programs show
// a token as in gRPC: "Authorization: Bearer TOKEN", and a namespace as "Penstock-Namespace", or as the parameter
// namespace, since a page's streams have no headers of their own. Browsers are sent to LoginPath.
func (w Web) Require(role Role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		who, err := w.identify(r)
		if err == nil && !who.Has(role) {
			err = status.Errorf(codes.PermissionDenied, "%s is no %s; show a token with that role", who, role)
		}
		if err != nil {
			refuse(out, r, err)
			return
		}
		rpc.Welcome(r.Context())
		next.ServeHTTP(out, r.WithContext(With(r.Context(), who)))
	})
}

// identify says who makes a request.
func (w Web) identify(r *http.Request) (Identity, error) {
	if w.Authenticator == nil && !fromHere(r) {
		return Identity{}, status.Error(codes.PermissionDenied,
			"this port asks for no tokens, and so shows this on its own machine alone; start the process with "+
				"--token-file or --tokens")
	}
	token := rpc.BearerToken(r.Header.Values("Authorization"))
	if cookie, err := r.Cookie(cookieOf(r)); token == "" && err == nil {
		token = w.Seal.open(cookie.Value, time.Now())
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	who, err := Know(ctx, w.Authenticator, token)
	if err != nil {
		return who, err
	}
	return who.In(cmp.Or(r.Header.Get("Penstock-Namespace"), r.URL.Query().Get("namespace")))
}

func refuse(out http.ResponseWriter, r *http.Request, err error) {
	st := status.Convert(err)
	switch {
	case st.Code() == codes.Unauthenticated && wantsPage(r):
		http.Redirect(out, r, LoginPath+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	case st.Code() == codes.Unauthenticated:
		out.Header().Set("WWW-Authenticate", `Bearer realm="penstock"`)
		http.Error(out, st.Message(), http.StatusUnauthorized)
	case st.Code() == codes.Unavailable:
		http.Error(out, st.Message(), http.StatusServiceUnavailable)
	case st.Code() == codes.InvalidArgument:
		http.Error(out, st.Message(), http.StatusBadRequest)
	default:
		http.Error(out, st.Message(), http.StatusForbidden)
	}
}

// wantsPage reports whether a browser asks for something to show.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// cookieOf names the cookie of a request.
func cookieOf(r *http.Request) string {
	if r.TLS != nil {
		return hostCookie
	}
	return cookieName
}

// LoginHandler shows a form that takes a token, and has the browser keep it, sealed, until it is closed or loginLife is
// over. POST with logout=1 forgets it.
func (w Web) LoginHandler() http.Handler {
	page := template.Must(template.New("login").Parse(loginPage))
	show := func(out http.ResponseWriter, code int, next, problem string) {
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		out.Header().Set("Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
		out.Header().Set("Cache-Control", "no-store")
		out.WriteHeader(code)
		_ = page.Execute(out, map[string]string{"Next": next, "Problem": problem}) // the browser went
	}
	// No page from elsewhere logs a browser in, as somebody else, or out.
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			show(out, http.StatusOK, within(r.URL.Query().Get("next")), "")
			return
		}
		r.Body = http.MaxBytesReader(out, r.Body, maxForm)
		next := within(r.PostFormValue("next"))
		cookie := &http.Cookie{Name: cookieOf(r), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil} //nolint:gosec // a port without TLS is for this machine alone
		if r.PostFormValue("logout") != "" {
			cookie.MaxAge = -1
			http.SetCookie(out, cookie)
			http.Redirect(out, r, LoginPath, http.StatusSeeOther)
			return
		}
		token := strings.TrimSpace(r.PostFormValue("token"))
		ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
		defer cancel()
		_, err := Know(ctx, w.Authenticator, token)
		if err == nil {
			cookie.Value, err = w.seal(token)
		}
		if err != nil {
			show(out, http.StatusUnauthorized, next, status.Convert(err).Message())
			return
		}
		http.SetCookie(out, cookie)
		http.Redirect(out, r, next, http.StatusSeeOther) //nolint:gosec // next is a path within this site
	}))
}

func (w Web) seal(token string) (string, error) {
	if w.Seal == nil {
		return "", errors.New(
			"this port is not for browsers; show the token in a header, as in \"Authorization: Bearer TOKEN\"")
	}
	return w.Seal.close(token, time.Now())
}

// within keeps a login from leading to another site.
func within(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

// fromHere reports whether somebody on this machine makes a request for himself: not a proxy for others, nor a browser
// for a page from elsewhere whose name was pointed here.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() || !LocalName(r.Host) {
		return false
	}
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	return true
}

// LocalName reports whether a request's host, with or without a port, is localhost or an address: no page from
// elsewhere comes under one of these.
func LocalName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return name == "localhost" || net.ParseIP(name) != nil
}

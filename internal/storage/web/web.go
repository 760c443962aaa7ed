// Package web asks web servers for files, for the stores that read over HTTP (https, hf): which servers and addresses
// may be asked, what follows a redirect, and what an answer must say (ranges.go). It makes one attempt of everything:
// storage tries again. A Client may be used by many goroutines at once.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/penstock-ml/penstock/internal/storage/roots"
)

const (
	maxRedirects = 5
	// maxHeader bounds what an answer says before its body, maxRefusal the body of one that refuses.
	maxHeader, maxRefusal = 64 << 10, 64 << 10
)

// Rules say which servers may be asked.
type Rules struct {
	// Hosts reports whether a host may be asked: host:port, in lower case.
	Hosts func(host string) bool
	// Private are addresses that may be dialled although they are not public.
	Private []netip.Prefix
	// Plain allows http://.
	Plain bool
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string
}

// Client asks servers.
type Client struct {
	rules           Rules
	proxy           func(*url.URL) (*url.URL, error)
	dialer          *net.Dialer // which dials no address that the rules do not allow
	direct, proxied *http.Transport
}

// New returns a client. It connects to nothing yet. Proxies are those that the environment names.
func New(r Rules) (*Client, error) {
	trusting, err := roots.TLS(r.CAFile)
	if err != nil {
		return nil, err
	}
	c := &Client{rules: r, proxy: httpproxy.FromEnvironment().ProxyFunc(), dialer: newDialer()}
	c.dialer.ControlContext = r.control
	c.direct = newTransport(c.dialer, trusting)
	if r.CAFile != "" { // which may be renewed
		c.direct.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			newest, err := roots.TLS(r.CAFile)
			if err != nil {
				newest = trusting.Clone() // while it is being replaced
			}
			return (&tls.Dialer{NetDialer: c.dialer, Config: newest}).DialContext(ctx, network, address)
		}
	}
	c.proxied = newTransport(newDialer(), trusting) // it dials the proxy, wherever that is
	c.proxied.Proxy = func(req *http.Request) (*url.URL, error) { return c.proxy(req.URL) }
	return c, nil
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
}

func newTransport(dialer *net.Dialer, trusting *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:            dialer.DialContext,
		MaxIdleConnsPerHost:    256, // eight streams that read at their most keep their connections
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ReadBufferSize:         64 << 10,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // files are wanted as they are
		TLSClientConfig:        trusting,
	}
}

// Close closes idle connections.
func (c *Client) Close() {
	c.direct.CloseIdleConnections()
	c.proxied.CloseIdleConnections()
}

// Request is what a server is asked.
type Request struct {
	Method string // GET if empty
	URL    *url.URL
	Header http.Header
	// Secret are headers that only the URL's own host is sent.
	Secret http.Header
	Body   string
}

// Do asks, and follows redirects. Its answer is one of success, with a body for the caller to close.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	if err := c.rules.allow(r.URL); err != nil {
		return nil, err
	}
	at, secret := r.URL, r.Secret
	for range maxRedirects + 1 {
		resp, err := c.once(ctx, r, at, secret)
		if err != nil {
			return nil, Network(err)
		}
		if resp.StatusCode/100 == 2 {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal) // so that the connection can be kept
		_ = resp.Body.Close()
		to, err := c.redirect(r, at, resp)
		if err != nil {
			return nil, err
		}
		if to == nil {
			return nil, refusal(at, resp)
		}
		if to.Scheme != at.Scheme || hostPort(to) != hostPort(at) {
			secret = nil
		}
		at = to
	}
	return nil, fmt.Errorf("more than %d redirects; name the file by the URL that they end at", maxRedirects)
}

// once asks one server.
func (c *Client) once(ctx context.Context, r Request, at *url.URL, secret http.Header) (*http.Response, error) {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "", body)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = at, at.Host
	req.Header.Set("Accept-Encoding", "identity")
	for _, headers := range []http.Header{r.Header, secret} {
		for name, values := range headers {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	proxy, err := c.proxy(at)
	switch {
	case err != nil: // it may hold a password
		return nil, errors.New("the proxy that the environment names is no URL; correct HTTPS_PROXY or HTTP_PROXY")
	case proxy != nil:
		return c.proxied.RoundTrip(req)
	}
	return c.direct.RoundTrip(req)
}

// redirect is where an answer leads, if it is a redirect that may be followed. Errors do not repeat where to: it may be
// signed.
func (c *Client) redirect(r Request, at *url.URL, resp *http.Response) (*url.URL, error) {
	location := resp.Header.Get("Location")
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if r.Body != "" {
			return nil, nil
		}
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	to, err := at.Parse(location)
	if location == "" || err != nil || to.User != nil || to.Host == "" {
		return nil, fmt.Errorf("%s redirects to what is no URL; name the file by another one", at.Host)
	}
	if to.Scheme != "https" && to.Scheme != at.Scheme {
		return nil, fmt.Errorf("%s redirects from https to %q; name the file by another URL", at.Host, to.Scheme)
	}
	to.Host, to.Fragment = strings.ToLower(to.Host), ""
	if err := c.rules.allow(to); err != nil {
		return nil, fmt.Errorf("%s redirects: %w", at.Host, err)
	}
	return to, nil
}

// hostPort is the host and port that a URL names.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port)
}

package web_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// anyHost is of rules that look at addresses alone.
func anyHost(string) bool { return true }

// serve starts a server with TLS.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are given up
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// trusting is a file with the certificate of the servers that httptest starts.
func trusting(t *testing.T, cert *x509.Certificate) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(at, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

func newClient(t *testing.T, r web.Rules) *web.Client {
	t.Helper()
	c, err := web.New(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ask(t *testing.T, given string) web.Request {
	t.Helper()
	u, err := url.Parse(given)
	if err != nil {
		t.Fatal(err)
	}
	return web.Request{URL: u, Secret: http.Header{"Authorization": {"Bearer hunter2"}}}
}

func anyVersion(*http.Response) error { return nil }

// TestPublic holds which addresses are dialled without being listed.
func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true,
		"0.0.0.0": false, "127.0.0.1": false, "127.8.9.10": false, "10.0.0.1": false, "172.16.0.1": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false,
		"168.63.129.16": false, "192.0.0.8": false, "198.18.0.1": false, "224.0.0.1": false, "239.1.1.1": false,
		"240.0.0.1": false, "255.255.255.255": false, "::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false,
		"fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "fec0::1": false, "::127.0.0.1": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false,
		"64:ff9b:1::808:808": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false, "100::1": false,
	} {
		if got := web.Public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// resolver answers each question for an address by the next of a list, and by the last from then on.
func resolver(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			in := make([]byte, 1024)
			if _, err := io.ReadFull(theirs, in[:2]); err != nil { // a stream's messages have their length before them
				return
			}
			n, err := io.ReadFull(theirs, in[:int(in[0])<<8|int(in[1])])
			var question dnsmessage.Message
			if err != nil || question.Unpack(in[:n]) != nil {
				return
			}
			reply := dnsmessage.Message{
				Header:    dnsmessage.Header{ID: question.ID, Response: true, RecursionAvailable: true},
				Questions: question.Questions,
			}
			if q := question.Questions[0]; q.Type == dnsmessage.TypeA {
				at := netip.MustParseAddr(answers[min(int(asked.Add(1)), len(answers))-1])
				if !strings.HasSuffix(q.Name.String(), "example.com.") {
					reply.RCode = dnsmessage.RCodeNameError
				}
				reply.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0},
					Body:   &dnsmessage.AResource{A: at.As4()},
				}}
			}
			out, err := reply.Pack()
			if err == nil {
				_, _ = theirs.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...))
			}
		}()
		return ours, nil
	}}
}

// TestRebinding: a name that stands for another address when it is asked again leads nowhere: the address that is
// dialled counts.
func TestRebinding(t *testing.T) {
	var reached atomic.Int64
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Range", "bytes 0-0/1")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "x")
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	c := newClient(t, web.Rules{
		Hosts: anyHost, CAFile: trusting(t, server.Certificate()), Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	c.ResolveBy(resolver(t, "127.0.0.1", "127.0.0.2"))
	r := ask(t, "https://example.com:"+port+"/a") // the name that httptest's certificate has
	if _, _, err := c.Size(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.Size(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.2 is no public address") || object.IsTransient(err) {
		t.Errorf("error %v", err)
	}
	if n := reached.Load(); n != 1 {
		t.Errorf("the server was reached %d times", n)
	}
}

func TestUnknownHost(t *testing.T) {
	c := newClient(t, web.Rules{Hosts: anyHost})
	c.ResolveBy(resolver(t, "127.0.0.1"))
	_, _, err := c.Size(t.Context(), ask(t, "https://exmaple.org/a"))
	if err == nil || !strings.Contains(err.Error(), "check the host's name") || !object.IsTransient(err) {
		t.Errorf("%v, want what to check", err)
	}
}

// TestRedirects: each is checked, tokens stay with their host, and no error tells where a redirect leads.
func TestRedirects(t *testing.T) {
	var stolen atomic.Bool
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stolen.Store(stolen.Load() || r.Header.Get("Authorization") != "")
		if back := r.URL.Query().Get("back"); back != "" {
			http.Redirect(w, r, back, http.StatusFound)
			return
		}
		w.Header().Set("Content-Range", "bytes 0-0/7")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "x")
	})
	var target string
	home := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a":
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		case "/back": // after another host
			stolen.Store(stolen.Load() || r.Header.Get("Authorization") != "")
			w.WriteHeader(http.StatusNotFound)
		}
	})
	plain := httptest.NewServer(home.Config.Handler)
	t.Cleanup(plain.Close)
	listed := func(host string) bool { return !strings.HasPrefix(host, "evil") && !strings.HasPrefix(host, "user") }
	c := newClient(t, web.Rules{
		Hosts: listed, Private: loopback, Plain: true, CAFile: trusting(t, home.Certificate()),
	})
	for to, want := range map[string]string{
		other.URL + "/x?X-Amz-Signature=hunter3":                   "",
		other.URL + "/x?back=" + url.QueryEscape(home.URL+"/back"): "answers 404",
		"/loop":                                  "more than 5 redirects",
		"https://evil.example/?sig=hunter3":      "does not list the host evil.example",
		plain.URL + "/x?sig=hunter3":             "from https",
		"https://169.254.169.254/?sig=hunter3":   "169.254.169.254 is no public address",
		"https://[::ffff:10.0.0.1]/x":            "is no public address",
		"https://user:hunter3@127.0.0.1/x":       "is no URL",
		"file:///etc/passwd":                     "is no URL",
		"ftp://127.0.0.1/x?sig=hunter3":          "from https",
		"https://%zz/hunter3":                    "is no URL",
		"//evil.example/x":                       "does not list the host evil.example",
		"https://127.0.0.1:1/closed?sig=hunter3": "refused",
	} {
		target = to
		size, _, err := c.Size(t.Context(), ask(t, home.URL+"/a"))
		if want == "" && (err != nil || size != 7) {
			t.Errorf("%s: %d, %v", to, size, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%s: %v, want %q", to, err, want)
		}
	}
	if stolen.Load() {
		t.Error("another host was sent the token")
	}
}

// TestProxy: a proxy may be anywhere, and reaches listed hosts alone, by names or by public addresses.
func TestProxy(t *testing.T) {
	var asked atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Host)
		w.Header().Set("Content-Range", "bytes 0-0/7")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	c := newClient(t, web.Rules{Hosts: func(host string) bool { return host != "evil.example:80" }, Plain: true})
	if _, _, err := c.Size(t.Context(), ask(t, "http://data.example/a")); err != nil || asked.Load() != "data.example" {
		t.Errorf("it was asked for %v: %v", asked.Load(), err)
	}
	for at, want := range map[string]string{"evil.example": "does not list", "10.0.0.1": "is no public address"} {
		if _, _, err := c.Size(t.Context(), ask(t, "http://"+at+"/a")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
}

// TestAnswers: what is not the range that was asked for of the file that was listed is an error, and nothing that a
// server sends is taken without end.
func TestAnswers(t *testing.T) {
	type headers map[string]string
	endless := func(w http.ResponseWriter) {
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for name, tc := range map[string]struct {
		status    int
		headers   headers
		body      func(http.ResponseWriter)
		want      string
		transient bool
	}{
		"as asked":        {206, headers{"Content-Range": "bytes 2-5/10"}, text("2345"), "", false},
		"chunked":         {206, headers{"Content-Range": "bytes 2-5/10"}, chunked("2345"), "", false},
		"all of it":       {200, nil, text("0123456789"), "ignores the Range", false},
		"no range":        {206, nil, text("2345"), "ignores the Range", false},
		"another range":   {206, headers{"Content-Range": "bytes 0-3/10"}, text("0123"), "asked for bytes 2-5", false},
		"a longer one":    {206, headers{"Content-Range": "bytes 2-6/10"}, text("23456"), "asked for bytes 2-5", false},
		"another size":    {206, headers{"Content-Range": "bytes 2-5/11"}, text("2345"), "has changed", false},
		"beyond the size": {206, headers{"Content-Range": "bytes 2-5/4"}, text("2345"), "has changed", false},
		"no numbers":      {206, headers{"Content-Range": "bytes a-b/c"}, text("2345"), "is none", false},
		"too large":       {206, headers{"Content-Range": "bytes 2-5/99999999999999999999"}, text("2345"), "is none", false},
		"multipart":       {206, headers{"Content-Type": "multipart/byteranges; boundary=x"}, text("--x"), "ignores the Range", false},
		"encoded":         {206, headers{"Content-Encoding": "gzip", "Content-Range": "bytes 2-5/10"}, text("2345"), "encodes the file", false},
		"a lying length":  {206, headers{"Content-Range": "bytes 2-5/10", "Content-Length": "9"}, text("234567890"), "are 9", false},
		"more bytes":      {206, headers{"Content-Range": "bytes 2-5/10"}, chunked("23456"), "more bytes", false},
		"endless":         {206, headers{"Content-Range": "bytes 2-5/10"}, endless, "more bytes", false},
		"endless refusal": {403, nil, endless, "access denied", false},
		"short":           {206, headers{"Content-Range": "bytes 2-5/10"}, chunked("23"), "was cut", true},
		"huge header":     {206, headers{"X": strings.Repeat("x", 80<<10)}, text(""), "headers exceeded", true},
		"busy":            {503, headers{"Retry-After": "7"}, text(""), "503", true},
		"gone":            {410, nil, text(""), "does not exist", false},
		"not implemented": {501, nil, text(""), "501", false},
		"changed":         {412, nil, text(""), "has changed", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tc.headers {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tc.status)
				tc.body(w)
			})
			c := newClient(t, web.Rules{Hosts: anyHost, Private: loopback, CAFile: trusting(t, server.Certificate())})
			buf := make([]byte, 4)
			err := c.Read(t.Context(), ask(t, server.URL+"/a"), buf, 2, 10, anyVersion)
			switch {
			case tc.want == "" && (err != nil || string(buf) != "2345"):
				t.Errorf("%q, %v", buf, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			case object.IsTransient(err) != tc.transient:
				t.Errorf("transient is %v of %v", !tc.transient, err)
			}
		})
	}
}

func text(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, body) }
}

// chunked is a body without a length.
func chunked(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, body)
	}
}

// TestSlow: who waits no longer is not held by a server that is slow with its headers or in the middle of its body.
func TestSlow(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"headers": func(http.ResponseWriter) {},
		"body": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 2-5/10")
			w.WriteHeader(http.StatusPartialContent)
			chunked("2")(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				if f, ok := w.(http.Flusher); ok && name == "body" {
					f.Flush()
				}
				cancel()
				<-r.Context().Done()
			})
			c := newClient(t, web.Rules{Hosts: anyHost, Private: loopback, CAFile: trusting(t, server.Certificate())})
			err := c.Read(ctx, ask(t, server.URL+"/a"), make([]byte, 4), 2, 10, anyVersion)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestAfter reads how long a server asks to be left alone.
func TestAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for want, h := range map[time.Duration]http.Header{
		0:                {"Retry-After": {"soon"}},
		7 * time.Second:  {"Retry-After": {"7"}},
		90 * time.Second: {"Retry-After": {"Thu, 01 Jan 2026 00:01:30 GMT"}},
		55 * time.Second: {"Ratelimit": {`"api";r=0;t=55`}},
	} {
		if got := web.After(h, now); got != want {
			t.Errorf("%v: %s, want %s", h, got, want)
		}
	}
}

// FuzzAnswer: whatever a server says of a range, nothing but the file's bytes are taken, or there is an error.
func FuzzAnswer(f *testing.F) {
	f.Add(206, "bytes 2-5/10", "2345")
	f.Add(200, "", "2345")
	f.Add(206, "bytes */10", "")
	f.Add(416, "bytes */0", "")
	var status int
	var given, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", given)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	f.Cleanup(server.Close)
	c, err := web.New(web.Rules{Hosts: anyHost, Private: loopback, Plain: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, code int, header, content string) {
		if code < 200 || code > 599 {
			return
		}
		status, given, body = code, header, content
		buf := make([]byte, 4)
		err := c.Read(t.Context(), web.Request{URL: u}, buf, 2, 10, anyVersion)
		if err == nil && (fmt.Sprintf("%.4s", content) != string(buf) || status != http.StatusPartialContent) {
			t.Errorf("%d, %q, %q: %q", code, header, content, buf)
		}
		if size, _, err := c.Size(t.Context(), web.Request{URL: u}); err == nil && size < 0 {
			t.Errorf("%d, %q, %q: a size of %d", code, header, content, size)
		}
	})
}

package https_test

import (
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/https"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []string{"127.0.0.0/8"}

// files are what a server has. Its answers have a strong ETag, or what tag writes.
type files struct {
	mu  sync.Mutex
	all map[string][]byte
	tag func(content []byte, h http.Header)
}

func (f *files) put(name string, content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[string][]byte)
	}
	f.all[name] = content
}

func (f *files) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, name)
}

func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	content, ok := f.all[strings.TrimPrefix(r.URL.Path, "/")]
	f.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if f.tag != nil {
		f.tag(content, w.Header())
	} else {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(content)))
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
}

// serve starts a server with TLS, and a storage that reads it with a profile, to which its host is added.
func serve(t *testing.T, h http.Handler, p https.Profile) (s *storage.Store, base string) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	p.Hosts = append(p.Hosts, strings.TrimPrefix(server.URL, "https://"))
	p.AllowAddresses = loopback
	p.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(p.CAFile, pem.EncodeToMemory(block), 0o644); err != nil {
		t.Fatal(err)
	}
	return newStore(t, &p), server.URL
}

func newStore(t *testing.T, p *https.Profile) *storage.Store {
	t.Helper()
	s, err := storage.New(storage.Config{
		Profiles: map[string]storage.Profile{"default": p},
		Retry:    storage.Retry{Attempts: 5, Delay: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestServers runs the suite against a server as it is, with validators that are weak, disturbed, and behind a redirect.
func TestServers(t *testing.T) {
	weak := func(content []byte, h http.Header) { h.Set("ETag", fmt.Sprintf(`W/"%x"`, sha256.Sum256(content))) }
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	byTime := func(content []byte, h http.Header) {
		sum := sha256.Sum256(content)
		h.Set("Last-Modified", epoch.Add(time.Duration(sum[0])*time.Hour).Format(http.TimeFormat))
	}
	plain := func(h http.Handler) http.Handler { return h }
	for name, tc := range map[string]struct {
		tag    func([]byte, http.Header)
		before func(http.Handler) http.Handler
	}{
		"strong": {nil, plain}, "weak": {weak, plain}, "by time": {byTime, plain},
		"disturbed": {nil, storagetest.Disturbed}, "redirected": {nil, redirected},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
				f := &files{tag: tc.tag}
				s, base := serve(t, tc.before(f), https.Profile{})
				return storagetest.Fixture{
					Storage: s, Base: base, NoFolders: true, ReadOnly: true,
					Put:    func(_ *testing.T, name string, content []byte) { f.put(name, content) },
					Remove: func(_ *testing.T, name string) { f.remove(name) },
				}
			})
		})
	}
}

// TestNginx runs the suite against the server that most have.
func TestNginx(t *testing.T) {
	n := storagetest.StartNginx(t)
	places := 0
	storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
		places++
		place := fmt.Sprintf("place %d", places)
		s := newStore(t, &https.Profile{
			Hosts: []string{strings.TrimPrefix(n.URL, "https://")}, AllowAddresses: loopback, CAFile: n.CAFile,
		})
		return storagetest.Fixture{
			Storage: s, Base: n.URL + "/" + url.PathEscape(place), NoFolders: true, ReadOnly: true,
			Put:    func(t *testing.T, name string, content []byte) { n.Put(t, place+"/"+name, content) },
			Remove: func(t *testing.T, name string) { n.Remove(t, place+"/"+name) },
		}
	})
}

func redirected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("signed") {
			http.Redirect(w, r, r.URL.Path+"?signed=1", http.StatusFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func stat(t *testing.T, s *storage.Store, uri string) *pb.File {
	t.Helper()
	found, err := s.List(t.Context(), "", []string{uri})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// TestWeak: validators say which of them are weak, and files without any are refused, but for empty ones.
func TestWeak(t *testing.T) {
	f := &files{}
	f.put("a.parquet", []byte("content"))
	f.put("empty.parquet", nil)
	s, base := serve(t, f, https.Profile{})
	for _, tc := range []struct {
		header, value, etag string
		weak                bool
	}{
		{"ETag", `"x"`, `"x"`, false},
		{"ETag", `W/"x"`, `W/"x"`, true},
		{"Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT", "lm:Thu, 01 Jan 2026 00:00:00 GMT", true},
	} {
		f.tag = func(_ []byte, h http.Header) { h.Set(tc.header, tc.value) }
		if got := stat(t, s, base+"/a.parquet").GetEtag(); got != tc.etag || object.IsWeak(got) != tc.weak {
			t.Errorf("%s: %s is listed as %s", tc.header, tc.value, got)
		}
	}
	f.tag = func([]byte, http.Header) {}
	if _, err := s.List(t.Context(), "", []string{base + "/a.parquet"}); err == nil ||
		!strings.Contains(err.Error(), "neither an ETag nor a Last-Modified") {
		t.Errorf("without a validator: %v", err)
	}
	if empty := stat(t, s, base+"/empty.parquet"); empty.GetSize() != 0 || empty.GetEtag() == "" {
		t.Errorf("an empty file is %v", empty)
	}
}

// TestTokens: a token goes to the host that the URI names, and a file's is read again when it is refused.
func TestTokens(t *testing.T) {
	var tokens storagetest.Tokens
	tokens.Renew("first")
	f := &files{}
	f.put("a.parquet", []byte("content"))
	at := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(at, []byte(token+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	write("first")
	var asked atomic.Int64
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 3 { // while it is asked, the token is renewed
			write("second")
		}
		tokens.Guard(f).ServeHTTP(w, r)
	})
	s, base := serve(t, server, https.Profile{TokenFile: at})
	file := stat(t, s, base+"/a.parquet")
	tokens.Renew("second")
	if err := s.ReadAt(t.Context(), "", file, make([]byte, 3), 0); err != nil {
		t.Errorf("with a token that was renewed: %v", err)
	}
	tokens.Renew("third")
	if err := s.ReadAt(t.Context(), "", file, make([]byte, 3), 0); !errors.Is(err, object.ErrDenied) ||
		!storage.IsOurs(err) || strings.Contains(err.Error(), "second") {
		t.Errorf("with one that has ended: %v", err)
	}
	t.Setenv("KEY", "in a header")
	s, base = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "in a header" || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		f.ServeHTTP(w, r)
	}), https.Profile{TokenEnv: "KEY", TokenHeader: "X-Api-Key"})
	stat(t, s, base+"/a.parquet")
}

// TestRefused: what a profile does not list is not read, and the error says what to write.
func TestRefused(t *testing.T) {
	f := &files{}
	f.put("a.parquet", []byte("content"))
	s, base := serve(t, f, https.Profile{})
	host := strings.TrimPrefix(base, "https://")
	for uri, want := range map[string]string{
		"https://other.example/a.parquet":           "does not list the host other.example",
		"http://" + host + "/a.parquet":             "plain: true",
		base + "/":                                  "do not list folders",
		base + "/*.parquet":                         "do not list folders",
		base + "/none.parquet":                      "answers 404",
		base + "/a/../a.parquet":                    "level ..",
		base + "/a/%2E%2e/a.parquet":                "level ..",
		base + "/a/..%2fa.parquet":                  "level ..",
		base + "/a/..%5Ca.parquet":                  "level ..",
		base + "/a%0d%0aX.parquet":                  "characters",
		base + "/a%zz.parquet":                      "%20",
		"https:///a.parquet":                        "name of a host",
		"https://[::1]/a.parquet":                   "name of a host",
		"https://data.example.org:0/a.parquet":      "name of a host",
		"https://user:hunter2@" + host + "/a":       "holds credentials",
		base + "/a.parquet?sig=hunter2":             "signed",
		base + "/a.parquet?x-amz-signature=hunter2": "signed",
		base + "/a.parquet?id=hunter2":              "has a ?",
		base + `/a.parquet\?id=hunter2`:             "has a ?",
		base + "/a.parquet#hunter2":                 "has a ?",
		"s3://bucket/a?X-Amz-Signature=hunter2":     "signed",
	} {
		_, err := s.List(t.Context(), "", []string{uri})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", uri, err, want)
		}
		if strings.Contains(uri, "hunter2@") && !errors.Is(err, object.ErrSecret) {
			t.Errorf("%v is no ErrSecret: commands would repeat the URI", err)
		}
	}
	s = newStore(t, &https.Profile{Hosts: []string{host}})
	if _, err := s.List(t.Context(), "", []string{base + "/a.parquet"}); err == nil ||
		!strings.Contains(err.Error(), "allow_addresses") {
		t.Errorf("on this machine: %v", err)
	}
	s = newStore(t, &https.Profile{})
	if _, err := s.List(t.Context(), "", []string{base + "/a.parquet"}); err == nil ||
		!strings.Contains(err.Error(), "hosts: [data.example.org]") {
		t.Errorf("without hosts: %v", err)
	}
}

// TestProfiles: mistakes are told before anything is read.
func TestProfiles(t *testing.T) {
	for want, p := range map[string]https.Profile{
		"hosts":           {Hosts: []string{"https://data.example.org"}},
		"allow_addresses": {AllowAddresses: []string{"10.0.0.1"}},
		"only one":        {TokenEnv: "A", TokenFile: "b"},
		"token_header":    {TokenHeader: "X-Key"},
		"no name":         {TokenEnv: "A", TokenHeader: "X Key"},
		"plain":           {TokenEnv: "A", Plain: true},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	cfg, err := storage.LoadConfig("", []string{
		"PENSTOCK_STORAGE_WEB_TYPE=https", "PENSTOCK_STORAGE_WEB_HOSTS=a.example,b.example:8443",
		"PENSTOCK_STORAGE_WEB_PLAIN=true", "PENSTOCK_STORAGE_WEB_ALLOW_ADDRESSES=10.0.0.0/8,fd00::/8",
		"PENSTOCK_STORAGE_WEB_CA_FILE=/ca.pem",
	})
	if err != nil {
		t.Fatal(err)
	}
	set, ok := cfg.Profiles["web"].(*https.Profile)
	if !ok {
		t.Fatalf("the profile is %T", cfg.Profiles["web"])
	}
	if err := set.Validate(); err != nil || len(set.Hosts) != 2 || len(set.AllowAddresses) != 2 || !set.Plain ||
		set.CAFile != "/ca.pem" {
		t.Errorf("%+v: %v", set, err)
	}
}

// FuzzCanonical: a URI has one form, which stays below its host and leads up nowhere, and names what was given.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{"a/b.parquet", "a%2Fb", "%e4%7E{0..9}", "naïve file+%2541", "..%2f", "a;b=c,d", `\?`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		uri, err := storage.Canonical("https://Data.Example.org:443/" + path)
		if err != nil {
			return
		}
		again, err := storage.Canonical(uri)
		if err != nil || again != uri {
			t.Fatalf("%q becomes %q, %v", uri, again, err)
		}
		u, err := url.Parse(uri)
		if err != nil || u.Host != "data.example.org" || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q is %+v, %v", uri, u, err)
		}
		for level := range strings.FieldsFuncSeq(u.Path, func(r rune) bool { return r == '/' || r == '\\' }) {
			if level == ".." || level == "." {
				t.Fatalf("%q leads up", uri)
			}
		}
	})
}

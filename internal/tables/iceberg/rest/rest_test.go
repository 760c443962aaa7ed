package rest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

const (
	loaded = `{"metadata-location": "s3a://lake/db/t/metadata/00001-x.metadata.json",
		"metadata": {"format-version": 2, "table-uuid": "u", "snapshots": [{}]}, "config": {"token": "other"}}`
	where  = "s3://lake/db/t/metadata/00001-x.metadata.json"
	hidden = "s3cret-token"
)

// stub answers as the specification says, or by a handler that is tried first and reports whether it answered.
type stub struct {
	*httptest.Server
	asked []string // paths and queries
}

func serve(t *testing.T, config, table string, first func(http.ResponseWriter, *http.Request) bool) *stub {
	t.Helper()
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked = append(s.asked, r.URL.RequestURI())
		switch {
		case first != nil && first(w, r):
		case r.URL.Path == "/v1/config":
			_, _ = fmt.Fprint(w, config)
		default:
			_, _ = fmt.Fprint(w, table)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, cfg Config) *Catalog {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestPaths are those of the specification.
func TestPaths(t *testing.T) {
	for config, want := range map[string]string{
		`{}`: "/v1/namespaces/a%1Fb%2Fc/tables/t.1",
		`{"defaults": {"prefix": "no"}, "overrides": {"prefix": "main%7Cx/y z"}}`: "/v1/main%7Cx/y%20z/namespaces/a%1Fb%2Fc/tables/t.1",
		`{"overrides": {"namespace-separator": "%2E"}}`:                           "/v1/namespaces/a.b%2Fc/tables/t.1",
	} {
		s := serve(t, config, loaded, nil)
		found, err := open(t, Config{URI: s.URL + "/", Warehouse: "w h"}).MetadataOf(t.Context(), "a.b%2Fc.t%2E1")
		if err != nil || found != where {
			t.Errorf("%s: got %v, %v", config, found, err)
		}
		if want := []string{"/v1/config?warehouse=w+h", want}; !slices.Equal(s.asked, want) {
			t.Errorf("%s: asked for %q, want %q", config, s.asked, want)
		}
	}
}

// TestRefused are answers that are none, and what is said of them. No error has the token.
func TestRefused(t *testing.T) {
	status := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "http://elsewhere.invalid/")
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, body)
			return true
		}
	}
	leaky := `{"error": {"message": "` + hidden + `", "type": "NoSuchTableException", "code": 404}}`
	for name, c := range map[string]struct {
		first         func(http.ResponseWriter, *http.Request) bool
		config, table string
		want          string
		is            error
		transient     bool
	}{
		"unauthorized": {first: status(401, leaky), want: "check the catalogue's token", is: object.ErrDenied},
		"timeout":      {first: status(419, leaky), want: "check the catalogue's token", is: object.ErrDenied},
		"forbidden":    {first: status(403, leaky), want: "allowed to read it", is: object.ErrDenied},
		"no table":     {first: status(404, leaky), want: "(NoSuchTableException)", is: fs.ErrNotExist},
		"odd type":     {first: status(400, `{"error": {"type": "`+hidden+`"}}`), want: "answers 400 Bad Request when"},
		"busy":         {first: status(429, ""), want: "429", transient: true},
		"failing":      {first: status(503, "<html>"), want: "503", transient: true},
		"redirect":     {first: status(302, ""), want: "redirect, which is not followed"},
		"no JSON":      {config: `<html>`, want: "no JSON of a REST catalogue"},
		"other JSON":   {config: `[]`, want: "no JSON of a REST catalogue"},
		"step":         {config: `{"overrides": {"prefix": "a/%2E%2E"}}`, want: "leads out"},
		"separator":    {config: `{"overrides": {"namespace-separator": "%"}}`, want: "namespace-separator"},
		"staged":       {config: `{}`, table: `{"metadata-location": null, "metadata": {}}`, want: "staged"},
		"no URI":       {config: `{}`, table: `{"metadata-location": "x"}`, want: "no URI"},
		"planned there": {
			config: `{}`, table: `{"metadata-location": "s3://x", "config": {"scan-planning-mode": "server"}}`,
			want: "scan-planning-mode",
		},
		"too long": {config: `{"x": "` + strings.Repeat("x", 1000) + `"}`, want: "more than 1000 bytes"},
		"cut":      {config: `{"defaults": {"a`, want: "broke off", transient: true},
		"cut body": {first: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			_, _ = fmt.Fprint(w, `{"defaults": {}`)
			return true
		}, want: "broke off", transient: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.config, c.table, c.first)
			t.Setenv("CATALOG_TOKEN", hidden)
			catalog := open(t, Config{URI: s.URL, TokenEnv: "CATALOG_TOKEN"})
			catalog.most = 1000
			_, err := catalog.MetadataOf(t.Context(), "db.t")
			if err == nil || !strings.Contains(err.Error(), c.want) || object.IsTransient(err) != c.transient ||
				c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v (transient: %v), want %q", err, object.IsTransient(err), c.want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, err), hidden) {
				t.Error("the error has the token")
			}
		})
	}
}

func TestBusyForHowLong(t *testing.T) {
	s := serve(t, "", "", func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	_, err := open(t, Config{URI: s.URL}).MetadataOf(t.Context(), "db.t")
	if object.After(err) != 7*time.Second {
		t.Errorf("got %v of %v", object.After(err), err)
	}
}

func TestUnreachable(t *testing.T) {
	s := serve(t, "", "", nil)
	c := open(t, Config{URI: s.URL})
	s.Close()
	if _, err := c.MetadataOf(t.Context(), "db.t"); !object.IsTransient(err) || !object.IsOurs(err) {
		t.Errorf("got %v", err)
	}
}

// TestTokens has a token fetched once, and again when the catalogue refuses it, but not a third time.
func TestTokens(t *testing.T) {
	var fetched, good atomic.Int64
	good.Store(1)
	s := serve(t, `{}`, loaded, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/oauth/tokens" {
			want := url.Values{
				"grant_type": {"client_credentials"}, "client_id": {"me"}, "client_secret": {hidden}, "scope": {"catalog"},
			}
			if err := r.ParseForm(); err != nil || r.PostForm.Encode() != want.Encode() {
				t.Errorf("the form is %v: %v", r.PostForm, err)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token": "t%d", "token_type": "bearer", "expires_in": 3600}`, fetched.Add(1))
			return true
		}
		if r.Header.Get("Authorization") == fmt.Sprintf("Bearer t%d", good.Load()) {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(hidden+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, Config{URI: s.URL, ClientID: "me", ClientSecretFile: secret})
	for _, step := range []struct{ good, fetched int64 }{{1, 1}, {1, 1}, {2, 2}, {9, 3}} {
		good.Store(step.good)
		_, err := c.MetadataOf(t.Context(), "db.t")
		if (err != nil) != (step.good == 9) || fetched.Load() != step.fetched {
			t.Errorf("token %d is good: %d were fetched, want %d: %v", step.good, fetched.Load(), step.fetched, err)
		}
	}
}

// TestTokenRefused are answers of a token service.
func TestTokenRefused(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
		transient  bool
	}{
		{401, `{"error": "invalid_client", "error_description": "` + hidden + `"}`, "401 (invalid_client)", false},
		{503, hidden, "503", true},
		{200, hidden, "none of OAuth2", false},
		{302, hidden, "302", false},
	} {
		s := serve(t, "", "", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = fmt.Fprint(w, c.body)
			return true
		})
		t.Setenv("SECRET", hidden)
		_, err := open(t, Config{URI: "http://localhost:1", OAuth2URI: s.URL, ClientID: "me", ClientSecretEnv: "SECRET"}).
			MetadataOf(t.Context(), "db.t")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), hidden) ||
			object.IsTransient(err) != c.transient || !object.IsTransient(err) && !object.IsOurs(err) {
			t.Errorf("%d: got %v, want %q", c.status, err, c.want)
		}
	}
}

// TestValidate refuses what cannot be meant, and repeats no values.
func TestValidate(t *testing.T) {
	for want, cfg := range map[string]Config{
		"want uri":                    {},
		"uri is not a URL":            {URI: "https://u:" + hidden + "@host"},
		"uri is not a URL of":         {URI: "https://host/?token=" + hidden},
		"must begin with https://":    {URI: "ftp://host"},
		"a token or secret is sent":   {URI: "http://host", TokenEnv: "X"},
		"token_env and token_file":    {URI: "https://host", TokenEnv: "X", TokenFile: "x"},
		"a token and client cred":     {URI: "https://host", TokenEnv: "X", ClientID: "x"},
		"client_id goes with":         {URI: "https://host", ClientID: "x"},
		"oauth2_uri and scope go":     {URI: "https://host", Scope: "x"},
		"client_secret_env and":       {URI: "https://host", ClientID: "x", ClientSecretEnv: "x", ClientSecretFile: "y"},
		"oauth2_uri must begin with":  {URI: "https://host", ClientID: "x", ClientSecretEnv: "x", OAuth2URI: "http://host"},
		"oauth2_uri is not a URL of ": {URI: "https://host", ClientID: "x", ClientSecretEnv: "x", OAuth2URI: hidden},
	} {
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), hidden) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, cfg := range []Config{{URI: "http://nessie:19120/iceberg"}, {URI: "http://[::1]:1", TokenEnv: "X"}} {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%v: %v", cfg, err)
		}
	}
}

// TestNames has every name arrive as it is, in whatever namespace.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.SliceOfN(rapid.StringMatching(`[a-z.%@/ é?#|:]{1,8}`), 2, 4).Draw(t, "levels")
		var text []string
		for i, level := range levels {
			if isStep(level) {
				levels[i] += "x"
			}
			text = append(text, strings.ReplaceAll(url.PathEscape(levels[i]), ".", "%2E"))
		}
		n, err := parseName(strings.Join(text, "."))
		if err != nil || !slices.Equal(n, levels) {
			t.Fatalf("%q: got %q, %v", levels, n, err)
		}
		at, err := url.Parse("http://host/base" + place{separator: defaultSeparator}.table(n))
		want := "/base/v1/namespaces/" + strings.Join(levels[:len(levels)-1], "\x1f") + "/tables/" + levels[len(levels)-1]
		if err != nil || at.Path != want || at.Host != "host" || at.RawQuery != "" || at.Fragment != "" {
			t.Fatalf("got %v, %v, want the path %q", at, err, want)
		}
	})
	for _, bad := range []string{"", "t", ".t", "a.", "a..t", "a.b/t", "%2E%2E.t", "a.%", "a.%00", "a.%1F"} {
		if n, err := parseName(bad); err == nil {
			t.Errorf("%q is the name %q", bad, n)
		}
	}
}

func TestStoreURI(t *testing.T) {
	for location, want := range map[string]string{
		"s3://b/a b%": "s3://b/a b%", "S3A://b/x": "s3://b/x", "s3n://b/x": "s3://b/x", "gs://b/x": "gs://b/x",
		"/a/b": "file:///a/b", "file:/a/b": "file:///a/b", "file:///a/b": "file:///a/b",
		"abfss://c@a.dfs.core.windows.net/x": "abfss://c@a.dfs.core.windows.net/x",
	} {
		if got, err := storeURI(location); err != nil || got != want {
			t.Errorf("%s: got %s, %v", location, got, err)
		}
	}
}

// FuzzAnswers has answers that are no panic, and lead nowhere but below the catalogue's URI.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"overrides": {"prefix": "a/b%2F../"}}`), []byte(loaded))
	f.Add([]byte(`{"defaults": {"namespace-separator": "%00"}}`), []byte(`{"metadata-location": "file:../x"}`))
	f.Fuzz(func(t *testing.T, config, table []byte) {
		c := &Catalog{most: 1 << 20}
		var a configAnswer
		if c.decode("host", strings.NewReader(string(config)), &a) == nil {
			if p, err := a.place(); err == nil {
				at, err := url.Parse("http://host/base" + p.table(name{"a", "b", "t"}))
				if err != nil || at.Host != "host" || at.RawQuery != "" || at.Fragment != "" ||
					!strings.HasPrefix(at.JoinPath().Path, "/base/v1/") || !strings.HasSuffix(at.Path, "/tables/t") {
					t.Errorf("%q leads to %v: %v", config, at, err)
				}
			}
		}
		var l tableAnswer
		if c.decode("host", strings.NewReader(string(table)), &l) == nil {
			if uri, err := l.uri(); err == nil && !strings.Contains(uri, ":") {
				t.Errorf("%q leads to %q", table, uri)
			}
		}
	})
}

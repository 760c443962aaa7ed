package identity_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// serve serves a page for viewers that says who looks, and the login.
func serve(t *testing.T, a identity.Authenticator) *httptest.Server {
	t.Helper()
	web := identity.Web{Authenticator: a, Seal: identity.NewSeal()}
	mux := http.NewServeMux()
	mux.Handle("/", web.Require(identity.Viewer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+identity.From(r.Context()).Subject)
	})))
	mux.Handle("/work", web.Require(identity.Worker, http.NotFoundHandler()))
	mux.Handle(identity.LoginPath, web.LoginHandler())
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func request(t *testing.T, method, address, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestProgramsShowATokenInAHeader(t *testing.T) {
	s := serve(t, identity.Fleet{Token: rpc.NewSecret("sesame")})
	for _, c := range []struct {
		name, path, header, value string
		code                      int
		words                     string
	}{
		{"right", "/", "Authorization", "Bearer sesame", 200, "hello fleet"},
		{"none", "/", "X", "", 401, "bears no token"},
		{"wrong", "/", "Authorization", "Bearer sesam", 401, "not one that this port knows"},
		{"other scheme", "/", "Authorization", "Basic sesame", 401, "bears no token"},
		{"role", "/work", "Authorization", "Bearer sesame", 404, ""},
		{"no token of a browser", "/x?y=z", "Accept", "text/html", 303, ""},
	} {
		client := &http.Client{CheckRedirect: func(*http.Request,
			[]*http.Request,
		) error {
			return http.ErrUseLastResponse
		}}
		resp, body := ask(t, client, request(t, "GET", s.URL+c.path, "", c.header, c.value)) //nolint:bodyclose // ask closes it
		if resp.StatusCode != c.code || !strings.Contains(body, c.words) || strings.Contains(body, "sesam") {
			t.Errorf("%s: %d %q", c.name, resp.StatusCode, body)
		}
		if to := resp.Header.Get("Location"); c.code == 303 && to != "/login?next=%2Fx%3Fy%3Dz" {
			t.Errorf("sent to %q", to)
		}
	}
	bad := request(t, "GET", s.URL, "", "Authorization", "Bearer sesame", "Penstock-Namespace", "../x")
	if resp, _ := ask(t, http.DefaultClient, bad); resp.StatusCode != 400 { //nolint:bodyclose // ask closes it
		t.Errorf("a bad namespace: %d", resp.StatusCode)
	}
}

func TestBrowsersLogIn(t *testing.T) {
	s := serve(t, identity.Fleet{Token: rpc.NewSecret("sese+ame;=%")})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	post := func(form url.Values) (*http.Response, string) {
		return ask(t, browser, request(t, "POST", s.URL+"/login", form.Encode(), "Content-Type",
			"application/x-www-form-urlencoded"))
	}
	if resp, body := ask(t, browser, request(t, "GET", s.URL+"/x", "", "Accept", "text/html")); resp.StatusCode != 200 || !strings.Contains(body, `name="next" value="/x"`) { //nolint:bodyclose // ask closes it
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := post(url.Values{"token": {"wrong"}, "next": {`/"><script>`}}); resp.StatusCode != 401 || !strings.Contains(body, "not one that this port knows") || strings.Contains(body, "<script>") { //nolint:bodyclose // ask closes it
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := post(url.Values{"token": {" sese+ame;=% "}, "next": {"/x"}}); resp.StatusCode != 200 || body != "hello fleet" || resp.Request.URL.Path != "/x" { //nolint:bodyclose // ask closes it
		t.Errorf("%d %s %s", resp.StatusCode, body, resp.Request.URL)
	}
	if _, body := ask(t, browser, request(t, "GET", s.URL+"/y", "", "Accept", "text/html")); body != "hello fleet" { //nolint:bodyclose // ask closes it
		t.Errorf("the cookie is not kept: %s", body)
	}
	post(url.Values{"logout": {"1"}})                                                          //nolint:bodyclose // ask closes it
	if resp, _ := ask(t, browser, request(t, "GET", s.URL+"/y", "")); resp.StatusCode != 401 { //nolint:bodyclose // ask closes it
		t.Errorf("after the logout: %d", resp.StatusCode)
	}
}

func TestTheCookieIsForTheBrowserAlone(t *testing.T) {
	login := identity.Web{Authenticator: identity.Fleet{Token: rpc.NewSecret("sesame")}, Seal: identity.NewSeal()}.LoginHandler()
	for next, want := range map[string]string{
		"/a?b": "/a?b", "//evil.com": "/", "https://evil.com": "/", `/\evil.com`: "/", "": "/", "evil": "/", "/\t/evil.com": "/", "javascript:x": "/",
	} {
		out := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "https://penstock/login", strings.NewReader(url.Values{"token": {"sesame"}, "next": {next}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		login.ServeHTTP(out, r)
		cookies := out.Result().Cookies()
		if to := out.Header().Get("Location"); to != want || len(cookies) != 1 {
			t.Fatalf("%q leads to %q, with %v", next, to, cookies)
		}
		if c := cookies[0]; c.Name != "__Host-penstock_login" || c.Path != "/" || c.Domain != "" || strings.Contains(c.Value, "sesame") || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || !c.Secure || c.MaxAge != 0 {
			t.Errorf("cookie %v", c)
		}
	}
}

// TestWithoutTokens holds that a port which asks for none is open to its own machine, and to no other.
func TestWithoutTokens(t *testing.T) {
	page := identity.Web{}.Require(identity.Viewer, http.NotFoundHandler())
	for _, c := range []struct {
		remote, host, header string
		want                 int
	}{
		{"127.0.0.1:1", "localhost:7072", "", 404},
		{"[::1]:1", "[::1]", "", 404},
		{"127.0.0.1:1", "10.0.0.2:7072", "", 404},
		{"10.0.0.1:1", "localhost", "", 403},
		{"", "localhost", "", 403},
		{"127.0.0.1:1", "evil.example:7072", "", 403}, // whose name leads here
		{"127.0.0.1:1", "", "", 403},
		{"127.0.0.1:1", "localhost", "X-Forwarded-For", 403}, // a proxy on this machine
		{"127.0.0.1:1", "localhost", "Forwarded", 403},
	} {
		out := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Host = c.remote, c.host
		if c.header != "" {
			r.Header.Set(c.header, "10.0.0.1")
		}
		page.ServeHTTP(out, r)
		if out.Code != c.want {
			t.Errorf("%+v: %d", c, out.Code)
		}
	}
}

// TestOtherSitesDoNotLogIn holds that a page of another site can neither make a browser somebody else here, nor forget
// who it is.
func TestOtherSitesDoNotLogIn(t *testing.T) {
	login := identity.Web{Authenticator: identity.Fleet{Token: rpc.NewSecret("sesame")}, Seal: identity.NewSeal()}.LoginHandler()
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		for _, form := range []string{"token=sesame", "logout=1"} {
			out := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "https://penstock/login", strings.NewReader(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(header, value)
			login.ServeHTTP(out, r)
			if out.Code != 403 || len(out.Result().Cookies()) != 0 {
				t.Errorf("%s: %s, %s: %d, %v", header, value, form, out.Code, out.Result().Cookies())
			}
		}
	}
}

// TestLogins holds that a login is good at each process of a fleet, ends by itself and with its token, and that nobody
// can make one.
func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := [][]byte{[]byte("one")}
		token := "sesame"
		port := func() identity.Web {
			return identity.Web{
				Authenticator: people(func(shown string) bool { return shown == token }),
				Seal:          identity.SealWith(func() [][]byte { return secrets }),
			}
		}
		login := func() *http.Cookie {
			out := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "/login", strings.NewReader("token=sesame"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			port().LoginHandler().ServeHTTP(out, r)
			return out.Result().Cookies()[0]
		}
		look := func(value string) int {
			out := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/", nil)
			r.AddCookie(&http.Cookie{Name: "penstock_login", Value: value})
			port().Require(identity.Viewer, http.NotFoundHandler()).ServeHTTP(out, r)
			return out.Code
		}
		expect := func(what, value string, want int) {
			t.Helper()
			if got := look(value); got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		first := login()
		if first.Name != "penstock_login" || first.Secure || login().Value == first.Value {
			t.Errorf("cookie %v", first)
		}
		expect("at another process", first.Value, 404)
		raw, err := base64.RawURLEncoding.DecodeString(first.Value)
		if err != nil || bytes.Contains(raw, []byte("sesame")) {
			t.Errorf("%q shows the token, %v", raw, err)
		}
		for i := range raw {
			raw[i] ^= 1
			expect("changed", base64.RawURLEncoding.EncodeToString(raw), 401)
			raw[i] ^= 1
		}
		for _, made := range []string{"", "sesame", "====", first.Value[:20], first.Value + "AAAA", strings.Repeat("A", 5000)} {
			expect("made up", made, 401)
		}
		secrets = [][]byte{[]byte("two"), []byte("one")}
		expect("while the key is exchanged", first.Value, 404)
		second := login()
		secrets = secrets[:1]
		expect("after the key was exchanged", first.Value, 401)
		expect("with the other key", second.Value, 404)
		time.Sleep(12*time.Hour - time.Second)
		expect("before its end", second.Value, 404)
		time.Sleep(time.Second)
		expect("after its end", second.Value, 401)
		third := login()
		token = "another"
		expect("after its token", third.Value, 401)
	})
}

// people are those whose token is right.
type people func(token string) bool

func (p people) Authenticate(_ context.Context, token string) (identity.Identity, error) {
	if !p(token) {
		return identity.Identity{}, identity.ErrStranger
	}
	return identity.Identity{Subject: "alice", Roles: []identity.Role{identity.Viewer}}, nil
}

// TestLongTokens holds that a token which no browser would keep is refused, and not lost in silence.
func TestLongTokens(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for words, web := range map[string]identity.Web{
		"too long for a browser":        {Authenticator: identity.Fleet{Token: rpc.NewSecret(long)}, Seal: identity.NewSeal()},
		"this port is not for browsers": {Authenticator: identity.Fleet{Token: rpc.NewSecret(long)}},
	} {
		out := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/login", strings.NewReader("token="+long))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		web.LoginHandler().ServeHTTP(out, r)
		if out.Code != 401 || !strings.Contains(out.Body.String(), words) || len(out.Result().Cookies()) != 0 {
			t.Errorf("%d, %v: %s", out.Code, out.Result().Cookies(), out.Body)
		}
	}
}

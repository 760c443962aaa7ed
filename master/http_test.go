package master_test

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/dashboard/dashboardtest"
)

// startHTTP runs a master with an HTTP port, and returns that, too.
func startHTTP(t *testing.T, endpoints []string, cfg master.Config) (*node, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	cfg.HTTP = l
	return start(t, settings{endpoints: endpoints, Config: cfg}), "http://" + l.Addr().String()
}

func httpGet(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(body)
}

// Each master shows what the leader knows, and none shows it to strangers.
func TestEachMasterShowsTheFleet(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	e := etcd(t, "")
	cfg := master.Config{RPC: rpc.Config{Token: rpc.NewSecret("secret")}}
	leader, first := startHTTP(t, e.Endpoints(), cfg)
	openSession(t, leader, "run", newSpec(dataset(t, 1)), 1)
	_, second := startHTTP(t, e.Endpoints(), cfg)
	for _, at := range []string{first, second} {
		code, body := httpGet(t, at+"/api/v1/sessions", "secret")
		reply := &pb.ListSessionsReply{}
		if err := protojson.Unmarshal([]byte(body), reply); err != nil || code != 200 ||
			len(reply.GetSessions()) != 1 || reply.GetSessions()[0].GetId() != "run" {
			t.Errorf("%s: %d, %v: %s", at, code, err, body)
		}
		for _, path := range []string{"/api/v1/observation", "/api/v1/events", "/readyz"} {
			if code, body := httpGet(t, at+path, "secret"); code != 200 {
				t.Errorf("%s%s: %d: %s", at, path, code, body)
			}
		}
		for _, path := range []string{
			"/", "/api/v1/sessions", "/api/v1/observation", "/api/v1/events",
			"/api/v1/stream", "/api/v1/features", "/metrics", "/debug/pprof/",
		} {
			for _, token := range []string{"", "wrong"} {
				if code, body := httpGet(t, at+path, token); code != 401 || strings.Contains(body, "run") &&
					!strings.Contains(body, "token") {
					t.Errorf("%s%s with token %q: %d: %s", at, path, token, code, body)
				}
			}
		}
	}
	for at, leads := range map[string]string{first: "penstock_master_leading 1", second: "penstock_master_leading 0"} {
		if _, body := httpGet(t, at+"/metrics", "secret"); !strings.Contains(body, leads) ||
			strings.Contains(body, "penstock_fleet_workers") != strings.HasSuffix(leads, "1") {
			t.Errorf("%s: want %q:\n%s", at, leads, body)
		}
	}
}

// Who sees all namespaces says of which one a session is, as links do.
func TestSessionsOfNamespaces(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	g, at := startHTTP(t, etcd(t, "").Endpoints(), master.Config{RPC: rpc.Config{Token: rpc.NewSecret("secret")}})
	conn, err := rpc.Dial(g.address, rpc.Config{Token: rpc.NewSecret("secret"), Namespace: "vision"})
	check(t, err)
	defer conn.Close()
	openSession(t, pb.NewMasterClient(conn), "run", newSpec(dataset(t, 1)), 1)
	openSession(t, g, "run", newSpec(dataset(t, 1)), 1)
	openSession(t, g, "vision/run", newSpec(dataset(t, 1)), 1)
	metrics := func(all ...string) func() bool {
		return func() bool {
			_, body := httpGet(t, at+"/metrics", "secret")
			return !slices.ContainsFunc(all, func(one string) bool { return !strings.Contains(body, one) })
		}
	}
	eventually(t, "each of them has metrics", metrics(`penstock_session_trainers{session="run"}`,
		`penstock_session_trainers{session="vision/run"}`, `penstock_session_trainers{session="default/vision/run"}`))
	r := newTrainer(t, g, "run", 0, 1).mustJoin("a")
	r.work(r.finished)
	eventually(t, "one that is over has none any more", func() bool {
		_, body := httpGet(t, at+"/metrics", "secret")
		return !strings.Contains(body, `session="run"`) &&
			strings.Contains(body, `penstock_session_state_info{session="vision/run",state="waiting"} 1`)
	})
	for query, want := range map[string]string{
		"?session=run&namespace=vision": `"namespace":"vision"`,
		"?session=run":                  `"namespace":"default"`,
		"?session=other":                "does not exist in namespace default",
		"?session=run&namespace=../x":   "the namespace's name is not valid",
	} {
		if code, body := httpGet(t, at+"/api/v1/observation"+query, "secret"); !strings.Contains(
			strings.ReplaceAll(body, `": "`, `":"`), want) {
			t.Errorf("%s: %d, %s lacks %s", query, code, body, want)
		}
	}
}

// A browser that logged in at one master is known at the others, since it comes to any of them behind a Service.
func TestLoginAtAnyMaster(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	e := etcd(t, "")
	cfg := master.Config{RPC: rpc.Config{Token: rpc.NewSecret("secret")}}
	_, first := startHTTP(t, e.Endpoints(), cfg)
	_, second := startHTTP(t, e.Endpoints(), cfg)
	jar, err := cookiejar.New(nil) // to which ports of one host are one
	check(t, err)
	browser := &http.Client{Jar: jar}
	resp, err := browser.PostForm(first+"/login", url.Values{"token": {"secret"}, "next": {"/api/v1/sessions"}})
	check(t, err)
	check(t, resp.Body.Close())
	for _, at := range []string{first, second} {
		resp, err := browser.Get(at + "/api/v1/sessions")
		check(t, err)
		check(t, resp.Body.Close())
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s", at, resp.Status)
		}
	}
}

// A link to a state of the dashboard leads there by way of the login, a wrong token on the way too: what lies behind
// the # of an address never comes to the server.
func TestLoginKeepsTheLink(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	_, at := startHTTP(t, etcd(t, "").Endpoints(), master.Config{RPC: rpc.Config{Token: rpc.NewSecret("secret")}})
	ctx := dashboardtest.Browser(t, time.Minute)
	show := func(token string) chromedp.Action {
		return chromedp.Tasks{
			chromedp.SendKeys("#token", token, chromedp.ByQuery),
			chromedp.Click("button", chromedp.ByQuery),
		}
	}
	var shown string
	check(t, chromedp.Run(ctx,
		chromedp.Navigate(at+"/#session=run-7&range=60&workers=busy.2"),
		show("wrong"), chromedp.WaitVisible("[role=alert]", chromedp.ByQuery), show("secret"),
		chromedp.WaitVisible("#verdict", chromedp.ByQuery),
		chromedp.Poll(
			`document.body.dataset.painted > 0 && location.hash + " shows " + document.querySelector("#session").value`,
			&shown),
	))
	if want := "#session=run-7&range=60&workers=busy.2 shows run-7"; shown != want {
		t.Errorf("behind the login: %q, want %q", shown, want)
	}
}

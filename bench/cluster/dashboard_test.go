package cluster_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/master/dashboard/dashboardtest"
)

// page opens a master's dashboard in a tab of Chromium.
func page(t *testing.T, browser context.Context, c *cluster.Cluster, address, state string) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1440, 1000), network.Enable(),
		network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Bearer " + c.RPC().Token.Reveal()}),
		chromedp.Navigate("http://"+address+"/#"+state)); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// both are what the page shows, and what the API says in the same second: the verdict, but for its numbers, which
// change within the second, how many workers there are, and who they are. What is delivered is that of one of the API's
// newest points.
const both = `(async () => {
	const o = await fetch("/api/v1/observation?workers=1").then(r => r.json(), () => ({})), p = o.points?.at(-1), f = await import("/js/format.js");
	if (!p || !o.workers || !o.sessions) return {}; // no master leads, or the one that does has measured nothing yet
	const small = (x) => x.toLowerCase().replaceAll(/[0-9.]+/g, "N");
	const delivered = document.querySelector("[data-of=delivered] span").textContent;
	return {
		shown: [small(verdict.textContent), document.querySelector("[data-of=workers] span").textContent, ...[...document.querySelectorAll("#table-workers tbody th")].map(e => e.title || e.textContent),
			...[...document.querySelectorAll("#table-sessions tbody th")].map(e => e.title || e.textContent), document.querySelectorAll("#heat-workers i").length.toString(), condition.textContent, delivered],
		said: [small(o.verdict), String(p.workers), ...o.workers.map(w => w.name), ...o.sessions.map(s => s.session), o.workers.length.toString(), "live", o.points.slice(-3).map(p => f.rate(f.num(p.rate))).find(x => x === delivered) ?? "another rate"],
		workers: o.workers.length, events: [...document.querySelectorAll(".events li")].map(e => e.textContent),
	};
})()`

// Before a worker is killed, when it is gone and when another one has come, the page shows what the API says.
func TestDashboardDuringAKill(t *testing.T) {
	t.Parallel()
	l := newLoops(t, cluster.Config{MasterFlags: []string{"--http=127.0.0.1:0"}}, 3)
	up, err := l.c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.train("job", provenanceSpec(t, 20_000, 10_000), 2, 50*time.Millisecond)
	l.sees("the trainers are measured", func(m map[string]*pb.SessionLoad) bool { return m["job"].GetDemand() > 0 })
	ctx := page(t, dashboardtest.Browser(t, 3*time.Minute), l.c, up.HTTP, "events=WORKER")
	agree(t, ctx, 3, "joined")
	picture(t, ctx, "kill-before")
	if err := l.c.Workers()[1].Kill(); err != nil {
		t.Fatal(err)
	}
	agree(t, ctx, 2, "is gone, and was not seen to drain")
	picture(t, ctx, "kill-during")
	if _, err := l.c.StartWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	agree(t, ctx, 3, "is gone, and was not seen to drain")
	picture(t, ctx, "kill-after")
}

// agree waits until a page shows what the API says, so many workers, and an event.
func agree(t *testing.T, ctx context.Context, workers int, event string) {
	t.Helper()
	var seen struct {
		Shown   []string `json:"shown"`
		Said    []string `json:"said"`
		Workers int      `json:"workers"`
		Events  []string `json:"events"`
	}
	defer func() {
		if t.Failed() {
			t.Logf("%+v", seen)
		}
	}()
	eventually(t, "the page shows what the API says", func() bool {
		if err := chromedp.Run(ctx,
			chromedp.Evaluate(both, &seen,
				func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
					return p.WithAwaitPromise(
						true)
				})); err != nil {
			t.Fatal(err)
		}
		return seen.Workers == workers && slices.Equal(seen.Shown, seen.Said) &&
			slices.ContainsFunc(seen.Events, func(e string) bool { return strings.Contains(e, event) })
	})
}

// picture writes the whole page to the folder that PENSTOCK_SCREENSHOTS names, for people to look at.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("PENSTOCK_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	if err := chromedp.Run(ctx, chromedp.FullScreenshot(&png, 100)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// notes has a page write down what it says of how it is doing, and is what it said.
const (
	startNotes = `window.notes = []; window.noted = ""; new MutationObserver(() => {
		const now = [condition, document.getElementById("from"), heard].map(e => e.textContent).join(" | ").trim();
		if (now !== noted) notes.push(noted = now);
	}).observe(live, {subtree: true, childList: true, characterData: true}); true`
	says = `document.getElementById("from").textContent + " " + condition.textContent`
)

// The leading master is killed with SIGKILL. A page of the other master, and one at an address behind which both are,
// say so, go on by themselves, and show what the API says, and whom they have it from.
func TestDashboardWhenTheLeaderDies(t *testing.T) {
	t.Parallel()
	flags := []string{"--http=127.0.0.1:0", "--etcd=" + strings.Join(etcds(t).Endpoints(), ","), "--ticket-key=" +
		filepath.Join(t.TempDir(), "ticket.key")}
	l := newLoops(t, cluster.Config{MasterFlags: flags}, 2)
	first, err := l.c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.c.StartMaster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.more = []string{second.Address}
	l.train("job", provenanceSpec(t, 20_000, 10_000), 2, 50*time.Millisecond)
	l.sees("the trainers are measured", func(m map[string]*pb.SessionLoad) bool { return m["job"].GetDemand() > 0 })
	browser := dashboardtest.Browser(t, 3*time.Minute)
	viewers := map[string]context.Context{
		"other":   page(t, browser, l.c, second.HTTP, ""),
		"service": page(t, browser, l.c, service(t, first.HTTP, second.HTTP), ""),
	}
	for name, tab := range viewers {
		agree(t, tab, 2, "joined")
		var who string
		if err := chromedp.Run(tab, chromedp.Evaluate(says, &who), chromedp.Evaluate(startNotes, nil)); err != nil {
			t.Fatal(err)
		}
		if want := "master-" + map[string]string{"other": second.Address, "service": first.Address}[name] +
			" live"; who != want {
			t.Errorf("%s: says %q, want %q", name, who, want)
		}
	}
	if err := l.c.KillMaster(); err != nil {
		t.Fatal(err)
	}
	for name, tab := range viewers {
		agree(t, tab, 2, "master "+second.Address+" leads")
		picture(t, tab, "leader-died-"+name)
		var who string
		var notes []string
		if err := chromedp.Run(tab, chromedp.Evaluate(says, &who), chromedp.Evaluate("notes", &notes)); err != nil {
			t.Fatal(err)
		}
		if want := "master-" + second.Address + " live"; who != want {
			t.Errorf("%s: says %q, want %q", name, who, want)
		}
		if !slices.ContainsFunc(notes, func(n string) bool {
			return strings.Contains(n, "does not answer") && strings.Contains(n, "last heard")
		}) {
			t.Errorf("%s: it did not say that nobody answers, and since when: %q", name, notes)
		}
	}
}

// service is an address behind which the first of several ports is that answers, as behind a Service of Kubernetes.
func service(t *testing.T, ports ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var streams sync.WaitGroup
	streams.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			streams.Go(func() { forward(conn, ports) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		streams.Wait()
	})
	return l.Addr().String()
}

// forward hands a connection's bytes to the first port that answers, and back, until one side closes.
func forward(conn net.Conn, ports []string) {
	defer conn.Close()
	for _, at := range ports {
		upstream, err := net.Dial("tcp", at)
		if err != nil {
			continue
		}
		defer upstream.Close()
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(conn, upstream)
			conn.Close()
		})
		_, _ = io.Copy(upstream, conn)
		upstream.Close()
		back.Wait()
		return
	}
}

package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/master/dashboard/dashboardtest"
)

// page opens a master's dashboard in Chromium.
func page(t *testing.T, c *cluster.Cluster, address string) context.Context {
	t.Helper()
	ctx := dashboardtest.Browser(t, 3*time.Minute)
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(1440, 1000), network.Enable(),
		network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Bearer " + c.RPC().Token.Reveal()}), chromedp.Navigate("http://"+address+"/#events=WORKER")); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// both are what the page shows, and what the API says in the same second: the verdict, but for its numbers, which change within the
// second, how many workers there are, and who they are. What is delivered is that of one of the API's newest points.
const both = `(async () => {
	const o = await (await fetch("/api/v1/observation?workers=1")).json(), p = o.points.at(-1), f = await import("/js/format.js");
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
	l := newLoops(t, cluster.Config{MasterFlags: []string{"--http=127.0.0.1:0"}}, 3)
	up, err := l.c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.train("job", provenanceSpec(t, 20_000, 10_000), 2, 50*time.Millisecond)
	l.sees("the trainers are measured", func(m map[string]*pb.SessionLoad) bool { return m["job"].GetDemand() > 0 })
	ctx := page(t, l.c, up.HTTP)
	agree := func(workers int, event string) {
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
			if err := chromedp.Run(ctx, chromedp.Evaluate(both, &seen, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) })); err != nil {
				t.Fatal(err)
			}
			return seen.Workers == workers && slices.Equal(seen.Shown, seen.Said) &&
				slices.ContainsFunc(seen.Events, func(e string) bool { return strings.Contains(e, event) })
		})
	}
	picture := func(name string) {
		if dir := os.Getenv("PENSTOCK_SCREENSHOTS"); dir != "" {
			var png []byte
			if err := chromedp.Run(ctx, chromedp.FullScreenshot(&png, 100)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	agree(3, "joined")
	picture("kill-before")
	if err := l.c.Workers()[1].Kill(); err != nil {
		t.Fatal(err)
	}
	agree(2, "is gone, and was not seen to drain")
	picture("kill-during")
	if _, err := l.c.StartWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	agree(3, "is gone, and was not seen to drain")
	picture("kill-after")
}

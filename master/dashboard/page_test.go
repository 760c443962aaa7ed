package dashboard_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/dashboard"
)

// fleet serves the dashboard of a generated fleet that was observed until now.
func fleet(t *testing.T, workers, sessions int) (*httptest.Server, *source) {
	t.Helper()
	const points = 300
	s := &source{seen: generate(workers, sessions, points, 1), happened: generateEvents(workers, points)}
	shift(s.seen, s.happened, time.Now())
	return serve(t, dashboard.Config{Source: s, Every: 100 * time.Millisecond, Version: "v1.2.3"}), s
}

func TestEachView(t *testing.T) {
	for _, c := range []struct {
		name              string
		workers, sessions int
		view              view
		ground            string
	}{
		{"wide-light", 10, 3, wide, "rgb(244, 246, 248)"},
		{"wide-dark-1000", 1000, 40, view{width: 1440, height: 1000, dark: true}, "rgb(16, 20, 26)"},
		{"narrow-light-1", 1, 1, narrow, "rgb(244, 246, 248)"},
		{"narrow-dark", 10, 3, view{width: 390, height: 844, dark: true}, "rgb(16, 20, 26)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, _ := fleet(t, c.workers, c.sessions)
			p := visit(t, srv.URL, c.view)
			p.picture(c.name)
			p.is(`document.documentElement.scrollWidth <= innerWidth`, "true")
			p.is(`document.querySelectorAll("#heat-workers i").length`, fmt.Sprint(c.workers))
			p.is(`document.querySelectorAll("#table-workers tbody tr").length`, fmt.Sprint(min(15, c.workers)))
			p.is(`getComputedStyle(document.body).backgroundColor`, c.ground)
			p.accessible()
			p.quiet()
		})
	}
}

// is holds an expression to a text.
func (p *tab) is(expression, want string) {
	p.Helper()
	if got := p.text(expression); got != want {
		p.Errorf("%s is %q, want %q", expression, got, want)
	}
}

// accessible holds what a screen reader and a keyboard need: names for all that can be used, one heading and one
// landmark of a kind, headings for tables, ids that are there and unique, and text that stands out from what is behind
// it.
func (p *tab) accessible() {
	p.Helper()
	for what, found := range map[string]string{
		"controls and pictures without a name": `[...document.querySelectorAll("button, a, select, input, [role=img], [role=region], svg[tabindex]")].filter(e =>
			!(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length || e.closest("[aria-hidden]"))).map(e => e.outerHTML.slice(0, 120))`,
		"images without a text":             `[...document.images].filter(e => !e.hasAttribute("alt")).map(e => e.outerHTML)`,
		"sections without a name":           `[...document.querySelectorAll("section, nav")].filter(e => !(e.getAttribute("aria-label") || document.getElementById(e.getAttribute("aria-labelledby")))).map(e => e.outerHTML.slice(0, 120))`,
		"ids that are there twice":          `[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i)`,
		"tables without a row of heads":     `[...document.querySelectorAll("table")].filter(t => !t.hidden && t.checkVisibility() && t.tBodies[0].rows.length && !t.querySelector("th[scope=col]")).map(t => t.outerHTML.slice(0, 120))`,
		"rows without a head":               `[...document.querySelectorAll("tbody tr")].filter(r => !r.querySelector("th[scope=row]")).map(r => r.outerHTML.slice(0, 120))`,
		"inline styles of the page":         `[...document.querySelectorAll("script:not([src]), style")].map(e => e.outerHTML)`,
		"landmarks that are not there once": `["main", "h1", "header.top", "footer"].filter(x => document.querySelectorAll(x).length !== 1)`,
		"what scrolls and no key reaches":   `[...document.querySelectorAll(".scroll, .events")].filter(e => e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0).map(e => e.outerHTML.slice(0, 120))`,
		"text that does not stand out":      contrast,
	} {
		if got := p.lines(found); len(got) > 0 {
			p.Errorf("%s: %q", what, got)
		}
	}
}

// contrast lists texts with less than WCAG's 4.5 to 1 against what is behind them.
const contrast = `(() => {
	const channels = (c) => { const p = document.createElement("canvas").getContext("2d", {willReadFrequently: true}); p.fillStyle = c; p.fillRect(0, 0, 1, 1); return [...p.getImageData(0, 0, 1, 1).data]; };
	const known = new Map(), of = (c) => { if (!known.has(c)) known.set(c, channels(c)); return known.get(c); };
	const light = ([r, g, b]) => [r, g, b].map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4).reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = of(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255]; };
	const out = [];
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() || e.matches(":disabled, .hidden, .skip, option")) continue;
		const style = getComputedStyle(e), a = light(of(e.closest("svg") ? style.fill : style.color)), b = light(behind(e));
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) out.push(ratio.toFixed(2) + " " + e.outerHTML.slice(0, 100));
	}
	return out;
})()`

// What the page shows is what the API says.
func TestNumbersAreTheAPIs(t *testing.T) {
	srv, s := fleet(t, 10, 3)
	s.set(func(s *source) {
		last := s.seen.GetPoints()[len(s.seen.GetPoints())-1]
		last.Rate, last.Demand, last.Stall, last.Busy, last.BytesRead, last.BytesSent, last.BytesCrossZone = 1_234_567,
			2_000_000, 0.1234, 0.876, 3<<30, 2<<30, 1<<29
		one := s.seen.GetSessions()[0]
		one.Rate, one.Demand, one.Stall, one.Needed, one.Granted, one.Cost = 54_321, 60_000, 0.5, 7.25, 3, 12.5e-6
		one.Bottleneck, one.Verdict = pb.Bottleneck_STORAGE, "storage holds run-0 up."
		one.Progress = &pb.Progress{
			Epoch: 1, Blocks: 4, BlocksPlanned: 2,
			StripDone: append(make([]byte, 96), slices.Repeat([]byte{255}, 32)...), StripHeld: make([]byte, 128),
		}
		s.seen.Verdict = "too few workers."
		s.seen.Bottleneck = pb.Bottleneck_WORKERS
	})
	p := visit(t, srv.URL, wide)
	p.is(`verdict.textContent`, "Too few workers.")
	p.is(`bottleneck.textContent`, "too few workers")
	for name, want := range map[string]string{
		"delivered": "1.23 M rows/s ", "demand": "2.00 M rows/s ", "stall": "12% ", "workers": "10 of 10 wanted",
		"busy":    "88% ",
		"storage": "3.00 GiB/s ", "cross-zone": "512 MiB/s 25% of sent",
	} {
		p.is(fmt.Sprintf(`document.querySelector("[data-of='%s']").textContent`, name), want)
	}
	row := `[...document.querySelectorAll("#table-sessions tbody tr")].find(r => r.cells[0].textContent === "run-0").cells`
	if got, want := p.lines(`[...`+row+`].map(c => c.textContent)`), []string{
		"run-0", "running", "storage is slow",
		"50%", "54.3 k rows/s", "60.0 k rows/s", "3", "7.3", "2", "25%",
	}; !slices.Equal(got, want) {
		t.Errorf("run-0 is shown as %q, want %q", got, want)
	}
	p.is(`document.querySelector("#epochs .strip").getAttribute("aria-label")`,
		"run-0, epoch 2: 25% done, 0% with trainers, 2 of 4 blocks planned")
	p.is(`[...document.querySelectorAll("#epochs .strip")][0].children[127].style.getPropertyValue("--done")`, "100%")
	p.is(`document.querySelectorAll(".events li").length`, "5")
	p.is(`document.querySelector("#version").textContent`, "Penstock v1.2.3")
	// And it follows: the next message of the stream has other numbers.
	s.set(func(s *source) {
		s.seen.Points = append(s.seen.Points, &pb.FleetPoint{
			UnixMs: s.seen.GetNowUnixMs() + 2000, Rate: 777,
			Workers: 11,
		})
		s.happened = append(s.happened, &pb.Event{
			Number: 6, UnixMs: s.seen.GetNowUnixMs() + 2000,
			Kind: pb.EventKind_WORKER, Words: "worker-11 came", Worker: "worker-11",
		})
	})
	p.until(`document.querySelector("[data-of=delivered]").textContent.startsWith("777 rows/s")`)
	p.until(`document.querySelector(".events li").textContent.includes("worker-11 came")`)
	p.is(`document.querySelectorAll(".events li").length`, "6")
	p.quiet()
}

// All that a pointer can do, keys do.
func TestKeyboard(t *testing.T) {
	srv, _ := fleet(t, 40, 3)
	p := visit(t, srv.URL, wide)
	p.key(kb.Tab)
	p.is(`document.activeElement.textContent`, "Skip to the verdict")
	p.key(kb.Enter)
	p.is(`document.activeElement.id`, "verdict-section")
	// The next stop is the first chart: arrows read its numbers, Escape hides them.
	p.key(kb.Tab)
	p.is(`document.activeElement.getAttribute("aria-label").startsWith("Rows per second")`, "true")
	p.key(kb.ArrowLeft, kb.ArrowLeft)
	p.until(`!tip.hidden && tip.textContent.includes("delivered: ")`)
	p.key(kb.Escape)
	p.is(`tip.hidden`, "true")
	// A decision tells its reason when it is focused.
	p.run(chromedp.Focus(".marks button", chromedp.ByQuery))
	p.until(`!tip.hidden && tip.textContent.includes("13 to 40 workers: from 13 to 40 workers: trainers could take")`)
	p.run(chromedp.Blur(".marks button", chromedp.ByQuery))
	// Tables sort and turn pages by their buttons.
	p.run(chromedp.Focus("#table-workers th:nth-child(2) button", chromedp.ByQuery))
	p.key(kb.Enter)
	p.until(`document.querySelector("#table-workers th:nth-child(2)").ariaSort === "descending"`)
	p.is(`location.hash`, "#workers=-busy.0")
	busy := p.lines(
		`[...document.querySelectorAll("#table-workers tbody tr")].map(r => parseFloat(r.cells[1].textContent))`)
	if len(busy) != 15 || !slices.IsSortedFunc(busy, func(a, b string) int { return -compareNumbers(a, b) }) {
		t.Errorf("sorted by busy: %v", busy)
	}
	p.run(chromedp.Focus("#table-workers .pages button:nth-child(2)", chromedp.ByQuery))
	p.key(kb.Enter)
	p.until(`document.querySelector("#table-workers .pages").textContent.includes("16 to 30 of 40")`)
	// The focus is to be seen.
	p.is(`getComputedStyle(document.activeElement).outlineStyle`, "solid")
	p.key("/")
	p.is(`document.activeElement.id`, "session")
	p.quiet()
}

func compareNumbers(a, b string) int {
	var x, y float64
	_, _ = fmt.Sscan(a, &x)
	_, _ = fmt.Sscan(b, &y)
	return int(x*1000) - int(y*1000)
}

// A link shows what its sender saw; the theme is the reader's.
func TestLinks(t *testing.T) {
	srv, _ := fleet(t, 40, 3)
	p := visit(t, srv.URL+"/#session=run-1&range=60&workers=-rate.0&events=SCALE", wide)
	p.is(`document.title`, "run-1 – Penstock")
	p.is(`session.value`, "run-1")
	p.is(`document.querySelector("[name=range]:checked").value`, "60")
	p.is(`document.querySelectorAll("#table-sessions tbody tr").length`, "1")
	p.is(`document.querySelectorAll("#heat-workers i").length`, "13")
	p.is(`document.querySelector("#table-workers th[aria-sort]").textContent`, "Sends")
	p.is(`document.querySelector(".filters [aria-pressed=true]").textContent`, "scaling")
	p.run(chromedp.SetValue("#session", "", chromedp.ByQuery),
		chromedp.Evaluate(`session.dispatchEvent(new Event("change", {bubbles: true}))`, nil))
	p.until(`document.querySelectorAll("#table-sessions tbody tr").length === 3`)
	p.is(`location.hash`, "#range=60&workers=-rate.0&events=SCALE")
	p.run(chromedp.Click("#table-sessions a", chromedp.ByQuery))
	p.until(`document.title.startsWith("run-")`)
	p.run(chromedp.SetValue("#theme", "dark", chromedp.ByQuery),
		chromedp.Evaluate(`theme.dispatchEvent(new Event("change", {bubbles: true}))`, nil))
	p.is(`getComputedStyle(document.body).backgroundColor`, "rgb(16, 20, 26)")
	p.run(chromedp.Reload())
	p.until(`document.body?.dataset.painted > 0`)
	p.is(`getComputedStyle(document.body).backgroundColor`, "rgb(16, 20, 26)")
	p.accessible()
	p.quiet()
}

// Sessions of one id in two namespaces are two, to which links lead; a link without a namespace means the viewer's own.
func TestNamespaces(t *testing.T) {
	s := &source{seen: generate(4, 2, 300, 1)}
	shift(s.seen, nil, time.Now())
	for i, x := range s.seen.GetSessions() {
		x.Session, x.Namespace, x.Demand = "run", []string{"", "vision"}[i], float64(i+1)*1000
	}
	own := ""
	guard := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := identity.Identity{Namespace: cmp.Or(r.URL.Query().Get("namespace"), own), Everywhere: own == ""}
			next.ServeHTTP(w, r.WithContext(identity.With(r.Context(), who)))
		})
	}
	srv := serve(t, dashboard.Config{Source: s, Every: 100 * time.Millisecond, Guard: guard})
	p := visit(t, srv.URL, wide)
	const names = `Array.from(document.querySelectorAll("#table-sessions tbody th"), (e) => e.textContent).sort()`
	p.is(names, "run,vision/run")
	p.run(chromedp.Evaluate(
		`Array.from(document.querySelectorAll("#table-sessions a")).find((e) => e.textContent === "vision/run").click()`, nil))
	p.until(`document.title.startsWith("vision/run") && document.body.dataset.painted > 0 && ` + names +
		`.join() === "vision/run"`)
	p.is(`document.querySelector("[data-of=demand] span").textContent`, "2.00 k rows/s")
	p.is(`location.hash`, "#session=vision%2Frun")
	own = "vision"
	p.run(chromedp.Navigate("about:blank"), chromedp.Navigate(srv.URL+"/#session=run&range=60"))
	p.until(`document.body?.dataset.painted > 0 && ` + names + `.join() === "vision/run"`)
	p.is(`location.hash + session.value`, "#session=vision%2Frun&range=60vision/run")
	p.quiet()
}

// While nobody leads the page says so, and goes on when somebody does.
func TestTrouble(t *testing.T) {
	srv, s := fleet(t, 3, 1)
	p := visit(t, srv.URL, wide)
	p.until(`condition.textContent === "live"`)
	s.set(func(s *source) { s.err = status.Error(codes.Unavailable, "no master leads at the moment; try again") })
	p.until(
		`condition.textContent === "no master leads at the moment; try again" && /^last heard \d+ s ago$/.test(heard.textContent)`)
	s.set(func(s *source) { s.err = nil })
	p.until(`condition.textContent === "live" && heard.textContent === ""`)
	p.quiet()
}

// Names from outside are text, whatever they look like.
func TestNamesAreText(t *testing.T) {
	srv, s := fleet(t, 3, 1)
	evil := `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
	s.set(func(s *source) {
		s.seen.Verdict, s.seen.Workers[0].Name, s.seen.Sessions[0].Session = evil, evil, evil
		s.happened = append(s.happened, &pb.Event{
			Number: 9, UnixMs: s.seen.GetNowUnixMs(), Words: evil, Session: evil,
			Rank: proto.Uint32(3),
		})
	})
	p := visit(t, srv.URL, wide)
	p.is(`document.title`, "Penstock")
	p.is(`document.querySelectorAll("main img, main script").length`, "0")
	if got := p.text(`verdict.textContent`); !strings.Contains(got, "onerror") {
		t.Errorf("verdict %q", got)
	}
	p.quiet()
}

package dashboard_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/penstock-ml/penstock/api/pb"
)

// Charts show what is read: workers that could do a hundred times more do not flatten it, and one that was lost is
// marked.
func TestChartsShowWhatIsRead(t *testing.T) {
	srv, s := fleet(t, 10, 3)
	s.set(func(s *source) {
		for _, p := range s.seen.GetPoints() {
			p.Rate, p.Demand, p.Capacity = 1000, 1200, 120_000
		}
		s.happened = append(s.happened, &pb.Event{
			Number: 6, UnixMs: s.seen.GetNowUnixMs() - 60_000, Kind: pb.EventKind_WORKER, Worker: "worker-11", Lost: 1,
			Words: "worker-11 is gone, and was not seen to drain; the fleet has 10 workers",
		})
	})
	p := visit(t, srv.URL, wide)
	p.is(`[...document.querySelectorAll("#chart-rows svg text")].slice(0, 3).map(e => e.textContent)`, "0,750,1.50 k")
	// bytes have theirs at each number
	p.is(`[...document.querySelectorAll("svg .unit")].map(e => e.textContent)`,
		"rows/s,workers,rows/s,of trainers' time")
	p.is(
		`[...document.querySelectorAll("#chart-workers .marks .lost")].map(e => e.getAttribute("aria-label").slice(9))`,
		"worker-11 is gone, and was not seen to drain; the fleet has 10 workers")
	p.is(`document.querySelectorAll("#chart-rows svg .mark").length`, "2")
	p.quiet()
}

// Sessions that are not read say so wherever they stand.
func TestStatesOfSessions(t *testing.T) {
	srv, s := fleet(t, 2, 3)
	s.set(func(s *source) {
		for i, state := range []pb.SessionState{
			pb.SessionState_WAITING, pb.SessionState_IDLE,
			pb.SessionState_ABANDONED,
		} {
			one := s.seen.GetSessions()[i]
			one.State, one.Bottleneck, one.Verdict = state, pb.Bottleneck_NONE, "it is so for 12 min"
		}
		s.seen.Bottleneck, s.seen.Verdict = pb.Bottleneck_NONE, "no session is read: 1 waiting, 1 idle, 1 abandoned"
	})
	p := visit(t, srv.URL, wide)
	p.is(`bottleneck.textContent`, "nothing is read")
	p.is(
		`[...document.querySelectorAll("#table-sessions tbody tr")].map(r => r.cells[0].textContent + " " + r.cells[1].textContent).sort()`,
		"run-0 waiting,run-1 idle,run-2 abandoned")
	p.run(chromedp.Evaluate(`location.hash = "#session=run-2"`, nil))
	p.until(`document.body.dataset.painted > 0 && bottleneck.textContent === "abandoned"`)
	p.is(`verdict.textContent`, "It is so for 12 min")
	p.is(`document.querySelector("[data-of=demand]").textContent`, "none ")
	p.is(`document.querySelector("[data-of=trainers] small").textContent`, "of 9")
	p.quiet()
}

// On a phone, tables scroll below the names of their rows, and a session's page begins at its top.
func TestPhone(t *testing.T) {
	srv, _ := fleet(t, 10, 3)
	p := visit(t, srv.URL, narrow)
	p.is(`document.documentElement.scrollWidth <= innerWidth`, "true")
	for _, table := range []string{"sessions", "workers", "trainers"} {
		box := `document.querySelector("#table-` + table + ` .scroll")`
		p.run(chromedp.Evaluate(box+`.scrollLeft = 80`, nil))
		p.is(box+`.scrollLeft`, "80")
		p.is(
			`Math.abs(`+box+`.querySelector("tbody th").getBoundingClientRect().left - `+box+`.getBoundingClientRect().left) < 1`, "true")
	}
	p.run(chromedp.Evaluate(`scrollTo(0, document.body.scrollHeight)`, nil))
	p.until(`scrollY > 500`)
	p.run(chromedp.Evaluate(`document.querySelector("#table-sessions a").click()`, nil))
	p.until(`document.title.startsWith("run-") && scrollY === 0`)
	p.until(`document.querySelector("[data-of='batches come']")?.textContent === "75% by link 25% by gRPC"`)
	p.quiet()
}

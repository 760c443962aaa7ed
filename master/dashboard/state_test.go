package dashboard_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/dashboard"
)

// A demand without bound leaves the chart, and flattens nothing.
func TestDemandWithoutBound(t *testing.T) {
	srv, s := fleet(t, 3, 2)
	s.set(func(s *source) {
		for _, p := range s.seen.GetPoints()[150:] {
			p.Demand, p.Needed = 1e9, 5e4
		}
		s.seen.Sessions[0].Demand, s.seen.Sessions[0].Needed = 1e9, 5e4
	})
	p := visit(t, srv.URL, wide)
	p.picture("unbounded")
	p.is(
		`[...document.querySelectorAll("#chart-rows .legend")].find(e => e.textContent.startsWith("demand")).querySelector("b").textContent`, "all that comes")
	p.is(`document.querySelector("#chart-rows .beyond").textContent`, "demand goes beyond the chart")
	p.is(`document.querySelector("#chart-workers .beyond").textContent`, "needed goes beyond the chart")
	for _, chart := range []string{"rows", "workers"} {
		p.is(`document.querySelector("#chart-`+chart+` path.rate").getBBox().height > 30`, "true")
		p.is(`document.querySelector("#chart-`+chart+` path.demand").getBBox().y >= 0`, "true")
	}
	p.is(
		`[...document.querySelectorAll("#table-sessions tbody tr")].find(r => r.cells[0].textContent === "run-0").cells[7].textContent`, "all there are")
	p.is(`document.querySelector("[data-of=workers] small").textContent`, "of 3 wanted")
	p.quiet()
}

// Sessions that are over, or gone, are told of as such. The way back leads to what was seen before.
func TestSessionsThatAreOver(t *testing.T) {
	srv, s := fleet(t, 3, 2)
	s.set(func(s *source) {
		s.over = []*pb.SessionLoad{
			{
				Session: "run-8", State: pb.SessionState_FINISHED, Bottleneck: pb.Bottleneck_NONE,
				Verdict:  "session run-8 has finished: 4,000 rows were handed over",
				Progress: &pb.Progress{RowsDelivered: 4000, Epoch: 2},
			},
			{
				Session: "run-9", State: pb.SessionState_FAILED, Bottleneck: pb.Bottleneck_NONE,
				Verdict:  "session run-9 has failed: part-17.parquet: checksum differs",
				Progress: &pb.Progress{RowsDelivered: 77},
			},
		}
	})
	p := visit(t, srv.URL+"/#range=60", wide)
	p.until(`document.querySelectorAll("#table-over tbody tr").length === 2`)
	p.is(`document.querySelectorAll("#table-sessions tbody tr").length`, "2")
	p.is(
		`[...document.querySelectorAll("#table-over tbody tr")].find(r => r.cells[0].textContent === "run-9").textContent.includes("checksum differs")`, "true")
	p.run(chromedp.Click(`#table-over tbody a[href*="run-9"]`, chromedp.ByQuery))
	p.until(`bottleneck.textContent === "failed"`)
	p.picture("failed")
	p.is(`verdict.textContent`, "Session run-9 has failed: part-17.parquet: checksum differs")
	p.is(`location.hash`, "#session=run-9&range=60")
	p.is(`document.querySelector("#chart-rows").checkVisibility()`, "false")
	p.is(`document.querySelector("[data-of='handed over']").textContent`, "77 rows")
	p.accessible()
	p.run(chromedp.NavigateBack())
	p.until(`bottleneck.textContent !== "failed" && document.querySelectorAll("#table-sessions tbody tr").length === 2`)
	p.is(`location.hash`, "#range=60")
	p.is(`document.querySelector("#chart-rows").checkVisibility()`, "true")
	// A link to a session that was deleted.
	p.run(chromedp.Evaluate(`location.hash = "#session=run-77"`, nil))
	p.until(`bottleneck.textContent === "not there"`)
	p.picture("gone")
	p.is(`verdict.textContent`, `Session "run-77" does not exist`)
	p.is(`condition.textContent`, "live")
	p.accessible()
	p.run(chromedp.Click("#back", chromedp.ByQuery))
	p.until(`document.querySelectorAll("#table-sessions tbody tr").length === 2`)
	p.run(chromedp.Click("#range label:first-of-type", chromedp.ByQuery))
	p.is(`location.hash`, "#range=5")
	p.run(chromedp.NavigateBack())
	p.until(`document.querySelector("[name=range]:checked").value === "15"`)
	p.quiet()
}

// What sessions leave out is told of with how many may be, and the first rows by name; it is counted on.
func TestWhatIsLeftOut(t *testing.T) {
	srv, s := fleet(t, 3, 2)
	rows := func(n uint64) {
		s.set(func(s *source) {
			s.left = &pb.Session{
				Spec:        &pb.Spec{OnError: &pb.OnError{Skip: 3, SkipRows: 1000}},
				SkippedRows: []*pb.EpochRows{{Epoch: 1, Rows: n}}, SkippedRowGroups: 2,
				BadRows: []*pb.NamedRow{
					{Epoch: 0, File: "s3://b/0.tar", Row: 3, Cause: "of another epoch"},
					{Epoch: 1, File: "s3://b/1.tar", Row: 17, Cause: "decode_jpeg: <b>damaged</b>"},
				},
				Skipped: []*pb.SkippedRows{{File: "s3://b/2.parquet", RowGroup: 4, Cause: "checksum differs"}},
			}
		})
	}
	rows(1234)
	p := visit(t, srv.URL, wide)
	p.until(`document.querySelectorAll("#table-left tbody tr").length === 2`)
	cells := `[...document.querySelectorAll("#table-left tbody tr")].map(r => [...r.cells].map(c => c.textContent).join("|")).join("\n")`
	p.is(cells, "run-7|2|1,234 rows|1,000|s3://b/1.tar row 17: decode_jpeg: <b>damaged</b>\n"+
		"run-7|all|2 extents|3|s3://b/2.parquet extent 4: checksum differs")
	p.picture("left-out")
	p.accessible()
	rows(2000)
	p.until(cells + `.includes("2,000 rows")`)
	p.quiet()
}

// While its master is dead, or keeps the connection and says nothing, the page says since when it has heard nothing. It
// goes on by itself when another master answers at the address.
func TestMasterIsLost(t *testing.T) {
	s := &source{seen: generate(3, 1, 300, 1)}
	shift(s.seen, nil, time.Now())
	silent := make(chan struct{})
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
			<-r.Context().Done()
		default:
			dashboard.New(dashboard.Config{Source: s, Every: 100 * time.Millisecond, Life: time.Second}).ServeHTTP(w, r)
		}
	}))
	defer first.Close()
	p := visit(t, first.URL, wide)
	p.until(`condition.textContent === "live"`)
	close(silent) // its streams end, and the next ones begin with nothing
	p.until(
		`condition.textContent === "this master is silent; reconnecting" && /^last heard \d+ s ago$/.test(heard.textContent)`)
	first.CloseClientConnections()
	first.Listener.Close()
	p.until(`condition.textContent.includes("does not answer") && /^last heard \d+ s ago$/.test(heard.textContent)`)
	p.picture("lost")
	s.set(func(s *source) {
		s.seen.Points = append(s.seen.GetPoints(), &pb.FleetPoint{UnixMs: time.Now().UnixMilli(), Rate: 777})
	})
	listener, err := net.Listen("tcp", first.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	second := &http.Server{Handler: dashboard.New(dashboard.Config{Source: s, Every: 100 * time.Millisecond})}
	served := make(chan error, 1)
	go func() { served <- second.Serve(listener) }()
	defer func() {
		second.Close()
		<-served
	}()
	p.until(`condition.textContent === "live" && heard.textContent === ""`)
	p.until(`document.querySelector("[data-of=delivered]").textContent.startsWith("777 rows/s")`)
}

// However many look, the fleet is observed once a round.
func TestViewersShareRounds(t *testing.T) {
	const viewers, rounds = 20, 5
	s := &source{seen: generate(10, 1, 10, 1)}
	srv := serve(t, dashboard.Config{Source: s, Every: 500 * time.Millisecond, Viewers: 4 * viewers})
	var all []func() message
	for range viewers {
		next, _ := watch(t, srv.URL+"/api/v1/stream?workers=1", "") //nolint:bodyclose // watch closes it
		all = append(all, next)
	}
	kinds := map[string]int{}
	for _, next := range all {
		for m := next(); ; m = next() {
			if kinds[m.kind]++; m.kind == "observation" {
				break
			}
		}
	}
	if kinds["workers"] != viewers || kinds["observation"] != viewers {
		t.Errorf("first messages %v", kinds)
	}
	var before, after int
	s.set(func(s *source) { before = s.asked })
	for range rounds {
		for _, next := range all {
			for next().kind != "observation" {
			}
		}
	}
	s.set(func(s *source) { after = s.asked })
	if n := after - before; n > 2*rounds { // the last viewers to come may be a round ahead
		t.Errorf("observed %d times for %d rounds of %d viewers", n, rounds, viewers)
	}
}

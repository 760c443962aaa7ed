package dashboard_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/penstock-ml/penstock/api/pb"
)

// node is what a screen reader knows of an element.
type node struct{ role, name string }

// tree is the page as a screen reader has it.
func (p *tab) tree() (out []node) {
	p.Helper()
	type value struct {
		Value any `json:"value"`
	} // cdproto's types know fewer names than browsers
	var tree struct {
		Nodes []struct {
			Ignored bool  `json:"ignored"`
			Role    value `json:"role"`
			Name    value `json:"name"`
		} `json:"nodes"`
	}
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		if err := accessibility.Enable().Do(ctx); err != nil {
			return err
		}
		return cdp.Execute(ctx, accessibility.CommandGetFullAXTree, accessibility.GetFullAXTree(), &tree)
	}))
	for _, n := range tree.Nodes {
		if !n.Ignored {
			role, _ := n.Role.Value.(string)
			name, _ := n.Name.Value.(string)
			out = append(out, node{role, name})
		}
	}
	return out
}

// A screen reader finds landmarks, headings, named tables with heads, and a text for each picture.
func TestScreenReader(t *testing.T) {
	srv, s := fleet(t, 3, 2)
	p := visit(t, srv.URL, wide)
	p.until(`condition.textContent === "live"`)
	names := map[string][]string{}
	for _, n := range p.tree() {
		names[n.role] = append(names[n.role], n.name)
		if slices.Contains([]string{
			"button", "link", "img", "image", "combobox", "radio", "table", "columnheader",
			"region", "navigation",
		}, n.role) && n.name == "" {
			t.Errorf("a %s has no name", n.role)
		}
	}
	for role, want := range map[string][]string{
		"banner": {""}, "main": {""}, "contentinfo": {""},
		"heading": {
			"Penstock", "Demand, capacity and workers", "Throughput by session", "Stall", "Sessions", "Epoch",
			"Where time goes", "Trainers", "Bytes", "Workers", "Events",
		},
		"table": {"Sessions", "Where the time of streams goes", "Trainers", "Workers"},
	} {
		if !slices.Equal(names[role], want) {
			t.Errorf("%ss are %q, want %q", role, names[role], want)
		}
	}
	for _, want := range []string{
		"Rows per second. capacity ", "Workers. workers 3", "Stall. ", "Bytes per second. ",
		"run-0, epoch 1: ", "3 workers, ", "16 trainers, ",
	} {
		if !slices.ContainsFunc(append(names["image"], names["img"]...),
			func(name string) bool { return strings.HasPrefix(name, want) }) {
			t.Errorf("no picture is %q; they are %q", want, names["image"])
		}
	}
	for _, want := range []string{"Stall", "What holds it up", "Busy", "Streams busy with it"} {
		if !slices.Contains(names["columnheader"], want) {
			t.Errorf("no column is %q; they are %q", want, names["columnheader"])
		}
	}
	// What is said by itself is what changes for people: not each number, nor how long ago it was.
	if live := p.lines(
		`[...document.querySelectorAll("[aria-live], [role=status], [role=alert]")].map(e => e.id)`); !slices.Equal(
		live, []string{"condition", "announce", "said"}) {
		t.Errorf("live regions are %q", live)
	}
	said := p.text(`announce.textContent`)
	s.set(func(s *source) { s.seen.Verdict = "trainers wait 0.9% of the time" })
	p.until(`verdict.textContent.includes("0.9%")`)
	p.is(`announce.textContent`, said)
	s.set(func(s *source) {
		s.seen.Verdict, s.seen.Bottleneck = "storage is the bottleneck", pb.Bottleneck_STORAGE
	})
	p.until(`announce.textContent === "storage is the bottleneck"`)
	// Each chart has its numbers in a table.
	p.is(`document.querySelectorAll("figure").length === document.querySelectorAll("figure details table").length`,
		"true")
	p.run(chromedp.Focus("#chart-rows summary", chromedp.ByQuery))
	p.key(kb.Enter)
	p.until(`document.querySelectorAll("#chart-rows details tbody tr").length > 10`)
	p.is(`[...document.querySelectorAll("#chart-rows details thead th")].map(e => e.textContent).join()`,
		"Time,capacity,demand,delivered")
	p.quiet()
}

// Keys read each point of a chart and each cell of a heat map, which are said; what moves stands still for those who
// ask for it.
func TestKeysRead(t *testing.T) {
	srv, _ := fleet(t, 40, 2)
	p := visit(t, srv.URL, wide)
	p.run(chromedp.Focus("#chart-stall svg", chromedp.ByQuery))
	p.key(kb.Home)
	p.until(`/all trainers: [56]\d%/.test(said.textContent)`)
	first := p.text(`said.textContent`)
	p.key(kb.ArrowRight)
	p.until(`said.textContent !== ` + strconv.Quote(first))
	// The line stands at the same time on all charts.
	p.is(`new Set([...document.querySelectorAll("svg .cross")].map(e => e.closest("figure"))).size`, "5")
	p.key(kb.Escape)
	p.is(`tip.hidden && document.querySelectorAll("svg .cross").length`, "0")
	p.run(chromedp.Focus("#heat-workers .heat", chromedp.ByQuery))
	p.key(kb.ArrowRight, kb.ArrowRight)
	p.until(`tip.textContent.startsWith("worker-1: busy ") && said.textContent === tip.textContent`)
	p.is(`getComputedStyle(document.querySelector(".heat .here")).outlineStyle`, "solid")
	p.key(kb.End)
	p.until(`tip.textContent.startsWith("worker-39: busy ")`)
	p.key(kb.Escape)
	p.is(`tip.hidden`, "true")
	p.is(`getComputedStyle(document.querySelector(".strip i")).transitionDuration`, "0s")
	p.quiet()
}

// Colours stand out as WCAG's level AA asks, in both modes: text by 4.5 to 1, lines and marks by 3 to 1.
func TestColours(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("page", "style.css"))
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(
		`--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);`).FindAllStringSubmatch(string(text), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	pairs := map[float64][][2]string{4.5: {
		{"good", "good-ground"},
		{"warn", "warn-ground"},
		{"bad", "bad-ground"},
		{"ink", "idle-ground"},
		{"c-demand", "card"},
		{"ground", "ink"},
	}}
	for _, front := range []string{"ink", "muted", "link"} {
		for _, background := range []string{"ground", "card", "hover"} {
			pairs[4.5] = append(pairs[4.5], [2]string{front, background})
		}
	}
	for name := range colours {
		if regexp.MustCompile(`^(c[0-9]|c-.*|heat.*|good|warn|bad)$`).MatchString(name) &&
			!strings.HasSuffix(name, "-ground") {
			pairs[3] = append(pairs[3], [2]string{name, "card"})
		}
	}
	if len(pairs[3]) < 12 {
		t.Fatalf("found but %v in %v", pairs[3], colours)
	}
	for minContrast, some := range pairs {
		for _, pair := range some {
			for mode, name := range []string{"light", "dark"} {
				a, b := luminance(t, colours[pair[0]][mode]), luminance(t, colours[pair[1]][mode])
				if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); got < minContrast {
					t.Errorf("%s on %s, %s: %.2f, want %.1f", pair[0], pair[1], name, got, minContrast)
				}
			}
		}
	}
}

// luminance is a colour's as WCAG defines it.
func luminance(t *testing.T, colour string) (sum float64) {
	t.Helper()
	var rgb [3]uint8
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
		t.Fatalf("%q: %v", colour, err)
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		x := float64(rgb[i]) / 255
		if x <= 0.04045 {
			x /= 12.92
		} else {
			x = math.Pow((x+0.055)/1.055, 2.4)
		}
		sum += weight * x
	}
	return sum
}

package dashboard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/penstock-ml/penstock/master/dashboard/dashboardtest"
)

// patience bounds each test: a browser that does not come to what is waited for.
const patience = time.Minute

// tab is an open page.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // that the browser's console has
}

// view is how the page is looked at.
type view struct {
	width, height int64
	dark          bool
}

var wide, narrow = view{width: 1440, height: 1000}, view{width: 390, height: 844} //nolint:gochecknoglobals // constants

// visit opens a page and waits until it has drawn.
func visit(t *testing.T, url string, v view) *tab {
	t.Helper()
	p := &tab{T: t, ctx: dashboardtest.Browser(t, patience)}
	chromedp.ListenTarget(p.ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.problems = append(p.problems, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				p.problems = append(p.problems, fmt.Sprint(e.Type, " ", string(e.Args[0].Value), e.Args[0].Description))
			}
		case *log.EventEntryAdded: // what the browser itself says: policies broken, files not found
			p.problems = append(p.problems, fmt.Sprint(e.Entry.Level, " ", e.Entry.Text, " ", e.Entry.URL))
		}
	})
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	p.run(
		log.Enable(),
		chromedp.EmulateViewport(v.width, v.height),
		emulation.SetEmulatedMedia().WithFeatures(
			[]*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme},
				{Name: "prefers-reduced-motion", Value: "reduce"},
			}),
		chromedp.Navigate(url),
	)
	p.until(`document.body?.dataset.painted > 0`)
	return p
}

func (p *tab) run(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.Fatalf("%v; console: %q", err, p.problems)
	}
}

// until waits for an expression to be true.
func (p *tab) until(expression string) {
	p.Helper()
	p.run(chromedp.Poll("Boolean("+expression+")", nil, chromedp.WithPollingInterval(50*time.Millisecond)))
}

// text evaluates an expression to text.
func (p *tab) text(expression string) (out string) {
	p.Helper()
	p.run(chromedp.Evaluate("String("+expression+")", &out))
	return out
}

// lines evaluates an expression to several texts.
func (p *tab) lines(expression string) (out []string) {
	p.Helper()
	p.run(chromedp.Evaluate("Array.from("+expression+", String)", &out))
	return out
}

// key presses keys, such as kb.Tab.
func (p *tab) key(keys ...string) {
	p.Helper()
	for _, k := range keys {
		p.run(chromedp.KeyEvent(k))
	}
}

// quiet holds the console to be empty.
func (p *tab) quiet() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.problems) > 0 {
		p.Errorf("the console says: %s", strings.Join(p.problems, "\n"))
	}
}

// picture writes the whole page to the folder that PENSTOCK_SCREENSHOTS names, for people to look at.
func (p *tab) picture(name string) {
	p.Helper()
	dir := os.Getenv("PENSTOCK_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	p.run(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		p.Fatal(err)
	}
}

// Package dashboardtest starts browsers for tests that look at the dashboard. Each has one user.
package dashboardtest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Browser starts a Chromium, which ends with the test, or after patience. It skips where there is none, but in CI.
func Browser(t *testing.T, patience time.Duration) context.Context {
	t.Helper()
	path := os.Getenv("PENSTOCK_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Chromium; .ci/run installs it")
		}
		t.Skip("there is no Chromium; install one, or name it with PENSTOCK_CHROMIUM")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	return ctx
}

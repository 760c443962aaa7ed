package cache_test

import (
	"io"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/cmd/cache"
)

// TestFlags: each mistake is said with what to do.
func TestFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--dir and --bucket are needed":  {"--dir=DIR"},
		"such as --bucket team-a=100GiB": {"--dir=DIR", "--bucket=a"},
		"want NAME=BYTES":                {"--dir=DIR", "--bucket=a=0"},
		`found "A"`:                      {"--dir=DIR", "--bucket=A=1GiB"},
		`found ""`:                       {"--dir=DIR", "--bucket=a=1GiB,"},
		"another process has":            {"--dir=DIR", "--bucket=a=1GiB", "--bucket=a=1GiB"},
		"set --tls-cert and --tls-key, or --plain-http": {"--dir=DIR", "--bucket=a=1GiB", "--listen=0.0.0.0:0"},
		"others cannot reach cache-[::]":                {"--dir=DIR", "--bucket=a=1GiB", "--listen=:0", "--plain-http"},
		"absent: no such file":                          {"--dir=DIR", "--bucket=a=1GiB", "--tokens=DIR/absent"},
	} {
		cmd := cache.Command("v1")
		dir := t.TempDir()
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "DIR", dir)
		}
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", args, err, want)
		}
	}
}

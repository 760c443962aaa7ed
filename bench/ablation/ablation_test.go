package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All variants, with few rows; a variant that loses rows fails.
func TestAblation(t *testing.T) {
	out := t.TempDir()
	cmd := command()
	cmd.SetArgs([]string{"--out", out, "--data", t.TempDir(), "--rounds", "1", "--rows", "2000", "--latency", "1ms"})
	cmd.SetErr(t.Output())
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "ablation.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants() {
		if !strings.Contains(string(page), "| "+v.name+" |") {
			t.Errorf("the page lacks %q:\n%s", v.name, page)
		}
	}
}

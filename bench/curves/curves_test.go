package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All curves, with few rows.
func TestCurves(t *testing.T) {
	out := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Rel(here, t.TempDir()) // as the default is
	if err != nil {
		t.Fatal(err)
	}
	cmd := command()
	cmd.SetArgs([]string{"--out", out, "--data", data, "--rounds", "1", "--scale", "0.001", "--only", "features,shards"})
	cmd.SetErr(t.Output())
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "curves.md"))
	if err != nil {
		t.Fatal(err)
	}
	if chart, err := os.ReadFile(filepath.Join(out, "curves.png")); err != nil || http.DetectContentType(chart) != "image/png" {
		t.Errorf("no chart: %v", err)
	}
	for _, want := range []string{"| 10000 |", "ns a value", "master in the first session, ns a shard"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestMedians(t *testing.T) {
	got := medians([]cost{{Workers: 3, Master: 1, First: 5}, {Workers: 1, Master: 1, First: 4}, {Workers: 100, Master: 2, First: 9}}, 10)
	if want := (cost{Workers: 30, Master: 10, First: 50}); got != want {
		t.Errorf("found %v, want %v", got, want)
	}
}

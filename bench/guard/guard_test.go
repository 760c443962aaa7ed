package main

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResults(t *testing.T) {
	out := []byte(`goos: linux
BenchmarkBuild/sparse_with_nulls/in_order         	     102	    116601 ns/op	         1.779 ns/element	     874 B/op	      14 allocs/op
BenchmarkOps/sigrid_hash/list<int64>         	    1716	    211407 ns/op	 305 B/op	       0 allocs/op
PASS
`)
	want := []result{{"Build/sparse_with_nulls/in_order", 14}, {"Ops/sigrid_hash/list<int64>", 0}}
	if diff := cmp.Diff(want, results(out), cmp.AllowUnexported(result{})); diff != "" {
		t.Error(diff)
	}
}

func TestBaseline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "baseline.txt")
	want := costs{{"./a", "X/y"}: {12, 3}, {"./b", "Z"}: {1 << 40, 0}}
	if err := writeCosts(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := readCosts(path)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(name{}, cost{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestCompare(t *testing.T) {
	at := name{"./a", "X"}
	for _, c := range []struct {
		what        string
		before, now costs
		worse       bool
	}{
		{"the same", costs{at: {1000, 3}}, costs{at: {1000, 3}}, false},
		{"within the slack", costs{at: {1000, 100}}, costs{at: {1049, 105}}, false},
		{"cheaper", costs{at: {1000, 3}}, costs{at: {10, 0}}, false},
		{"takes more instructions", costs{at: {1000, 3}}, costs{at: {1060, 3}}, true},
		{"allocates more", costs{at: {1000, 0}}, costs{at: {1000, 1}}, true},
		{"is gone", costs{at: {1000, 0}}, costs{}, true},
		{"is not in the baseline", costs{}, costs{at: {1000, 0}}, true},
	} {
		var out strings.Builder
		err := compare(&out, c.before, c.now)
		if (err != nil) != c.worse || c.worse && !strings.Contains(out.String(), c.what) {
			t.Errorf("%s: %v, it printed\n%s", c.what, err, &out)
		}
	}
}

func TestCheapest(t *testing.T) {
	lucky, unlucky, other := name{"./a", "X"}, name{"./a", "Y"}, name{"./b", "Z"}
	before := costs{lucky: {1000, 0}, unlucky: {1000, 0}, other: {1000, 0}}
	now := costs{lucky: {1000, 0}, unlucky: {1100, 1}, other: {1200, 0}}
	worse := before.worse(now)
	if want := (costs{unlucky: {1100, 1}, other: {1200, 0}}); !maps.Equal(worse, want) {
		t.Errorf("above the baseline: %v, want %v", worse, want)
	}
	again := now.cheapest(costs{unlucky: {1010, 0}, other: {1300, 0}})
	if want := (costs{lucky: {1000, 0}, unlucky: {1010, 0}, other: {1200, 0}}); !maps.Equal(again, want) {
		t.Errorf("the lower of both: %v, want %v", again, want)
	}
}

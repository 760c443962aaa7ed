package storage

import (
	"path"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, uri string
		want         bool
	}{
		{"s3://b/d/*.parquet", "s3://b/d/x.parquet", true},
		{"s3://b/d/*.parquet", "s3://b/d/e/x.parquet", false},
		{"s3://b/d/**", "s3://b/d/e/x.csv", true},
		{"s3://b/**/x", "s3://b/x", true},
		{"s3://b/**/x", "s3://b/a/b/c/x", true},
		{"s3://b/**/x", "s3://b/_tmp/x", false},
		{"s3://b/**/**/x/**", "s3://b/a/x/y", true},
		{"s3://b/part-?", "s3://b/part-10", false},
		{"s3://b/[!a]", "s3://b/a", true}, // as in path.Match, [^a] negates
		{"s3://b/[^a]", "s3://b/a", false},
		{"s3://b/*", "s3://b/.x", false},
		{"s3://b/.*", "s3://b/.x", true},
		{"s3://b/d=*/", "s3://b/d=1/e/x.parquet", true},
		{"s3://b/d=*/", "s3://b/d=1/e/x.orc", false},
		{"s3://b/d=*/", "s3://b/d=1", false},
	} {
		g, prefix, err := newGlob(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.finds(tc.uri, data()); got != tc.want {
			t.Errorf("%s, %s: %v, want %v", tc.pattern, tc.uri, got, tc.want)
		}
		if tc.want && !strings.HasPrefix(tc.uri, prefix) {
			t.Errorf("%s matches %s, but has prefix %s", tc.pattern, tc.uri, prefix)
		}
	}
}

// FuzzGlob checks that what a glob matches has its prefix and lies where it enters, and that it agrees with
// path.Match on single levels.
func TestFinds(t *testing.T) {
	for _, c := range []struct {
		uri, file string
		want      bool
	}{
		{"file:///data/", "file:///data/a.parquet", true},
		{"file:///data", "file:///data/day=1/a.parquet", true},
		{"file:///data/", "file:///data/_day=1/a.parquet", true},
		{"file:///data/", "file:///data/_a.parquet", false},
		{"file:///data/", "file:///data/.fitted/a.parquet", false},
		{"file:///data/", "file:///database/a.parquet", false},
		{"file:///data/*.parquet", "file:///data/a.parquet", true},
		{"file:///data/*.parquet", "file:///data/_a.parquet", false},
		{"file:///data/*.parquet", "file:///data/below/a.parquet", false},
		{"file:///data/**/*.parquet", "file:///data/below/a.parquet", true},
	} {
		if got := Finds(c.uri, c.file); got != c.want {
			t.Errorf("%s among %s: %v", c.file, c.uri, got)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a/*.parquet", "a/x.parquet")
	f.Add("**/x/?", "a/b/x/y")
	f.Add("d=[0-9]*/", "d=1/p.parquet")
	f.Add(`a\*b/**`, "a*b/c/d")
	f.Add("**/**/**/**/**/**/a", strings.Repeat("a/", 40)+"b")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		const base = "s3://b/"
		if !isGlob(pattern) {
			return
		}
		g, prefix, err := newGlob(base + pattern)
		if err != nil {
			return
		}
		matches := g.match(base + name)
		if matches && !strings.HasPrefix(base+name, prefix) && !strings.Contains(pattern, `\`) {
			t.Errorf("%q matches %q, but has prefix %q", pattern, name, prefix)
		}
		if dir := path.Dir(name); matches && dir != "." && strings.HasPrefix(base+dir+"/", g.base) &&
			len(base+dir+"/") > len(g.base) && dir+"/"+path.Base(name) == name && !g.enter(base+dir+"/") {
			t.Errorf("%q matches %q, but does not enter %q", pattern, name, dir)
		}
		if !strings.Contains(pattern, "/") && pattern != "**" && name != "" && !isHidden(name) {
			if want, _ := path.Match(pattern, name); want != matches {
				t.Errorf("%q, %q: %v, path.Match says %v", pattern, name, matches, want)
			}
		}
	})
}

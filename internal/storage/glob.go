package storage

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// glob is a pattern, level by level, of what follows its fixed prefix's last "/".
type glob struct {
	base   string // the fixed levels, up to and with a "/"
	levels []string
	dirs   bool // it names directories: what lies below them is filtered like a directory's files
}

// wildcards are the characters that make a URI a pattern.
const wildcards = `*?[\`

func isGlob(uri string) bool { return strings.ContainsAny(uri, wildcards) }

// Quote makes a URI, or a path, of which no character is a wildcard, or a brace that stands for several names.
func Quote(uri string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `\`, `\\`).Replace(uri)
}

// Fixed is a canonical URI up to what may stand for several names.
func Fixed(uri string) string {
	if at := strings.IndexAny(uri, wildcards+"{"); at >= 0 {
		return uri[:at]
	}
	return uri
}

// newGlob splits a pattern and returns the fixed prefix of all that it can match.
func newGlob(uri string) (g glob, prefix string, err error) {
	prefix = uri[:strings.IndexAny(uri, wildcards)]
	cut := strings.LastIndexByte(prefix, '/') + 1
	g.base = uri[:cut]
	rest, dirs := strings.CutSuffix(uri[cut:], "/")
	g.levels, g.dirs = strings.Split(rest, "/"), dirs
	if dirs {
		g.levels = append(g.levels, "**")
	}
	for _, l := range g.levels {
		if _, err := path.Match(l, ""); err != nil {
			return g, "", fmt.Errorf("%s: %q is not a valid pattern", uri, l)
		}
	}
	return g, prefix, nil
}

// Finds reports whether a file is one of those that List finds by a URI, both canonical, once it is there: one below
// the directory, or one that the glob matches.
func Finds(uri, file string) bool {
	if checkBraces(uri) != nil || countNames(uri) > maxNames {
		return false
	}
	for name := range names(uri) {
		if one, err := Canonical(name); err == nil && findsByName(one, file) {
			return true
		}
	}
	return false
}

func findsByName(uri, file string) bool {
	if isGlob(uri) {
		g, _, err := newGlob(uri)
		return err == nil && g.finds(file, data())
	}
	below, isBelow := strings.CutPrefix(file, strings.TrimSuffix(uri, "/")+"/")
	return isBelow && !slices.ContainsFunc(strings.Split(below, "/"), isHidden)
}

// flat reports whether the glob matches no file below a further level.
func (g glob) flat() bool { return len(g.levels) == 1 && g.levels[0] != "**" }

// finds reports whether the glob stands for a file, of its directories those of a kind.
func (g glob) finds(uri string, kind Kind) bool { return g.match(uri) && (!g.dirs || kind.Has(uri)) }

// fate is what becomes of a file. A pattern of names tells by itself what it leaves out; one of directories does not
// tell of what these hold.
func (g glob) fate(f *pb.File, kind Kind) fate {
	switch matches := g.match(f.GetUri()); {
	case matches && g.dirs:
		return kind.fate(f)
	case matches && kind.NotEmpty && f.GetSize() == 0:
		return empty
	case matches:
		return wanted
	}
	level := hiddenLevel(g.base, f.GetUri())
	if at := strings.LastIndexByte(level, '/'); g.dirs && at >= 0 && g.match(level[:at]) {
		return hidden
	}
	return unasked
}

func (g glob) match(uri string) bool {
	rest, ok := strings.CutPrefix(uri, g.base)
	return ok && matchLevels(g.levels, strings.Split(rest, "/"))
}

// enter reports whether the glob may match something below dir, which ends in "/".
func (g glob) enter(dir string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(dir, "/"), g.base)
	return ok && entersLevels(g.levels, strings.Split(rest, "/"))
}

// matchLevels matches names one by one; first of the patterns a "**" may stand for any number of them. reach[i]
// says that the patterns before i match all names so far: no pattern makes it slow.
func matchLevels(pattern, names []string) bool {
	reach := reachable(pattern, names)
	return reach[len(pattern)]
}

func entersLevels(pattern, names []string) bool {
	for i, ok := range reachable(pattern, names) {
		if ok && i < len(pattern) {
			return true
		}
	}
	return false
}

// reachable says for each number of patterns whether these match all the names.
func reachable(pattern, names []string) []bool {
	reach := make([]bool, len(pattern)+1)
	reach[0] = true
	skipStars(pattern, reach)
	for _, name := range names {
		next := make([]bool, len(pattern)+1)
		for i, p := range pattern {
			switch {
			case !reach[i]:
			case p == "**" && !isHidden(name):
				next[i] = true
			case p != "**" && matchLevel(p, name):
				next[i+1] = true
			}
		}
		skipStars(pattern, next)
		reach = next
	}
	return reach
}

// skipStars lets each "**" match nothing.
func skipStars(pattern []string, reach []bool) {
	for i, p := range pattern {
		if reach[i] && p == "**" {
			reach[i+1] = true
		}
	}
}

func matchLevel(pattern, name string) bool {
	if isHidden(name) && pattern[:min(1, len(pattern))] != name[:1] {
		return false
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// isHidden reports whether a level of a path marks what is no data: "_SUCCESS", "_metadata", ".crc".
func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") && !strings.Contains(name, "=")
}

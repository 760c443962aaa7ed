package splits

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// maxPatterns bounds the paths with wildcards of a split: each file is compared with all of them.
const maxPatterns = 1000

// pattern is a path with wildcards, as fsspec has them: *, ? and [..] within one level, and ** as a level by itself for
// any number of them.
type pattern struct {
	fixed string // what names begin with
	own   string // the last level: a name that is ignored else is none if it is spelled
	all   *regexp.Regexp
}

func hasWildcards(path string) bool { return strings.ContainsAny(path, "*?[") }

func newPattern(of string) (pattern, error) {
	levels := strings.Split(of, "/")
	var re strings.Builder
	re.WriteString(`(?s)\A`)
	for i, level := range levels {
		last := i == len(levels)-1
		switch {
		case level == "**" && last:
			re.WriteString(`.*`)
			continue
		case level == "**":
			re.WriteString(`(?:.+/)?`)
			continue
		case strings.Contains(level, "**"):
			return pattern{}, fmt.Errorf("path %q: ** stands for whole levels: write **/* in place of **", of)
		case level == "*":
			re.WriteString(`[^/]+`)
		default:
			writeLevel(&re, level)
		}
		if !last {
			re.WriteByte('/')
		}
	}
	re.WriteString(`\z`)
	all, err := regexp.Compile(re.String())
	if err != nil {
		return pattern{}, fmt.Errorf("path %q has wildcards that cannot be read: correct them", of)
	}
	return pattern{of[:strings.IndexAny(of, "*?[")], levels[len(levels)-1], all}, nil
}

// writeLevel writes a level as a regular expression.
func writeLevel(re *strings.Builder, level string) {
	for i := 0; i < len(level); i++ {
		switch end := endOfClass(level[i:]); {
		case level[i] == '*':
			re.WriteString(`[^/]*`)
		case level[i] == '?':
			re.WriteString(`[^/]`)
		case level[i] == '[' && end > 0:
			writeClass(re, level[i+1:i+end])
			i += end
		default:
			next := i + 1
			for next < len(level) && !strings.ContainsRune("*?[", rune(level[next])) {
				next++
			}
			re.WriteString(regexp.QuoteMeta(level[i:next]))
			i = next - 1
		}
	}
}

// endOfClass is where the "]" of a class is that a text begins with; 0: nowhere, so that it is none. A "]" that comes
// first is one of the class's characters.
func endOfClass(text string) int {
	first := 1
	if strings.HasPrefix(text[1:], "!") {
		first++
	}
	if len(text) <= first+1 {
		return 0
	}
	if end := strings.IndexByte(text[first+1:], ']'); end >= 0 {
		return first + 1 + end
	}
	return 0
}

func writeClass(re *strings.Builder, of string) {
	re.WriteByte('[')
	if rest, not := strings.CutPrefix(of, "!"); not {
		re.WriteByte('^')
		of = rest
	}
	for _, r := range of {
		if strings.ContainsRune(`\[]^&~|`, r) {
			re.WriteByte('\\')
		}
		re.WriteRune(r)
	}
	re.WriteByte(']')
}

func (p pattern) match(name string) bool {
	return strings.HasPrefix(name, p.fixed) && (path.Base(name) == p.own || !isIgnored(name)) && p.all.MatchString(name)
}

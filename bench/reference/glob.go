package reference

import (
	"slices"
	"strings"
)

// isGlob reports whether a name of the spec is a pattern: * is any run of characters, ? is any one, [a-c] one of a set,
// [^a-c] one that is not, and \ takes what follows as it is.
func isGlob(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// matches reports whether name matches a pattern.
func matches(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		for i := range len(name) + 1 {
			if matches(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	if name == "" {
		return false
	}
	switch pattern[0] {
	case '?':
		return matches(pattern[1:], name[1:])
	case '[':
		end := strings.IndexByte(pattern, ']')
		return end > 0 && inSet(pattern[1:end], name[0]) && matches(pattern[end+1:], name[1:])
	case '\\':
		pattern = pattern[1:]
		if pattern == "" {
			return false
		}
	}
	return pattern[0] == name[0] && matches(pattern[1:], name[1:])
}

// inSet reports whether b is one of a set such as a-cx, or, after ^, none of it.
func inSet(set string, b byte) bool {
	set, negated := strings.CutPrefix(set, "^")
	found := false
	for set != "" {
		low, high := set[0], set[0]
		if len(set) >= 3 && set[1] == '-' {
			high, set = set[2], set[2:]
		}
		set = set[1:]
		found = found || low <= b && b <= high
	}
	return found != negated
}

// naturally orders names so that int_2 comes before int_10.
func naturally(a, b string) int {
	whole := strings.Compare(a, b)
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na == "" || nb == "" {
			if a[0] != b[0] {
				return strings.Compare(a[:1], b[:1])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(na):], b[len(nb):]
		na, nb = strings.TrimLeft(na, "0"), strings.TrimLeft(nb, "0")
		if len(na) != len(nb) {
			return len(na) - len(nb)
		}
		if c := strings.Compare(na, nb); c != 0 {
			return c
		}
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return whole
}

// digits is the number that s begins with.
func digits(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return s
	}
	return s[:end]
}

// expand returns the names that a pattern stands for, in natural order; a name, or what is no glob, stands for itself.
func expand(pattern string, names []string) []string {
	if !isGlob(pattern) || slices.Contains(names, pattern) {
		return []string{pattern}
	}
	var out []string
	for _, n := range names {
		if matches(pattern, n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, naturally)
	return out
}

package table

import (
	"regexp"
	"strings"
)

var hasScheme = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*):(.*)$`)

// Spelled writes a URI of Hadoop's, in one of the ways in which engines do, as storage has it. It reports false for a
// path that has no scheme.
func Spelled(path string) (uri string, ok bool) {
	m := hasScheme.FindStringSubmatch(path)
	if m == nil {
		return path, false
	}
	scheme, rest := strings.ToLower(m[1]), m[2]
	if scheme == "s3a" || scheme == "s3n" {
		scheme = "s3"
	}
	if scheme == "file" && !strings.HasPrefix(rest, "//") {
		rest = "//" + rest
	}
	return scheme + ":" + rest, true
}

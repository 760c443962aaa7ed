package rest

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// defaultSeparator stands between the levels of a namespace in a path, encoded.
const defaultSeparator = "\x1f"

// name is a table's: the levels of its namespace, and its own.
type name []string

var errName = errors.New("write namespace.table, and in a level %2E for a dot, %40 for an @, %2F for a / and %25 for " +
	"a %")

func parseName(text string) (name, error) {
	var n name
	for level := range strings.SplitSeq(text, ".") {
		plain, err := url.PathUnescape(level)
		if err != nil || plain == "" || isStep(plain) || strings.Contains(level, "/") ||
			strings.ContainsFunc(plain, isControl) {
			return nil, fmt.Errorf("%.200q is no name of a table in a catalogue: %w", text, errName)
		}
		n = append(n, plain)
	}
	if len(n) < 2 {
		return nil, fmt.Errorf("%.200q names no namespace: %w", text, errName)
	}
	return n, nil
}

// isStep reports whether a level of a path, which stays what it is when it is encoded, leads elsewhere.
func isStep(level string) bool { return level == "." || level == ".." }

func (n name) table() string { return n[len(n)-1] }

func (n name) namespace(separator string) string {
	return url.PathEscape(strings.Join(slices.Clone(n[:len(n)-1]), separator))
}

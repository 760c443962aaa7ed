package spec

import (
	"fmt"
	"strings"
)

// hint is what follows "no such thing" in a message.
func hint(near string) string {
	if near == "" {
		return ""
	}
	return "; nearest: " + near
}

// some are a few of the first of many names. Of those that differ in their last digits alone, the first stands for all.
func some(names []string) string {
	const maxShown, first = 8, 100
	var shown []string
	seen := map[string]bool{}
	for _, name := range names[:min(first, len(names))] {
		if stem := strings.TrimRight(name, "0123456789"); !seen[stem] && len(shown) < maxShown {
			seen[stem] = true
			shown = append(shown, name)
		}
	}
	list := strings.Join(shown, ", ")
	if len(shown) < len(names) {
		return fmt.Sprintf("%s and %d more", list, len(names)-len(shown))
	}
	return list
}

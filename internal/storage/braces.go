package storage

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Braces stand for several names, as in shells: {a,b} for each of its parts, {000..099} for each number. All of the
// names must be there. Braces that are neither, and those behind a "\", are letters.

const (
	// maxNames bounds the names that the URIs of one dataset stand for.
	maxNames = 1_000_000
	// What a URI with braces may be: to expand it takes time that grows with the square of its length.
	maxBracedBytes, maxNested = 4 << 10, 16
)

// checkBraces refuses texts that would take long to expand.
func checkBraces(text string) error {
	if !strings.Contains(text, "{") {
		return nil
	}
	if len(text) > maxBracedBytes {
		return fmt.Errorf("it has braces and %s bytes, of which it may have %s; name a directory, or several URIs",
			humanize.Comma(int64(len(text))), humanize.Comma(maxBracedBytes))
	}
	open := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '{':
			open++
		case '}':
			open = max(0, open-1)
		}
		if open > maxNested {
			return fmt.Errorf("more than %d of its braces are nested or not closed; write those that are letters "+
				"behind a \\, or several URIs", maxNested)
		}
	}
	return nil
}

// group is the first pair of braces of a text that stands for several parts.
type group struct {
	before, within, after string
	numbers               *numbers // nil: parts are separated by commas
}

// firstGroup finds it; false: there is none.
func firstGroup(text string) (group, bool) {
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '{':
			end, commas := closing(text, at)
			if end < 0 {
				continue
			}
			g := group{before: text[:at], within: text[at+1 : end], after: text[end+1:]}
			if !commas {
				g.numbers = numbersOf(g.within)
			}
			if commas || g.numbers != nil {
				return g, true
			}
		}
	}
	return group{}, false
}

// closing is where the brace at a place of a text is closed, or -1, and whether a comma separates what lies between.
func closing(text string, at int) (end int, commas bool) {
	depth := 0
	for i := at; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			commas = commas || depth == 1
		case '}':
			if depth--; depth == 0 {
				return i, commas
			}
		}
	}
	return -1, false
}

// parts are what a group stands for.
func (g group) parts() iter.Seq[string] {
	if g.numbers != nil {
		return g.numbers.all
	}
	return func(yield func(string) bool) {
		depth, from := 0, 0
		for i := 0; i < len(g.within); i++ {
			switch g.within[i] {
			case '\\':
				i++
			case '{':
				depth++
			case '}':
				depth--
			case ',':
				if depth > 0 {
					continue
				}
				if !yield(g.within[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(g.within[from:])
	}
}

// numbers are those from one to another, in steps, and written with so many digits at least.
type numbers struct{ from, to, step, digits int }

// numbersOf reads "000..099" or "0..90..10"; nil: it is neither.
func numbersOf(text string) *numbers {
	n := &numbers{step: 1}
	ends := strings.Split(text, "..")
	if len(ends) != 2 && len(ends) != 3 {
		return nil
	}
	for i, into := range []*int{&n.from, &n.to, &n.step}[:len(ends)] {
		digits := ends[i]
		value, err := strconv.ParseUint(digits, 10, 62)
		if err != nil {
			return nil
		}
		*into = int(value)
		if i < 2 && digits[0] == '0' && len(digits) > 1 {
			n.digits = max(len(ends[0]), len(ends[1]))
		}
	}
	n.step = max(1, n.step)
	return n
}

func (n *numbers) count() int {
	between := n.to - n.from
	return max(between, -between)/n.step + 1
}

func (n *numbers) all(yield func(string) bool) {
	for i := range n.count() {
		value := n.from + i*n.step
		if n.to < n.from {
			value = n.from - i*n.step
		}
		if !yield(fmt.Sprintf("%0*d", n.digits, value)) {
			return
		}
	}
}

// countNames is how many names a text stands for, or MaxInt if these are more than can be.
func countNames(text string) int {
	g, ok := firstGroup(text)
	if !ok {
		return 1
	}
	each := 0
	if g.numbers != nil {
		each = g.numbers.count()
	} else {
		for part := range g.parts() {
			each = min(each+min(countNames(part), maxNames+1), maxNames+1)
		}
	}
	rest := countNames(g.after)
	if each > maxNames || rest > maxNames || each*rest > maxNames {
		return math.MaxInt
	}
	return each * rest
}

// names are those that a text stands for, in its order.
func names(text string) iter.Seq[string] {
	return func(yield func(string) bool) { expand("", text, yield) }
}

func expand(done, text string, yield func(string) bool) bool {
	g, ok := firstGroup(text)
	if !ok {
		return yield(done + text)
	}
	for part := range g.parts() {
		if !expand(done+g.before, part+g.after, yield) {
			return false
		}
	}
	return true
}

// namesOf are the canonical URIs that one with braces stands for, each once; none: it has no braces.
func (s *spent) namesOf(ctx context.Context, uri string) (all []string, err error) {
	if err := checkBraces(uri); err != nil {
		return nil, err
	}
	if _, ok := firstGroup(uri); !ok {
		return nil, nil
	}
	n := countNames(uri)
	if n > maxNames-s.names {
		return nil, fmt.Errorf("its braces stand for more than %s names; name a directory, or a pattern with *",
			humanize.Comma(maxNames))
	}
	s.names += n
	if bytes := int64(s.names) * int64(len(uri)+fileBytes); bytes > s.limits.MaxBytes {
		return nil, s.exceeded(fmt.Sprintf("its braces stand for %s names, which take more than %s of memory",
			humanize.Comma(int64(n)), humanize.IBytes(uint64(s.limits.MaxBytes))), "max_bytes")
	}
	seen := make(map[string]bool, n)
	for name := range names(uri) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for level := range strings.SplitSeq(name, "/") {
			if level == "." || level == ".." {
				return nil, fmt.Errorf("its braces stand for %s, which has a level %s; write the path without",
					name, level)
			}
		}
		canonical, err := Canonical(name)
		if err != nil {
			return nil, fmt.Errorf("its braces stand for %s: %w", name, err)
		}
		if !seen[canonical] {
			seen[canonical] = true
			all = append(all, canonical)
		}
	}
	return all, nil
}

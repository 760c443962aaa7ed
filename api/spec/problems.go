package spec

import (
	"fmt"
	"strings"
)

// Problem is one mistake in a spec.
type Problem struct {
	// Path of the mistake in the spec ("transforms[3].in"); empty if the text cannot be read at all.
	Path string
	// Message says what was found and what would be right.
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems are the mistakes of a spec, at most the first maxProblems; there is at least one.
type Problems []Problem

// Bounds of what is told of a spec, which may be wrong in as many places as it has.
const (
	maxProblems = 100
	maxMessage  = 4 << 10
)

// Error writes one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Add adds a problem, unless there are too many.
func (ps *Problems) Add(path, message string) {
	switch n := len(*ps); {
	case n == maxProblems:
		return
	case n == maxProblems-1:
		path, message = "", "there are more mistakes; mend these first"
	case len(message) > maxMessage:
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	*ps = append(*ps, Problem{path, message})
}

func (ps *Problems) add(path, format string, args ...any) { ps.Add(path, fmt.Sprintf(format, args...)) }

// err is nil without problems.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// grouped collects names by what is wrong with them, so that a glob with a thousand matches makes one problem.
type grouped struct {
	messages []string
	names    map[string][]string
}

func (g *grouped) add(name, message string) {
	if g.names == nil {
		g.names = map[string][]string{}
	}
	if len(g.names[message]) == 0 {
		g.messages = append(g.messages, message)
	}
	g.names[message] = append(g.names[message], name)
}

// few writes up to three names and how many more there are.
func few(names []string) string {
	if len(names) <= 4 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}

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

// Problems are all mistakes of a spec; there is at least one.
type Problems []Problem

// Error writes one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps *Problems) add(path, format string, args ...any) {
	*ps = append(*ps, Problem{path, fmt.Sprintf(format, args...)})
}

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

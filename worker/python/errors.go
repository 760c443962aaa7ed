package python

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	// ErrCannotRun says that this worker cannot run a session's functions: it may not, or the code does not load here.
	// Another worker may.
	ErrCannotRun = errors.New("this worker cannot run the session's Python functions")
	// ErrNoProcess says that no process could be started for now.
	ErrNoProcess = errors.New("this worker can start no Python process now")
)

// FunctionError says that a function failed on the rows that it was called with: it raised an exception, its results
// are not what it declares, or its process died of it twice. The chain's words name the op before it.
type FunctionError struct {
	Op        string // "tokenize (transforms[1])"
	What      string // "ValueError: bad text"
	Traceback string // of the user's frames; "": there is none
}

// Statuses have no room for more of a text; the point of a traceback is at its end.
const (
	mostWhat      = 500
	mostTraceback = 1200
)

func (e *FunctionError) Error() string {
	text := beginning(e.What, mostWhat)
	if e.Traceback == "" {
		return text
	}
	return text + "\n" + ending(e.Traceback)
}

// NeedCodeError says that the bytes of a session's code are not here. Whoever has them sends them, and asks again.
type NeedCodeError struct{ SHA256 []byte }

func (e *NeedCodeError) Error() string {
	return fmt.Sprintf("this worker lacks the session's code %.8x, which its client sends; one of a release before "+
		"Python functions does not", e.SHA256)
}

// beginning is the first bytes of a text, of whole characters.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// ending is the last bytes of a traceback, from a line's start on if there is one.
func ending(text string) string {
	text = strings.TrimRight(text, "\n")
	if len(text) <= mostTraceback {
		return text
	}
	text = text[len(text)-mostTraceback:]
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		return rest
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

// lastWords is what a process printed last, without what Python's fault handler says of frames that are not the user's.
func lastWords(said string) string {
	var out strings.Builder
	for line := range strings.Lines(said) {
		if strings.Contains(line, "/penstock/_op_c") || strings.Contains(line, `"<frozen runpy>"`) ||
			strings.HasPrefix(line, "Extension modules: ") {
			continue
		}
		out.WriteString(line)
	}
	return strings.TrimSpace(out.String())
}

// Package terminal prints for people what others named: columns, files, sessions. A name may hold anything, and what a
// terminal would take for a command, or for the end of a line, is printed quoted. The commands of master, worker and
// client print their tables and lines with it. Everything is pure, but for what it writes to.
package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Safe is text that is printed as it is.
type Safe string

// Table aligns the cells of lines, which Printf writes to it with a tab between two. Flush prints them.
func Table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Printf is fmt.Fprintf with all arguments Quoted that are text, errors included.
func Printf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, quoted(args)...)
}

// Cells are the cells of a line, Quoted, with tabs between them.
func Cells(format string, args ...any) Safe { return Safe(fmt.Sprintf(format, quoted(args)...)) }

func quoted(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			out[i] = Quoted(v)
		case []string:
			out[i] = Quoted(fmt.Sprint(v))
		case error:
			out[i] = Quoted(v.Error())
		default:
			out[i] = arg
		}
	}
	return out
}

// Quoted is text as it is, if all of it can be printed on a line, else in quotes, as Go has it.
func Quoted(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	return strconv.Quote(text)
}

// Lines is text of several lines, with escapes in place of what else cannot be printed.
func Lines(text string) Safe {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		var out strings.Builder
		for j := 0; j < len(line); {
			r, n := utf8.DecodeRuneInString(line[j:])
			if part := line[j : j+n]; r == '\t' || unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
				out.WriteString(part)
			} else {
				out.WriteString(strings.Trim(strconv.Quote(part), `"`))
			}
			j += n
		}
		lines[i] = out.String()
	}
	return Safe(strings.Join(lines, "\n"))
}

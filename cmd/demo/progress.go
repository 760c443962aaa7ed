package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

const (
	barWidth      = 28
	plainInterval = 10 * time.Second
)

// progress draws a bar on a terminal, and a line now and then elsewhere. It belongs to one goroutine.
type progress struct {
	out   io.Writer
	now   func() time.Time
	width int  // of the terminal; 0 is none
	drawn bool // the cursor stands in the bar's line

	last  time.Time
	phase string
	full  bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, now: time.Now}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.width = 80
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 1 {
			p.width = width
		}
	}
	return p
}

// show draws the state of a phase; detail follows the bar.
func (p *progress) show(phase string, done, total int64, detail string) {
	now := p.now()
	interval := plainInterval
	if p.width > 0 {
		interval = progressEvery
	}
	full := done >= total
	if phase == p.phase && (now.Sub(p.last) < interval && !full || full && p.full) {
		return
	}
	p.last, p.phase, p.full = now, phase, full
	filled := barWidth
	if total > 0 {
		filled = int(min(done, total) * barWidth / total)
	}
	line := fmt.Sprintf("%-10s %s%s %s of %s rows  %s", phase, strings.Repeat("█", filled),
		strings.Repeat("░", barWidth-filled),
		humanize.Comma(done), humanize.Comma(total), detail)
	if p.width == 0 {
		fmt.Fprintln(p.out, line)
		return
	}
	// A line that wraps could not be drawn over.
	fmt.Fprintf(p.out, "\r\033[K%s", string([]rune(line)[:min(p.width-1, utf8.RuneCountInString(line))]))
	p.drawn = true
}

// say prints a line of its own.
func (p *progress) say(format string, args ...any) {
	p.end()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// end leaves the bar's line.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
		p.drawn = false
	}
}

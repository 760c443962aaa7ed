package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

const (
	barWidth      = 28
	plainInterval = 2 * time.Second
)

// progress draws a bar on a terminal, and a line now and then elsewhere. It belongs to one goroutine.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
	width    int // of the line drawn last
}

func newProgress(out io.Writer) *progress {
	f, ok := out.(*os.File)
	return &progress{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// show draws the state of a phase; detail follows the bar.
func (p *progress) show(phase string, done, total int64, detail string) {
	now := time.Now()
	interval := plainInterval
	if p.terminal {
		interval = progressEvery
	}
	if now.Sub(p.last) < interval && done < total {
		return
	}
	p.last = now
	filled := barWidth
	if total > 0 {
		filled = int(min(done, total) * barWidth / total)
	}
	line := fmt.Sprintf("%-10s %s%s %s of %s rows  %s", phase, strings.Repeat("█", filled), strings.Repeat("░", barWidth-filled),
		humanize.Comma(done), humanize.Comma(total), detail)
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// say prints a line of its own.
func (p *progress) say(format string, args ...any) {
	p.end()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// end leaves the bar's line.
func (p *progress) end() {
	if p.terminal && p.width > 0 {
		fmt.Fprintln(p.out)
		p.width = 0
	}
}

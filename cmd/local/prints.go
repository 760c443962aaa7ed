package local

import (
	"encoding/json"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// mostPrints is how many lines wait for the program to take them. What comes beyond is left out.
const mostPrints = 256

// prints hands on what functions print to the program that started this one, each line as a line of JSON.
type prints struct {
	lines chan printed
	lost  atomic.Bool   // since the last line that was taken
	done  chan struct{} // closed when all are written
}

// printed is a line that a function printed.
type printed struct {
	Op   string `json:"op"`
	Line string `json:"line"`
}

// newPrints hands on to a file that no other part writes to once the fleet is up. Close it.
func newPrints(to io.Writer) *prints {
	if file, ok := to.(*os.File); ok {
		// By another number: the process would end with a program that is gone, were it standard output.
		if fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3); err == nil {
			to = os.NewFile(uintptr(fd), file.Name())
		}
	}
	p := &prints{lines: make(chan printed, mostPrints), done: make(chan struct{})}
	go p.write(to)
	return p
}

// add takes a line. It does not wait.
func (p *prints) add(op, line string) {
	select {
	case p.lines <- printed{op, line}:
	default:
		p.lost.Store(true)
	}
}

// close waits until all is written, or the program takes no more. Nothing is added any more.
func (p *prints) close() {
	close(p.lines)
	<-p.done
}

func (p *prints) write(to io.Writer) {
	defer close(p.done)
	out := json.NewEncoder(to)
	for line := range p.lines {
		if p.lost.Swap(false) {
			line.Line += "\n..."
		}
		if out.Encode(line) != nil {
			return
		}
	}
}

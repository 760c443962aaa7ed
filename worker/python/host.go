package python

import (
	"os"
	"syscall"
	"time"
)

// host is where processes are started and watched.
type host interface {
	// start starts a process. The files stay the caller's.
	start(l launch) (child, error)
}

// launch is what a process is started for, and with.
type launch struct {
	namespace string
	threads   int
	socket    *os.File // its end of the socket to the worker: file 3
	prints    *os.File // its standard output and error
}

// child is a process that a host has started. Any goroutine may use it, and at any time: what has ended is not killed.
type child interface {
	// number is the process's, where it runs.
	number() int
	// kill ends it and its group, at once.
	kill()
	// interrupt ends what it is at.
	interrupt()
	// wait waits for its end, and ends what it has left. It is called once.
	wait() exit
	// memory is what it has now, without the worker's share.
	memory(s share) int64
	// cpu is the time that it has taken so far.
	cpu() time.Duration
}

// share is what the worker shares with a process: of what that has mapped, so many bytes are the worker's, unless it
// keeps some of it; limit is what it may have besides, at all of which it is looked closely.
type share struct {
	bytes, limit int64
	keeps        bool
}

// exit is how a process ended.
type exit struct {
	status int
	signal syscall.Signal // that it died of; 0: none
	cpu    time.Duration
	lost   string // that nobody can say how: its host is gone
}

package python

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// hostProtocol is what a worker and a host must both speak.
const hostProtocol = 1

// A connection to a host is one process: it ends with the connection. A message is JSON, in a packet of its own.
const (
	maxPacket   = 4 << 10
	hostTimeout = 10 * time.Second // to connect, and for the first answer: to start a process takes milliseconds
	hostSilence = time.Minute      // until a host that says nothing is given up
	hostTells   = 5 * time.Second  // at least so often a host says something
)

// What a worker orders.
const (
	orderStart     = "start" // first of all, with two files: see launch
	orderKill      = "kill"
	orderInterrupt = "interrupt"
	orderShare     = "share" // what is the worker's of its memory
)

// order is what a worker tells a host.
type order struct {
	Do string `json:"do"`

	Protocol  int    `json:"protocol,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Threads   int    `json:"threads,omitempty"`

	Share int   `json:"share,omitempty"` // its number
	Bytes int64 `json:"bytes,omitempty"`
	Limit int64 `json:"limit,omitempty"`
	Keeps bool  `json:"keeps,omitempty"`
}

// report is what a host tells a worker.
type report struct {
	// First of all: the process that was started, or why none was.
	Number int    `json:"number,omitempty"`
	Error  string `json:"error,omitempty"`

	// Now and then, and at its end:
	Share  int   `json:"share,omitempty"` // by which its memory was looked at
	Memory int64 `json:"memory,omitempty"`
	CPU    int64 `json:"cpu_ns,omitempty"`

	Ended  bool `json:"ended,omitempty"`
	Status int  `json:"status,omitempty"`
	Signal int  `json:"signal,omitempty"`
}

// sendPacket sends a message, with files, which stay the caller's.
func sendPacket(conn *net.UnixConn, message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(body) > maxPacket {
		return fmt.Errorf("a message of %d bytes; there may be %d", len(body), maxPacket)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(hostTimeout)); err != nil {
		return err
	}
	_, _, err = conn.WriteMsgUnix(body, rights, nil)
	return err
}

// receivePacket receives a message with so many files, which become the caller's. io.EOF: the other end is gone.
func receivePacket(conn *net.UnixConn, into any, files int) ([]*os.File, error) {
	body, rights := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4*max(files, 1)))
	n, r, flags, _, err := conn.ReadMsgUnix(body, rights)
	if err != nil {
		return nil, err
	}
	got := received(rights[:r])
	switch {
	case n == 0 && len(got) == 0:
		return nil, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = fmt.Errorf("a message of more than %d bytes or %d files", maxPacket, files)
	case len(got) != files:
		err = fmt.Errorf("a message with %d files; want %d", len(got), files)
	default:
		err = json.Unmarshal(body[:n], into)
	}
	if err != nil {
		for _, f := range got {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	return got, nil
}

// received are the files that came with a message.
func received(rights []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

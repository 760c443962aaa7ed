// Package feed hands batches to a program in another language, on this machine: it is a trainer in the program's place,
// and lays the batches in memory that both have. docs/internals/feed.md has what they say to each other.
//
// Serve owns the goroutines of each session: one that is its client.Session's one user, one that receives requests, so
// that the connection's end ends whatever the other waits for, one that closes the connection when either has ended,
// and, until it is open, one that opens it.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/client"
)

// Serve feeds the program at the other end of a connection until that is closed. Each byte of it brings the end of
// another connection, for one session. local, unless it is nil, is the workers of this process.
func Serve(ctx context.Context, control *net.UnixConn, local client.Local, logger *slog.Logger) error {
	return serve(ctx, control, local, logger, newSegments(memoryFile, punch))
}

func serve(ctx context.Context, control *net.UnixConn, local client.Local, logger *slog.Logger, pool *segments) error {
	defer pool.close()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sessions.Go(func() {
		<-ctx.Done()
		_ = control.Close() // which ends what is read from it
	})
	request, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	for {
		_, n, _, _, err := control.ReadMsgUnix(request, oob)
		if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("feed: control: %w", err)
		}
		conn, err := connection(oob[:n])
		if err != nil { // who asked sees that its end is closed
			logger.Warn("a session was asked for, and has no connection; raise `ulimit -n` if files are short",
				"error", err)
			continue
		}
		sessions.Go(func() {
			if err := newFeeder(conn, local, pool).run(ctx); err != nil {
				logger.Warn("a session has ended badly", "error", err)
			}
		})
	}
}

// Greet shows the program at the other end of a connection that this process is ready, and of which release.
func Greet(control *net.UnixConn, release string) error {
	data, err := framed(hello{Language: language, Release: release})
	if err != nil {
		return err
	}
	if _, err := control.Write(data); err != nil {
		return fmt.Errorf("feed: hello: %w", err)
	}
	return nil
}

// connection is what came along with a request for a session.
func connection(oob []byte) (*net.UnixConn, error) {
	files, err := received(oob)
	for _, f := range files {
		defer f.Close()
	}
	if err != nil || len(files) != 1 {
		return nil, errors.Join(fmt.Errorf("feed: a request for a session came with %d files, not with a connection",
			len(files)), err)
	}
	conn, err := net.FileConn(files[0])
	if err != nil {
		return nil, fmt.Errorf("feed: a session's connection: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("feed: a session's connection is no Unix socket"), conn.Close())
	}
	return unixConn, nil
}

// received are the files that came with a message.
func received(oob []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		fds, notFiles := unix.ParseUnixRights(&messages[i])
		err = errors.Join(err, notFiles)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, err
}

package feed

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// FromStdin takes the control connection that standard input is, and says that this process is there.
func FromStdin(release string) (*net.UnixConn, error) {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("feed: standard input: %w; it has to be a Unix socket", err)
	}
	control, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("feed: standard input is a socket, but no Unix socket"), conn.Close())
	}
	if err := Greet(control, release); err != nil {
		return nil, errors.Join(err, control.Close())
	}
	return control, nil
}

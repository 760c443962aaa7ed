package python

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// remote has a Host start processes, which listens at a socket: that of a container beside the worker's.
type remote struct{ socket string }

func (h *remote) start(l launch) (child, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hostTimeout)
	defer cancel()
	dialed, err := new(net.Dialer).DialContext(ctx, "unixpacket", h.socket)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the Python host is of another user: %w; start it with --worker-user %d, and let this "+
			"user into the socket's folder", err, os.Geteuid())
	case err != nil:
		return nil, fmt.Errorf("no Python host answers at unix:%s: %w; have `penstock python-host --socket %s` run in "+
			"the container that has Python", h.socket, err, h.socket)
	}
	conn := dialed.(*net.UnixConn) //nolint:forcetypeassert // it is one
	c := &remoteChild{host: h, conn: conn}
	if err := c.begin(l); err != nil {
		return nil, errors.Join(fmt.Errorf("the Python host at unix:%s: %w", h.socket, err), conn.Close())
	}
	return c, nil
}

// remoteChild is a process of a Host's.
type remoteChild struct {
	host *remote
	conn *net.UnixConn
	pid  int

	mu     sync.Mutex
	killed bool
	share  share // that the host was told last
	shares int   // how many it was told
	last   report
}

func (c *remoteChild) begin(l launch) error {
	o := order{Do: orderStart, Protocol: hostProtocol, Namespace: l.namespace, Threads: l.threads}
	if err := sendPacket(c.conn, o, l.socket, l.prints); err != nil {
		return err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(hostTimeout)); err != nil {
		return err
	}
	var r report
	if _, err := receivePacket(c.conn, &r, 0); err != nil {
		return fmt.Errorf("started no process: %w; its log may say why", err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	c.pid = r.Number
	return nil
}

func (c *remoteChild) number() int { return c.pid }

// kill has the host kill it; the connection's end does the same.
func (c *remoteChild) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.killed {
		c.killed = true
		_ = c.conn.SetReadDeadline(time.Now().Add(hostTimeout)) // until the host has to say how it ended
		c.tell(order{Do: orderKill})
	}
}

func (c *remoteChild) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell(order{Do: orderInterrupt})
}

// tell gives the host an order. It may be gone, which is told to who waits for the process.
func (c *remoteChild) tell(o order) {
	if err := sendPacket(c.conn, o); err != nil {
		_ = c.conn.CloseRead()
	}
}

func (c *remoteChild) wait() exit {
	defer c.conn.Close() //nolint:errcheck // nothing is lost by it
	for {
		c.mu.Lock()
		if !c.killed {
			_ = c.conn.SetReadDeadline(time.Now().Add(hostSilence))
		}
		c.mu.Unlock()
		var r report
		if _, err := receivePacket(c.conn, &r, 0); err != nil {
			how := fmt.Sprintf("was lost with its Python host at unix:%s (%v)", c.host.socket, err)
			return exit{cpu: c.cpu(), lost: how}
		}
		c.mu.Lock()
		c.last = r
		c.mu.Unlock()
		if r.Ended {
			return exit{status: r.Status, signal: syscall.Signal(r.Signal), cpu: time.Duration(r.CPU)}
		}
	}
}

// memory is what the host has told of it, if that was by the same share.
func (c *remoteChild) memory(s share) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s != c.share {
		c.share = s
		c.shares++
		c.tell(order{Do: orderShare, Share: c.shares, Bytes: s.bytes, Limit: s.limit, Keeps: s.keeps})
	}
	if c.last.Share != c.shares {
		return 0
	}
	return c.last.Memory
}

func (c *remoteChild) cpu() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.last.CPU)
}

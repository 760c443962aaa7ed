package python

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// HostConfig says what a Host starts. NewHost checks it.
type HostConfig struct {
	// Environment is what its processes run in.
	Environment Environment
	// Workers are the user ids that may connect, besides this process's own and root.
	Workers []uint32
	Users   Users
	Logger  *slog.Logger
}

// Host starts and watches processes for workers that run elsewhere, such as in another container of their pod. Each
// process has a connection, and ends with that. So none outlives its worker.
type Host struct {
	cfg    HostConfig
	local  *local
	watch  time.Duration // how often processes are looked at
	drain  time.Duration // how long it waits for its workers, which may end at the same time, once it is to end
	places chan struct{} // one for each connection
}

// maxConnections bounds the processes of a Host.
const maxConnections = 1000

// NewHost prepares a Host.
func NewHost(cfg HostConfig) (*Host, error) {
	if cfg.Logger == nil || cfg.Environment.Interpreter == "" {
		return nil, errors.New("python: a host needs Logger and an interpreter")
	}
	u, err := newUsers(cfg.Users)
	if err != nil {
		return nil, err
	}
	return &Host{
		cfg: cfg, local: newLocal(cfg.Environment, newThread(), u), places: make(chan struct{}, maxConnections),
		watch: 200 * time.Millisecond, drain: 20 * time.Second,
	}, nil
}

// Run serves those who connect, until ctx ends and they have left, or were given the time for it. It closes the
// listener. When it returns no process is left.
func (h *Host) Run(ctx context.Context, l *net.UnixListener) error {
	if err := adopt(); err != nil {
		return err
	}
	var own, served sync.WaitGroup
	own.Go(h.local.thread.run)
	connections, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close()
		time.AfterFunc(h.drain, end)
	})
	defer stop()
	var err error
	for {
		h.places <- struct{}{}
		var conn *net.UnixConn
		if conn, err = l.AcceptUnix(); err != nil {
			break
		}
		served.Go(func() {
			defer func() { <-h.places }()
			h.serve(connections, conn)
		})
	}
	if ctx.Err() != nil {
		err = nil
	} else {
		end()
	}
	served.Wait()
	h.local.thread.end() // not before: the processes end with it
	own.Wait()
	return err
}

// serve starts a process for a connection, and sees to it until it has ended.
func (h *Host) serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close() //nolint:errcheck // nothing is lost by it
	c, err := h.started(conn)
	if errors.Is(err, io.EOF) {
		return // who only looked whether a host listens
	}
	if err != nil {
		h.cfg.Logger.Warn("no Python process was started for a worker", "error", err)
		_ = sendPacket(conn, report{Error: beginning(err.Error(), mostWhat)}) // it may be gone
		return
	}
	s := &servedChild{child: c, conn: conn}
	over, done := make(chan struct{}), sync.WaitGroup{}
	done.Go(s.obey)
	done.Go(func() { s.tell(over, h.watch) })
	defer context.AfterFunc(ctx, c.kill)()
	h.cfg.Logger.Debug("a Python process was started", "pid", c.number())
	e := c.wait()
	close(over)
	_ = sendPacket(conn, report{ // the worker may be gone
		Ended: true, Status: e.status, Signal: int(e.signal), CPU: e.cpu.Nanoseconds(),
	})
	_ = conn.Close()
	done.Wait()
}

// started starts the process that a connection asks for.
func (h *Host) started(conn *net.UnixConn) (child, error) {
	user, err := peerOf(conn)
	if err != nil {
		return nil, err
	}
	if user != 0 && user != uint32(os.Geteuid()) && !slices.Contains(h.cfg.Workers, user) {
		return nil, fmt.Errorf("user %d may not connect; if its worker runs so, start the host with --worker-user %d",
			user, user)
	}
	if err := conn.SetReadDeadline(time.Now().Add(hostTimeout)); err != nil {
		return nil, err
	}
	var o order
	files, err := receivePacket(conn, &o, 2)
	if err != nil {
		return nil, fmt.Errorf("what a worker asks: %w", err)
	}
	defer files[0].Close()
	defer files[1].Close()
	if o.Do != orderStart || o.Protocol != hostProtocol {
		return nil, fmt.Errorf("the worker is of another release: it speaks protocol %d, and the host %d; install one "+
			"release in both", o.Protocol, hostProtocol)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c, err := h.local.start(launch{o.Namespace, min(max(o.Threads, 1), 1<<10), files[0], files[1]})
	if err != nil {
		return nil, err
	}
	if err := sendPacket(conn, report{Number: c.number()}); err != nil {
		c.kill()
		c.wait()
		return nil, err
	}
	return c, nil
}

// servedChild is a process of a worker's.
type servedChild struct {
	child
	conn *net.UnixConn

	mu    sync.Mutex
	share order // the last
}

// obey does what the worker orders, until that or the process is gone.
func (s *servedChild) obey() {
	for {
		var o order
		if _, err := receivePacket(s.conn, &o, 0); err != nil {
			s.kill()
			return
		}
		switch o.Do {
		case orderKill:
			s.kill()
		case orderInterrupt:
			s.interrupt()
		case orderShare:
			s.mu.Lock()
			s.share = o
			s.mu.Unlock()
		}
	}
}

// tell tells the worker of the process's memory and time.
func (s *servedChild) tell(over chan struct{}, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last report
	for told := time.Now(); ; {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		o := s.share
		s.mu.Unlock()
		r := report{Share: o.Share, CPU: s.cpu().Nanoseconds()}
		if o.Share > 0 {
			r.Memory = s.memory(share{o.Bytes, o.Limit, o.Keeps})
		}
		if r == last && time.Since(told) < hostTells {
			continue
		}
		if err := sendPacket(s.conn, r); err != nil {
			s.kill() // the worker is gone, or hangs
			return
		}
		last, told = r, time.Now()
	}
}

// ListenHost listens at a socket for workers: its own user's alone, unless others may connect.
func ListenHost(path string, others bool) (*net.UnixListener, error) {
	if conn, err := net.Dial("unixpacket", path); err == nil { //nolint:noctx // it answers at once
		return nil, errors.Join(fmt.Errorf("%s: another host listens there", path), conn.Close())
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil { // one that was killed has left it
			return nil, err
		}
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	mode := os.FileMode(0o600)
	if others {
		mode = 0o666 // who connects is looked at
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

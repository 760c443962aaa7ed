package bucket

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections have no buffers, and the test's clock.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// TestSlowClients: who neither sends nor reads on is let go, and holds no slot any more.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
		s, stop := run(t, l, nil)
		defer stop()
		slots := s.buckets["a"].slots
		request := func(method, rest string) net.Conn {
			conn := l.dial()
			fmt.Fprintf(conn, "%s /buckets/a/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-a\r\n%s", method, rest)
			return conn
		}
		answer := func(conn net.Conn) (int, error) {
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, err
		}
		const size = quota / 2
		whole := request("PUT", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)))
		defer whole.Close()
		if code, err := answer(whole); code != http.StatusCreated || err != nil {
			t.Fatal(code, err)
		}
		sends := request("PUT", "Content-Length: 10\r\n\r\nblob")
		defer sends.Close()
		if code, err := answer(sends); code != http.StatusBadRequest || err != nil {
			t.Errorf("who stops sending: %d, %v", code, err)
		}
		reads := request("GET", "\r\n")
		defer reads.Close()
		synctest.Wait()
		if len(slots) != 1 {
			t.Errorf("%d requests run", len(slots))
		}
		time.Sleep(2 * allowance(size))
		if len(slots) != 0 {
			t.Error("who does not read holds a slot")
		}
		if got, err := io.ReadAll(reads); len(got) >= size || err != nil {
			t.Errorf("who did not read had %d bytes: %v", len(got), err)
		}
	})
}

package wire_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/internal/wire"
)

// maxBuffered is how many bytes the kernel may hold of a connection at one end: the third number of a setting.
func maxBuffered(t *testing.T, setting string) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/sys/net/ipv4/" + setting)
	if err != nil {
		t.Skip(err)
	}
	n, err := strconv.ParseInt(strings.Fields(string(data))[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sendOn sends batches of a size on a link, up to a limit in bytes, and counts what was written. It has room for two,
// as a worker has.
func sendOn(ctx context.Context, conn net.Conn, size int, limit int64, written *atomic.Int64) error {
	sender := wire.SendOn(ctx, conn)
	room := make(chan struct{}, 2)
	body := random(size)
	for total := int64(0); total < limit; total += int64(size) {
		room <- struct{}{}
		b := &wire.Batch{Rows: 1, Nodes: []wire.Node{{Length: 1}}, Buffers: [][]byte{nil, body}, More: true}
		b.OnRelease(func() {})
		err := sender.Send(b, func() {
			written.Add(int64(size))
			<-room
		})
		if err != nil {
			return err
		}
	}
	return sender.Flush()
}

// TestInFlightIsTheKernels: of a client that stops reading, no more is on a link than the kernel's buffers hold at both
// ends. Neither the worker nor the client reads or writes ahead of them.
func TestInFlightIsTheKernels(t *testing.T) {
	const size, before = 256 << 10, 64 << 20 // read before the client stops, so that the buffers grow
	bound := maxBuffered(t, "tcp_rmem") + maxBuffered(t, "tcp_wmem")
	conn, worker := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	var written atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- sendOn(ctx, worker, size, before+2*bound, &written) }()
	l := wire.NewLink(conn)
	for range before / size {
		if _, err := l.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	last, same := int64(0), 0
	for same < 100 && len(ended) == 0 {
		time.Sleep(time.Millisecond)
		if n := written.Load(); n == last {
			same++
		} else {
			last, same = n, 0
		}
	}
	if n := written.Load() - before; n > bound {
		t.Errorf("%d bytes are on their way, the kernel holds %d", n, bound)
	}
	t.Logf("%d KiB are on their way, of up to %d", (written.Load()-before)>>10, bound>>10)
	cancel()
	_ = worker.Close() // ends the send
	if err := <-ended; err == nil {
		t.Error("all was sent to a client that does not read")
	}
}

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// diary is a log that may be read while it is written.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *diary) says(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Contains(d.text.String(), what)
}

// freeAddress is one that nobody listens on. Nobody gets its port by chance, as a connection may that the system finds
// one for: it is below those.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		if t.Context().Err() != nil {
			t.Fatal("no port is free")
		}
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+lastPort.Add(1)%10_000)
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue // taken
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
}

// that freeAddress looked at; runs of these tests beside each other begin at places of their own
var lastPort atomic.Uint32

func init() { lastPort.Store(uint32(os.Getpid()) * 16) }

// within hands over the next batch if there is one within a time.
func within(t *testing.T, job *client.Session, seen map[row]int, patience time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := job.Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range b.Files {
		seen[row{b.Epoch, file, b.RowIDs[i]}]++
	}
	b.Release()
	return true
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatal("waited in vain until " + what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestNoMasterAnswers lets the only master die, or be cut off from the trainer. The trainer's streams go on, beyond
// what it had buffered, until its lease ends; then it waits, and says so; it goes on once a master answers.
func TestNoMasterAnswers(t *testing.T) {
	t.Parallel()
	const rows, epochs, lease = 150_000, 2, 4 * time.Second
	// What a trainer may have received and not handed over: its budget, and a message of each of its streams.
	const budget, buffered = 256 << 10, 256<<10 + 3*(1<<20+1<<18)
	e := etcds(t)
	s := provenanceSpec(t, rows, epochs)
	s.Features = []*pb.Feature{{Layout: pb.Layout_SPARSE, Name: []string{"cat_*"}}}
	for _, dies := range []bool{true, false} {
		name := map[bool]string{true: "dead", false: "cut off"}[dies]
		t.Run(name, func(t *testing.T) {
			listen, other := freeAddress(t), freeAddress(t)
			wire := rpctest.NewWire(t, listen)
			f := startFleet(t, e.Endpoints(), 1, "--etcd-prefix="+name, "--lease="+lease.String(), "--listen="+listen,
				"--advertise="+wire.Address)
			log := &diary{}
			job, err := client.Open(context.WithoutCancel(t.Context()), client.Config{
				Masters: []string{wire.Address, other}, Session: "job", Spec: s, Budget: budget,
				Logger: slog.New(slog.NewTextHandler(log, nil)),
				Dial: func(address string) (*grpc.ClientConn, error) {
					return rpc.Dial(address, f.RPC())
				},
				DialLink: rpc.LinkDialer(f.RPC()),
			})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[row]int{}
			take(t, job, seen)

			wire.Cut()
			if dies {
				if err := f.KillMaster(); err != nil {
					t.Fatal(err)
				}
			}
			before, bytes := len(seen), job.Stats().Bytes
			for job.Stats().Bytes-bytes <= buffered {
				if !within(t, job, seen, lease) {
					t.Fatalf("%d rows came while no master answered, %d bytes; %d might have been buffered",
						len(seen)-before, job.Stats().Bytes-bytes, buffered)
				}
			}
			<-time.After(lease) // as the trainer computes; it holds rows still
			if within(t, job, seen, lease/20) || !log.says("the lease ran out") {
				t.Error("the lease has ended, and the trainer hands over, or does not say why it waits")
			}

			if dies {
				f.addMaster("next", e.Endpoints(), "--listen="+other, "--advertise="+other)
			} else {
				wire.Mend()
			}
			for take(t, job, seen) { //nolint:revive // to the end
			}
			closeJob(t, job)
			exactlyOnce(t, seen, rows*epochs)
		})
	}
}

// TestEtcdGoes takes a member of etcd away, its leader, and all of them, below a running job.
func TestEtcdGoes(t *testing.T) {
	t.Parallel()
	const rows, epochs = 60_000, 6
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	e := etcds(t)
	f := startFleet(t, e.Endpoints(), 2)
	f.addMaster("another", e.Endpoints())
	log := &diary{}
	job := f.join(provenanceSpec(t, rows, epochs), 0, 1, log, f.first.Address)
	seen := map[row]int{}
	epoch := func() { // hands over about an epoch's rows
		for n := len(seen); len(seen) < n+rows*3/4; {
			take(t, job, seen)
		}
	}
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	take(t, job, seen)
	leader, err := e.Leader(ctx)
	fail(err)
	for _, m := range e.Members() {
		if m != leader {
			fail(m.Kill())
			epoch()
			fail(m.Restart())
			fail(m.Serves(ctx))
			break
		}
	}
	fail(leader.Kill())
	epoch()
	fail(leader.Restart())
	fail(leader.Serves(ctx))

	each(e.Members(), func(m *storetest.Member) { fail(m.Kill()) })
	eventually(t, "the trainer says so", func() bool {
		within(t, job, seen, 10*time.Millisecond)
		return log.says("Sync failed; streams go on")
	})
	show := []string{"session", "show", "job", "--master=" + f.first.Address, "--token-file=" + f.TokenFile()}
	eventually(t, "session show says so", func() bool {
		_, said := run(t, 1, nil, show...)
		return strings.Contains(said, "etcd")
	})
	// Longer than the leader's lease: all masters are candidates when etcd is back.
	eventually(t, "a master says so", func() bool {
		return strings.Contains(f.log("master-1"), "leadership lost") ||
			strings.Contains(f.log("another"), "cannot campaign")
	})
	each(e.Members(), func(m *storetest.Member) { fail(m.Restart()) })
	for take(t, job, seen) { //nolint:revive // to the end
	}
	closeJob(t, job)
	exactlyOnce(t, seen, rows*epochs)
}

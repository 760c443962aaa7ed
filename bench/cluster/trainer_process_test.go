package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// trainerRole is the variable that makes the test binary a trainer, with an assignment in JSON.
const trainerRole = "PENSTOCK_TEST_TRAINER"

// assignment is what a trainer is told to be.
type assignment struct {
	Master, Token, Session string
	Spec                   json.RawMessage
	Rank, World            uint32
	SyncEvery              time.Duration
	// Masters and Secure say how to reach a secured fleet, instead of Master and Token.
	Masters []string
	Secure  client.Security
	Budget  int64 // 0: the default
	// DieAfter has it kill itself after so many answers, before it can tell the master of the last one; 0: it does
	// not.
	DieAfter int
}

// handed is what a trainer answers to each line of its input, which asks it for one batch: the batch's rows as (epoch,
// file, row), or that there are no more, or why it fails.
type handed struct {
	Rows  [][3]int64
	End   bool
	Error string
}

// beTrainer is the trainer's main. The end of its input ends it in order.
func beTrainer(task string) error {
	var a assignment
	s := &pb.Spec{}
	if err := errors.Join(json.Unmarshal([]byte(task), &a), protojson.Unmarshal(a.Spec, s)); err != nil {
		return err
	}
	port := rpc.Config{Token: rpc.NewSecret(a.Token)}
	cfg := client.Config{
		Masters: []string{a.Master}, Session: a.Session, Spec: s, Rank: a.Rank, WorldSize: a.World,
		SyncEvery: a.SyncEvery, Budget: a.Budget,
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, port) },
		DialLink: rpc.LinkDialer(port),
	}
	if a.Secure != (client.Security{}) {
		cfg.Masters = a.Masters
		if err := cfg.Secure(a.Secure); err != nil {
			return err
		}
	}
	job, err := client.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		var h handed
		b, err := job.Next(context.Background())
		switch {
		case errors.Is(err, io.EOF):
			h.End = true
		case err != nil:
			h.Error = err.Error()
		default:
			for i, file := range b.Files {
				h.Rows = append(h.Rows, [3]int64{int64(b.Epoch), int64(file), b.RowIDs[i]})
			}
			b.Release()
		}
		if err := out.Encode(h); err != nil {
			return err
		}
		if a.DieAfter--; a.DieAfter == 0 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	return job.Close()
}

// trainer is a process that reads a session, batch by batch, as it is told.
type trainer struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *os.File
	dec *json.Decoder
	log string
}

// trainer starts a process that joins the session. It is killed when the test ends, if it lives then.
func (f *fleet) trainer(t *testing.T, a assignment, s *pb.Spec) *trainer {
	t.Helper()
	own := f.assign(a.Session)
	a.Master, a.Token = own.Master, own.Token
	return startTrainer(t, f.dir, a, s)
}

// assign is the assignment of a session's only trainer.
func (f *fleet) assign(session string) assignment {
	f.t.Helper()
	return assignment{Master: f.first.Address, Token: text(f.t, f.TokenFile()), Session: session, World: 1}
}

// startTrainer starts a process that does what it is assigned. Its log lies in dir.
func startTrainer(t *testing.T, dir string, a assignment, s *pb.Spec) *trainer {
	t.Helper()
	var err error
	if a.Spec, err = protojson.Marshal(s); err != nil {
		t.Fatal(err)
	}
	task, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), trainerRole+"="+string(task))
	return followTrainer(t, dir, fmt.Sprintf("trainer-%d", a.Rank), cmd)
}

// followTrainer runs a command that answers as beTrainer does.
func followTrainer(t *testing.T, dir, name string, cmd *exec.Cmd) *trainer {
	t.Helper()
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	tr := &trainer{t: t, cmd: cmd, log: log.Name()}
	tr.cmd.Stderr = log
	if tr.in, err = tr.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	tr.cmd.Stdout, tr.out, tr.dec = theirs, out, json.NewDecoder(out)
	err = tr.cmd.Start()
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if tr.cmd.ProcessState == nil {
			tr.kill()
		}
		_ = out.Close()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(tr.log), text(t, tr.log))
		}
	})
	return tr
}

// next has the trainer hand over a batch.
func (tr *trainer) next() (h handed, err error) {
	if _, err := io.WriteString(tr.in, "next\n"); err != nil {
		return h, err
	}
	if err := tr.out.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		return h, err
	}
	if err := tr.dec.Decode(&h); err != nil {
		return h, fmt.Errorf("a trainer does not answer: %w", err)
	}
	if h.Error != "" {
		return h, errors.New(h.Error)
	}
	return h, nil
}

// take hands over one batch and counts its rows.
func (tr *trainer) take(seen map[row]int) {
	tr.t.Helper()
	h, err := tr.next()
	if err != nil || h.End {
		tr.t.Fatalf("no batch: %v", err)
	}
	h.count(seen)
}

// end reads on until the trainer fails, and returns why, or that it did not.
func (tr *trainer) end(seen map[row]int) string {
	tr.t.Helper()
	for {
		h, err := tr.next()
		if err != nil {
			return err.Error()
		}
		if h.End {
			return "it reads to the end"
		}
		h.count(seen)
	}
}

func (h handed) count(seen map[row]int) {
	for _, r := range h.Rows {
		seen[row{uint32(r[0]), int32(r[1]), r[2]}]++
	}
}

func (tr *trainer) signal(s os.Signal) {
	tr.t.Helper()
	if err := tr.cmd.Process.Signal(s); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *trainer) kill() {
	_ = tr.cmd.Process.Kill() // it may have ended
	_ = tr.cmd.Wait()         // because it was killed
}

// leave ends the trainer in order.
func (tr *trainer) leave() {
	tr.t.Helper()
	if err := tr.in.Close(); err != nil {
		tr.t.Fatal(err)
	}
	if err := tr.cmd.Wait(); err != nil {
		tr.t.Fatalf("a trainer leaves: %v\n%s", err, text(tr.t, tr.log))
	}
}

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/cli"
)

const (
	batchSize = 64
	// trainerBudget is small, so that streams are cut off in their middle, rather than received to their ends.
	trainerBudget = 1 << 20
)

// trainerScript is a trainer in Python.
//
//go:embed trainer.py
var trainerScript string

// start is what the job tells a trainer, in a file.
type start struct {
	Session              string
	Attempt, Rank, World int
	Masters              []string
	Spec                 string
	// Functions is what a trainer in Go calls, or nil. One in Python makes that of Parsed, which is Spec as a message.
	Functions      *called         `json:",omitempty"`
	Parsed         json.RawMessage `json:",omitempty"`
	Socket, Ledger string
	Security       client.Security
	// Restore says that the job goes on from a checkpoint, and States which this rank brings.
	Restore bool
	States  [][]byte
	// Named is the named checkpoint that the session was put back to, if it was.
	Named string
	// Step is the checkpoint's, so that steps count on.
	Step    uint32
	Compute time.Duration
}

// message is what a trainer tells the job between any two steps, and when it was asked to hold.
type message struct {
	Attempt, Rank int
	// Seq counts the messages.
	Seq     int
	Step    uint32
	Records int64 // in its ledger
	State   []byte
	// Wait is how long the step's Next took, and Returned when it had; 0 if there was none.
	Wait     time.Duration
	Returned int64 // Unix, in nanoseconds
	// Named is the named checkpoint that has its place after the step, if there is one.
	Named *namedMark
	Ended bool // all epochs
}

// order is the job's answer.
type order struct {
	// Go lets the trainer take a step, Stop has it leave.
	Go, Stop bool
	// Hold asks for a message although Next has not returned; it is for who sent as many messages.
	Hold int
}

// trainer is a rank of the job.
type trainer struct {
	start
	session *client.Session
	ledger  *ledger
	out     *json.Encoder
	orders  chan order

	mu        sync.Mutex
	seq       int                // messages sent
	held      int                // the newest that the job asked for one more after
	interrupt context.CancelFunc // of Next
}

func trainerCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{Use: "trainer", Hidden: true, Args: cobra.NoArgs}
	cmd.Flags().StringVar(&path, "start", "", "file with what the job tells")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		t := &trainer{orders: make(chan order, 1)}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &t.start); err != nil {
			return err
		}
		logger, err := cli.Logger(cmd, os.Stderr)
		if err != nil {
			return err
		}
		logger = logger.With("attempt", t.Attempt)
		if t.ledger, err = createLedger(t.Ledger); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.ledger.close()) }()
		cfg, err := t.config()
		if err != nil {
			return err
		}
		cfg.Logger = logger
		if t.session, err = client.Open(cmd.Context(), cfg); err != nil {
			return err
		}
		if from := t.session.RestoredFrom(); t.Named != "" && (from == nil || from.Name != t.Named) {
			return fmt.Errorf("the session was put back to %v, and not to %s", from, t.Named)
		}
		err = t.train(cmd.Context())
		if left := t.session.Close(); left != nil {
			logger.Warn("could not say goodbye", "error", left)
		}
		return err
	}
	return cmd
}

func (t *trainer) config() (client.Config, error) {
	cfg := client.Config{
		Masters: t.Masters, Session: t.Session, Rank: uint32(t.Rank), WorldSize: uint32(t.World), Budget: trainerBudget,
	}
	err := cfg.Secure(t.Security)
	if err != nil {
		return cfg, err
	}
	if cfg.Spec, err = t.Functions.whole(t.Spec); err != nil {
		return cfg, err
	}
	if t.Functions != nil {
		cfg.Code = t.Functions.Code
	}
	if !t.Restore {
		return cfg, nil
	}
	cfg.Restore = make([]*pb.State, len(t.States))
	for i, b := range t.States {
		cfg.Restore[i] = &pb.State{}
		if err := proto.Unmarshal(b, cfg.Restore[i]); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// train takes steps as the job says, until it says stop.
func (t *trainer) train(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", t.Socket)
	if err != nil {
		return err
	}
	t.out = json.NewEncoder(conn)
	var listener errgroup.Group
	gone := make(chan struct{})
	listener.Go(func() error {
		defer close(gone)
		return t.listen(json.NewDecoder(conn))
	})
	defer func() {
		conn.Close()
		_ = listener.Wait() // it ends with the connection
	}()
	step, ended := t.Step, false
	wait, returned := time.Duration(0), int64(0)
	var named *namedMark
	for {
		if err := t.send(message{Step: step, Ended: ended, Wait: wait, Returned: returned, Named: named}); err != nil {
			return err
		}
		select {
		case o := <-t.orders:
			if o.Stop {
				return nil
			}
		case <-gone:
			return fmt.Errorf("the job is gone: %w", listener.Wait())
		case <-ctx.Done():
			return ctx.Err()
		}
		began := time.Now()
		b, err := t.next(ctx)
		wait, returned, named = time.Since(began), time.Now().UnixNano(), nil
		switch {
		case errors.Is(err, io.EOF):
			ended = true
		case errors.Is(err, context.Canceled) && ctx.Err() == nil: // interrupted
		case err != nil:
			return err
		default:
			step++
			if at := b.Checkpoint; at != nil {
				named = &namedMark{Name: at.Name, Step: at.Step}
			}
			if err := errors.Join(t.take(b, step), t.ledger.flush()); err != nil {
				return err
			}
			pause(ctx, t.Compute)
		}
	}
}

// next is Next, but for an interruption by the job.
func (t *trainer) next(ctx context.Context) (*client.Batch, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.mu.Lock()
	t.interrupt = cancel
	if t.held == t.seq {
		cancel()
	}
	t.mu.Unlock()
	b, err := t.session.Next(ctx)
	t.mu.Lock()
	t.interrupt = nil
	t.mu.Unlock()
	return b, err
}

func (t *trainer) send(m message) error {
	state, err := proto.Marshal(t.session.State())
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.seq++
	m.Attempt, m.Rank, m.Seq, m.Records, m.State = t.Attempt, t.Rank, t.seq, t.ledger.records, state
	t.mu.Unlock()
	if err := t.out.Encode(m); err != nil {
		return fmt.Errorf("tell the job: %w", err)
	}
	return nil
}

// listen passes orders on. One to hold interrupts Next, unless a message crossed it.
func (t *trainer) listen(in *json.Decoder) error {
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return err
		}
		if o.Go || o.Stop {
			t.orders <- o
			continue
		}
		t.mu.Lock()
		if t.held = o.Hold; t.held == t.seq && t.interrupt != nil {
			t.interrupt()
		}
		t.mu.Unlock()
	}
}

func (t *trainer) take(b *client.Batch, step uint32) error {
	defer b.Release()
	if err := checkPictures(b); err != nil {
		return err
	}
	ids, blob := b.Sparse[0], b.Bytes[0]
	for i := range b.Valid {
		t.ledger.add(record{
			epoch: b.Epoch, step: step, file: b.Files[i], row: b.RowIDs[i],
			sums: sumsOf(b.Labels[0].I64[i], b.Dense[i], ids.Values[ids.Offsets[i]:ids.Offsets[i+1]],
				blob.Data[blob.Offsets[i]:blob.Offsets[i+1]]),
		})
	}
	return nil
}

// checkPictures holds that rows have their own pictures.
func checkPictures(b *client.Batch) error {
	for _, images := range b.Images {
		size := images.Shape[0] * images.Shape[1] * images.Shape[2]
		if want := pictureShown * pictureShown * 3; size != want {
			return fmt.Errorf("pictures have the shape %v", images.Shape)
		}
		for i := range b.Valid {
			want := shade(b.Labels[0].I64[i])
			for _, got := range images.Data[i*size : (i+1)*size] {
				if got != want {
					return fmt.Errorf("file %d, row %d: a picture has %d where its shade is %d",
						b.Files[i], b.RowIDs[i], got, want)
				}
			}
		}
	}
	return nil
}

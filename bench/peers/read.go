package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// order is a line on standard input: read the dataset once.
type order struct {
	// StepSeconds is how long the trainer computes on a full batch.
	StepSeconds float64 `json:"step_seconds"`
	// Dump, if set, is a directory for all that was read.
	Dump string `json:"dump"`
	// Profile, if set, asks for profiles, after a first pass; nothing else is measured then.
	Profile *profileOrder `json:"profile"`
}

// pass is the answer to an order.
type pass struct {
	Rows           int64   `json:"rows"`
	RowSum         int64   `json:"row_sum"`
	Batches        int     `json:"batches"`
	FirstSeconds   float64 `json:"first_seconds"`
	Seconds        float64 `json:"seconds"`
	WaitingSeconds float64 `json:"waiting_seconds"` // but for the first batch, and for the end
}

// trainer reads the spec once per order.
type trainer struct {
	master string
	spec   *pb.Spec
	dial   func(address string) (*grpc.ClientConn, error)
}

func readCommand() *cobra.Command {
	t := &trainer{}
	cmd := &cobra.Command{
		Use:   "read SPEC",
		Short: "Be a trainer with the Go client: read the spec once for each order (a JSON line) on standard input",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if t.spec, err = cli.ReadSpec(args[0]); err != nil {
				return err
			}
			t.spec.Epochs = 1 // an order is for one pass
			t.dial = func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, rpc.Config{}) }
			return t.serve(cmd.Context(), os.Stdin, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&t.master, "master", "127.0.0.1:7070", "address of the master")
	return cmd
}

func (t *trainer) serve(ctx context.Context, orders io.Reader, answers io.Writer) error {
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("order %q: %w", lines.Text(), err)
		}
		answer, err := t.obey(ctx, o)
		if err != nil {
			return err
		}
		if err := cli.PrintJSON(answers, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (t *trainer) obey(ctx context.Context, o order) (answer any, err error) {
	if o.Profile != nil {
		return t.profile(ctx, o.Profile)
	}
	return t.read(ctx, o)
}

func (t *trainer) read(ctx context.Context, o order) (p *pass, err error) {
	began := time.Now()
	session, err := client.Open(ctx, client.Config{
		Masters: []string{t.master}, Dial: t.dial, DialLink: rpc.LinkDialer(rpc.Config{}), Session: "peers-" +
			rand.Text()[:10], Spec: t.spec,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	var out *dump
	if o.Dump != "" {
		if out, err = createDump(o.Dump); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, out.close()) }()
	}
	p = &pass{}
	waits := time.Now()
	for b, err := range session.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		now := time.Now()
		if p.Batches == 0 {
			p.FirstSeconds = now.Sub(began).Seconds()
		} else {
			p.WaitingSeconds += now.Sub(waits).Seconds()
		}
		p.count(b)
		if out != nil {
			if err := out.write(b); err != nil {
				return nil, err
			}
		}
		if o.StepSeconds > 0 {
			compute(time.Duration(
				o.StepSeconds * float64(b.Rows) / float64(t.spec.GetBatchSize()) * float64(time.Second)))
		}
		b.Release()
		waits = time.Now()
	}
	p.Seconds = waits.Sub(began).Seconds()
	return p, nil
}

// compute takes the time of a step, as exactly as Python's time.sleep, which is the system's: Go's own is late by up to
// a millisecond.
func compute(step time.Duration) {
	left := syscall.NsecToTimespec(step.Nanoseconds())
	for errors.Is(syscall.Nanosleep(&left, &left), syscall.EINTR) {
	}
}

// count adds a batch. The first label is the row's number.
func (p *pass) count(b *client.Batch) {
	p.Batches++
	p.Rows += int64(b.Rows)
	for _, row := range b.Labels[0].I64 {
		p.RowSum += row
	}
}

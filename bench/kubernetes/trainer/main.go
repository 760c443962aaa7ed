// Trainer is a data-parallel rank of the Kubernetes test's job. It writes down each row that it is handed, and takes as
// many a second as the file `pace` in its folder says at the time.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/bench/reference"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
)

func main() { os.Exit(cli.Main(command())) }

// trainer is one rank.
type trainer struct {
	masters            []string
	session, spec, dir string
	rank, world        uint32
	budget             int64
	ports              cli.RPCFlags
	ledger             *reference.Ledger
	rows               int64
	nextSpeed          time.Time
	rowsPerSecond      float64
}

func command() *cobra.Command {
	t := &trainer{}
	cmd := &cobra.Command{Use: "trainer", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return t.run(cmd)
	}}
	flags := cmd.Flags()
	flags.StringSliceVar(&t.masters, "master", nil, "addresses of masters")
	flags.StringVar(&t.session, "session", "", "id of the session")
	flags.StringVar(&t.spec, "spec", "", "file with the spec")
	flags.StringVar(&t.dir, "dir", "", "folder of pace, ledger and progress")
	flags.Uint32Var(&t.rank, "rank", 0, "rank")
	flags.Uint32Var(&t.world, "world-size", 1, "number of trainers")
	flags.Int64Var(&t.budget, "budget", 0, "bytes that may wait to be taken (0: the client's default)")
	t.ports.Register(flags)
	return cli.Setup(cmd)
}

func (t *trainer) run(cmd *cobra.Command) (err error) {
	ports, err := t.ports.Config()
	if err != nil {
		return err
	}
	logger, err := cli.Logger(cmd, os.Stderr)
	if err != nil {
		return err
	}
	spec, err := cli.ReadSpec(t.spec)
	if err != nil {
		return err
	}
	spec.Epochs = max(1, spec.GetEpochs()) // one pass, where there is no limit
	session, err := client.Open(cmd.Context(), client.Config{
		Masters: t.masters, Session: t.session, Spec: spec, Rank: t.rank, WorldSize: t.world, Logger: logger,
		Budget: t.budget,
		Dial:   func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, ports) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if t.ledger, err = reference.CreateLedger(t.at("ledger")); err != nil {
		return err
	}
	for {
		batch, err := session.Next(cmd.Context())
		if errors.Is(err, io.EOF) {
			return t.ledger.Close()
		}
		if err != nil {
			return err
		}
		taken := time.Now()
		rows := batch.Valid
		if err := t.take(batch); err != nil {
			return err
		}
		if err := t.compute(cmd.Context(), taken, rows); err != nil {
			return err
		}
	}
}

func (t *trainer) at(name string) string {
	return filepath.Join(t.dir, fmt.Sprintf("%s-%d", name, t.rank))
}

func (t *trainer) take(batch *client.Batch) error {
	defer batch.Release()
	rec := batch.Record()
	defer rec.Release()
	t.rows += int64(batch.Valid)
	return t.ledger.AddBatch(rec, batch.Valid)
}

// compute lasts as long as a batch takes at the pace of the time; without one, or at 0, it takes none.
func (t *trainer) compute(ctx context.Context, taken time.Time, rows int) error {
	const every = 200 * time.Millisecond
	for {
		if now := time.Now(); now.After(t.nextSpeed) {
			t.nextSpeed = now.Add(every)
			if err := t.look(); err != nil {
				return err
			}
		}
		if t.rowsPerSecond <= 0 {
			return nil
		}
		left := time.Until(taken.Add(time.Duration(float64(rows) / t.rowsPerSecond * float64(time.Second))))
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(min(left, every)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look reads the pace, and tells how many rows have come.
func (t *trainer) look() error {
	text, err := os.ReadFile(filepath.Join(t.dir, "pace"))
	if err != nil {
		return err
	}
	if t.rowsPerSecond, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err != nil {
		return fmt.Errorf("pace: %w", err)
	}
	next := t.at("progress") + ".new"
	if err := os.WriteFile(next, fmt.Append(nil, t.rows), 0o644); err != nil {
		return err
	}
	return os.Rename(next, t.at("progress"))
}

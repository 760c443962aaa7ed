package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// followEvery is how often a master is asked for newer events.
const followEvery = time.Second

// events is `penstock events`.
type events struct {
	masters []string
	ports   cli.RPCFlags
	session string
	limit   uint32
	follow  bool

	last uint64 // number of the newest that was printed
}

// Events returns `penstock events`, which prints what happened to the fleet and its sessions.
func Events() *cobra.Command {
	e := &events{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print what happened: decisions of the scaler, workers, leaders, sessions",
		Long: "Print what happened to the fleet and its sessions, the newest last: what the scaler decided and why, " +
			"workers that come,\n" +
			"drain and go, masters that take over, sessions opened, finished, failed and deleted, extents that " +
			"were skipped,\n" +
			"checkpoints. The newest 1,000 are kept, in etcd. With --output json, each event is a line of JSON.",
		Example: "  penstock events\n  penstock events --session run-7 --follow\n  penstock events --output json | " +
			"jq -r 'select(.decision) | .words'",
		Args: cobra.NoArgs,
		RunE: e.run,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&e.masters, "master", []string{"127.0.0.1:7070"}, "addresses of masters")
	flags.StringVar(&e.session, "session", "", "print events of this session alone")
	flags.Uint32Var(&e.limit, "limit", 0, "print the newest so many (default: all that are kept)")
	flags.BoolVarP(&e.follow, "follow", "f", false, "go on as events come, until interrupted")
	e.ports.RegisterClient(flags)
	return cli.Setup(cmd)
}

func (e *events) run(cmd *cobra.Command, _ []string) error {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	cfg, err := e.ports.Config()
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	if err := e.print(ctx, out, output, cfg); err != nil || !e.follow {
		return err
	}
	for {
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return nil // it was asked to end
		}
		switch err := e.print(ctx, out, output, cfg); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, rpc.ErrUnavailable): // numbers go on from leader to leader
			cmd.PrintErrln("waiting for a master that leads:", err)
		default:
			return err
		}
	}
}

// print prints the events after the last one.
func (e *events) print(ctx context.Context, out io.Writer, output string, cfg rpc.Config) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var reply *pb.ListEventsReply
	err := rpc.AtLeader(ctx, e.masters, cfg, func(ctx context.Context, m pb.MasterClient) (err error) {
		reply, err = m.ListEvents(ctx, &pb.ListEventsRequest{Session: e.session, After: e.last, Limit: e.limit})
		return err
	})
	if err != nil {
		return err
	}
	e.limit = 0 // it is of the first look
	for _, event := range reply.GetEvents() {
		e.last = event.GetNumber()
		if output == "json" {
			err = cli.PrintProto(out, event)
		} else {
			err = printEvent(out, event)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printEvent prints an event for people: when, of what kind, about what, and what happened.
func printEvent(out io.Writer, e *pb.Event) error {
	about := cmp.Or(e.GetSession(), "fleet")
	_, err := terminal.Printf(out, "%s  %-10s  %s: %s\n", time.UnixMilli(e.GetUnixMs()).Format(time.DateTime),
		strings.ToLower(e.GetKind().String()), about, terminal.Lines(e.GetWords()))
	return err
}

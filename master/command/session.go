package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/terminal"
	"github.com/penstock-ml/penstock/master/words"
)

// Session returns `penstock session`, whose commands ask a master about its sessions.
func Session() *cobra.Command {
	c := &sessionCommand{}
	cmd := &cobra.Command{
		Use:     "session",
		Short:   "Create, list, show, describe, checkpoint, restore and delete sessions",
		Example: "  penstock session list\n  penstock session create spec.yaml --id run-7 --world-size 8",
	}
	c.register(cmd.PersistentFlags())
	cmd.AddCommand(c.create(), c.list(), c.show(), c.describe(), c.delete(), c.checkpoint(), c.checkpoints(),
		c.restore())
	return cli.Setup(cmd)
}

const (
	callTimeout = time.Minute
	// openTimeout leaves time to list a large dataset.
	openTimeout = 15 * time.Minute
)

type sessionCommand struct {
	masters []string
	ports   cli.RPCFlags
}

// register adds the flags that say whom to ask.
func (c *sessionCommand) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.masters, "master", []string{"127.0.0.1:7070"}, "addresses of masters")
	c.ports.RegisterClient(flags)
}

func (c *sessionCommand) create() *cobra.Command {
	var id string
	var world uint32
	share := &pb.Share{}
	cmd := &cobra.Command{
		Use:     "create SPEC",
		Short:   "Open a session before its trainers come",
		Example: "  penstock session create spec.yaml --id run-7 --world-size 8",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&id, "id", "", "id of the session, such as the job's run id (required)")
	cmd.Flags().Uint32Var(&world, "world-size", 1, "number of trainers")
	cmd.Flags().Float64Var(&share.Weight, "weight", 1, "its part of the workers beside other sessions")
	cmd.Flags().Uint32Var(&share.MinWorkers, "min-workers", 0, "workers that it has in any case")
	cmd.Flags().Uint32Var(&share.MaxWorkers, "max-workers", 0, "workers that it has at most; 0 is no maximum")
	_ = cmd.MarkFlagRequired("id")                                   // the flag exists
	cli.PerCall(cmd.Flags(), "weight", "min-workers", "max-workers") // a master's are the fleet's
	cmd.RunE = c.call(func(ctx context.Context, m pb.MasterClient, args []string) (*pb.Session, error) {
		s, err := cli.ReadSpec(args[0])
		if err != nil {
			return nil, err
		}
		return m.Open(ctx, &pb.OpenRequest{Session: id, Spec: s, WorldSize: world, Share: share, Defaults: 1})
	}, openTimeout)
	return cmd
}

func (c *sessionCommand) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a session, its ranks and how far it is", Example: "  penstock session show run-7",
		Args: cobra.ExactArgs(1),
		RunE: c.call(func(ctx context.Context, m pb.MasterClient, args []string) (*pb.Session, error) {
			return m.GetSession(ctx, &pb.GetSessionRequest{Session: args[0]})
		}, callTimeout),
	}
}

func (c *sessionCommand) delete() *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete a session; its trainers end with an error",
		Example: "  penstock session delete run-7", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) error {
				_, err := m.DeleteSession(ctx, &pb.DeleteSessionRequest{Session: args[0]})
				return err
			})
		},
	}
}

func (c *sessionCommand) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the sessions", Example: "  penstock session list --output json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			output, err := cli.Output(cmd)
			if err != nil {
				return err
			}
			return c.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) error {
				reply, err := m.ListSessions(ctx, &pb.ListSessionsRequest{})
				if err != nil {
					return err
				}
				if output == "json" {
					return cli.PrintProto(cmd.OutOrStdout(), reply)
				}
				if reply.GetMoreClosed() {
					fmt.Fprintln(cmd.ErrOrStderr(),
						"some closed sessions are left out; `penstock session show ID` shows one")
				}
				return printSessions(cmd.OutOrStdout(), reply.GetSessions())
			})
		},
	}
}

// call runs a command that ends with a session to show.
func (c *sessionCommand) call(
	f func(ctx context.Context, m pb.MasterClient, args []string) (*pb.Session, error), timeout time.Duration,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		return c.with(cmd, timeout, func(ctx context.Context, m pb.MasterClient) error {
			s, err := f(ctx, m, args)
			if err != nil {
				return err
			}
			if output == "json" {
				return cli.PrintProto(cmd.OutOrStdout(), s)
			}
			return printSession(cmd.OutOrStdout(), s)
		})
	}
}

// with calls f with a connection to the leader.
func (c *sessionCommand) with(
	cmd *cobra.Command, timeout time.Duration, f func(ctx context.Context, m pb.MasterClient) error,
) error {
	cfg, err := c.ports.Config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	return rpc.AtLeader(ctx, c.masters, cfg, f)
}

func printSessions(w io.Writer, sessions []*pb.Session) error {
	t := terminal.Table(w)
	fmt.Fprintln(t, "ID\tSTATE\tEPOCH\tROWS DELIVERED\tTRAINERS\tFILES\tSIZE\tCREATED")
	for _, s := range sessions {
		terminal.Printf(t, "%s\t%s\t%s\t%s\t%d of %d\t%d\t%s\t%s\n", s.GetId(), stateName(s), epochNumber(s),
			humanize.Comma(s.GetProgress().GetRowsDelivered()), presentOf(s.GetProgress()), s.GetWorldSize(),
			s.GetFiles(),
			humanize.IBytes(uint64(s.GetBytes())), humanize.Time(time.Unix(s.GetCreatedUnix(), 0)))
	}
	return t.Flush()
}

func printSession(w io.Writer, s *pb.Session) error {
	t := terminal.Table(w)
	p := s.GetProgress()
	terminal.Printf(t, "session\t%s\n", s.GetId())
	terminal.Printf(t, "state\t%s\n", standing(s, time.Now()))
	if closed := s.GetClosedUnix(); closed > 0 {
		terminal.Printf(t,
			"closed\t%s; this is a summary, and `penstock session checkpoints %s` lists what it can be put back to\n",
			humanize.Time(time.Unix(closed, 0)), s.GetId())
	}
	if s.GetFailure() != "" {
		terminal.Printf(t, "failure\t%s\n", terminal.Lines(s.GetFailure()))
	}
	terminal.Printf(t, "dataset\t%v: %s, %s\n", s.GetSpec().GetDataset().GetUri(),
		english.Plural(int(s.GetFiles()), "file", ""), humanize.IBytes(uint64(s.GetBytes())))
	terminal.Printf(t, "epoch\t%s; %d of %d blocks planned, %s rows\n", epochNumber(s),
		p.GetBlocksPlanned(), p.GetBlocks(), humanize.Comma(p.GetRowsPlanned()))
	terminal.Printf(t, "delivered\t%s rows\n", humanize.Comma(p.GetRowsDelivered()))
	if n := p.GetAbandonedEpochs(); n > 0 {
		terminal.Printf(t, "abandoned\tabout %s of %s that all trainers left before the end\n",
			english.Plural(int(p.GetAbandonedShards()), "shard", ""), english.Plural(int(n), "epoch", ""))
	}
	terminal.Printf(t, "order\t%s\n", order(s))
	terminal.Printf(t, "trainers\t%d of %d\n", presentOf(s.GetProgress()), s.GetWorldSize())
	if n := s.GetSkippedRowGroups(); n > 0 {
		terminal.Printf(t, "skipped\t%d extents that no worker can read; on_error allows %d\n",
			n, s.GetSpec().GetOnError().GetSkip())
	}
	for _, k := range s.GetSkipped() {
		terminal.Printf(t, "  epoch %d\t%s extent %d, rows %d to %d: %s\n", k.GetEpoch()+1, k.GetFile(),
			k.GetRowGroup(), k.GetFirstRow(), k.GetFirstRow()+k.GetRows()-1, terminal.Lines(k.GetCause()))
	}
	for _, e := range s.GetSkippedRows() {
		terminal.Printf(t, "bad rows\t%s left out of epoch %d; on_error allows %s\n",
			humanize.Comma(int64(e.GetRows())),
			e.GetEpoch()+1, humanize.Comma(int64(s.GetSpec().GetOnError().GetSkipRows())))
	}
	for _, r := range s.GetBadRows() {
		terminal.Printf(t, "  epoch %d\t%s row %d: %s\n", r.GetEpoch()+1, r.GetFile(), r.GetRow(),
			terminal.Lines(r.GetCause()))
	}
	for _, r := range p.GetRanks() {
		c := r.GetCounters()
		terminal.Printf(t, "  rank %d\t%s rows in %s batches, stalled %s, computing %s, %d failovers\n",
			r.GetRank(), humanize.Comma(c.GetRows()),
			humanize.Comma(c.GetBatches()), time.Duration(c.GetStallNs()).Round(time.Millisecond),
			time.Duration(c.GetComputeNs()).Round(time.Millisecond), c.GetFailovers())
	}
	if even := shares(s); even != "" {
		terminal.Printf(t, "shares\t%s\n", even)
	}
	for _, r := range p.GetRanks() {
		if n := r.GetMayRepeat(); n > 0 {
			terminal.Printf(t,
				"repeated\tat most %s rows that rank %d handed over before it died or hung, and told nobody of\n",
				humanize.Comma(n), r.GetRank())
		}
	}
	terminal.Printf(t, "generation\t%d\n", s.GetGeneration())
	if f := s.GetRestoredFrom(); f.GetName() != "" {
		terminal.Printf(t, "restored from\t%s, of step %s\n", f.GetName(), humanize.Comma(int64(f.GetStep())))
	}
	return t.Flush()
}

// order says what order the session's spec comes to, with its world size.
func order(s *pb.Session) string {
	sp := proto.CloneOf(s.GetSpec())
	if s.GetLanes() > 0 {
		sp.Lanes, sp.BatchSize, sp.GlobalBatchSize = s.GetLanes(), 0, s.GetBatchSize()*int64(s.GetWorldSize())
	}
	text := spec.Describe(sp, s.GetWorldSize())
	if s.GetDefaultLastBatch() && sp.GetLastBatch() == pb.LastBatch_DROP {
		text += " (the default of several ranks)"
	}
	return text
}

func stateName(s *pb.Session) string {
	if s.GetBadData() {
		return "failed: bad data"
	}
	if n := s.GetSkippedRowGroups(); n > 0 {
		return fmt.Sprintf("%s, %d skipped", words.State(s.GetState()), n)
	}
	return words.State(s.GetState())
}

// standing is the state's name, and since when it is that.
func standing(s *pb.Session, now time.Time) string {
	if s.GetStateSinceUnix() == 0 {
		return stateName(s)
	}
	return fmt.Sprintf("%s for %s", stateName(s), words.Duration(now.Sub(time.Unix(s.GetStateSinceUnix(), 0))))
}

// epochNumber says in which epoch a session is, and of how many where that is limited.
func epochNumber(s *pb.Session) string {
	n, all := s.GetProgress().GetEpoch()+1, spec.Epochs(s.GetSpec())
	if all == spec.Unlimited {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", min(n, all), all)
}

// presentOf counts the ranks whose leases run.
func presentOf(p *pb.Progress) (n int) {
	for _, r := range p.GetRanks() {
		if r.GetPresent() {
			n++
		}
	}
	return n
}

package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/terminal"
)

const (
	// askEvery is between two looks at a checkpoint that is being taken.
	askEvery = 200 * time.Millisecond
	// sayEvery is between two lines about one of which nothing is new.
	sayEvery = 10 * time.Second
	// maxCheckpointFile bounds what is read of a file.
	maxCheckpointFile = 16 << 20
	// namedRanks is how many ranks a line names.
	namedRanks = 8
)

func (c *sessionCommand) checkpoint() *cobra.Command {
	var timeout time.Duration
	var drop bool
	cmd := &cobra.Command{
		Use:   "checkpoint ID NAME",
		Short: "Keep what all trainers have read at one step, under a name",
		Long: "Has all trainers of a session say what they have read by one step, a few batches ahead, and keeps it " +
			"under a name. It waits until\n" +
			"all have. Their training loops hear of it with the batch of that step, and save their models there.",
		Example: "  penstock session checkpoint run-7 noon\n  penstock session checkpoint run-7 noon --output json " +
			"> noon.json\n  penstock session checkpoint run-7 noon --delete",
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait for the trainers")
	cmd.Flags().BoolVar(&drop, "delete", false, "delete the checkpoint, or give up one that is being taken")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		if drop {
			return c.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) error {
				_, err := m.DeleteCheckpoint(ctx, &pb.DeleteCheckpointRequest{Session: args[0], Name: args[1]})
				return err
			})
		}
		t := &taker{command: c, session: args[0], name: args[1], nonce: rand.Text(), progress: cmd.ErrOrStderr()}
		taken, err := t.take(cmd, timeout)
		if err != nil {
			return err
		}
		if output == "json" {
			return cli.PrintProto(cmd.OutOrStdout(), taken)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(),
			"checkpoint %q of session %s was taken at step %s; `penstock session restore %s %s` goes back to it\n",
			taken.GetName(), args[0], humanize.Comma(int64(taken.GetStep())), args[0], taken.GetName())
		return err
	}
	return cmd
}

// taker waits for a checkpoint.
type taker struct {
	command              *sessionCommand
	session, name, nonce string
	progress             io.Writer
	answered             bool // by a master, ever
	said                 string
	saidAt               time.Time
}

// take asks until the checkpoint is there. A leader that dies meanwhile is waited for.
func (t *taker) take(cmd *cobra.Command, timeout time.Duration) (*pb.Checkpoint, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	for {
		reply, lost, err := t.ask(cmd)
		switch {
		case err == nil && reply.GetCheckpoint() != nil:
			return reply.GetCheckpoint(), nil
		case err == nil:
			t.say(waitingFor(reply))
		case lost && t.answered:
			t.say("no master answers; waiting for one")
		default:
			return nil, err
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			if err := cmd.Context().Err(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf(
				"checkpoint %q is not there after %v: %s. It goes on: run the command again to wait on, or with "+
					"--delete to give it up",
				t.name, timeout, cmp.Or(t.said, "no answer"))
		}
	}
}

// ask makes one call. lost: no master answered.
func (t *taker) ask(cmd *cobra.Command) (reply *pb.CreateCheckpointReply, lost bool, err error) {
	err = t.command.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) (err error) {
		reply, err = m.CreateCheckpoint(ctx, &pb.CreateCheckpointRequest{
			Session: t.session, Name: t.name,
			Nonce: t.nonce,
		})
		lost = status.Code(err) == codes.Unavailable
		t.answered = t.answered || err == nil
		return err
	})
	return reply, lost, err
}

// say tells what is new, or once in a while what is not.
func (t *taker) say(words string) {
	if words == t.said && time.Since(t.saidAt) < sayEvery {
		return
	}
	t.said, t.saidAt = words, time.Now()
	fmt.Fprintln(t.progress, words)
}

// waitingFor says who is missing.
func waitingFor(r *pb.CreateCheckpointReply) string {
	var b strings.Builder
	if r.GetRetried() != "" {
		fmt.Fprintf(&b, "%s; ", r.GetRetried())
	}
	fmt.Fprintf(&b, "waiting for %s to reach step %d:", english.Plural(len(r.GetMissing()), "trainer", ""), r.GetStep())
	for i, m := range r.GetMissing() {
		if i == namedRanks {
			fmt.Fprintf(&b, " and %d more", len(r.GetMissing())-i)
			break
		}
		gone := ""
		if !m.GetPresent() {
			gone = ", not heard of for its lease"
		}
		fmt.Fprintf(&b, " rank %d (at %d%s)", m.GetRank(), m.GetStep(), gone)
	}
	return b.String()
}

func (c *sessionCommand) checkpoints() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints ID", Short: "List a session's checkpoints", Example: "  penstock session checkpoints run-7",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			output, err := cli.Output(cmd)
			if err != nil {
				return err
			}
			return c.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) error {
				reply, err := m.ListCheckpoints(ctx, &pb.ListCheckpointsRequest{Session: args[0]})
				if err != nil {
					return err
				}
				if output == "json" {
					return cli.PrintProto(cmd.OutOrStdout(), reply)
				}
				t := terminal.Table(cmd.OutOrStdout())
				fmt.Fprintln(t, "NAME\tSTEP\tEPOCH\tGENERATION\tTRAINERS\tTAKEN")
				for _, n := range reply.GetCheckpoints() {
					terminal.Printf(t, "%s\t%s\t%d\t%d\t%d\t%s\n", n.GetName(), humanize.Comma(int64(n.GetStep())),
						n.GetState().GetClosedEpochs()+1,
						n.GetGeneration(), n.GetWorldSize(), humanize.Time(time.Unix(n.GetCreatedUnix(), 0)))
				}
				return t.Flush()
			})
		},
	}
}

func (c *sessionCommand) restore() *cobra.Command {
	var file string
	var world uint32
	cmd := &cobra.Command{
		Use:   "restore ID [NAME]",
		Short: "Put a session back to a checkpoint",
		Long: "Puts a session back to a checkpoint: its own, by name, or one that `penstock session checkpoint " +
			"--output json` wrote to a file, of\n" +
			"this session or another. Trainers that run end with an error; started again, they go on right after " +
			"the checkpoint. With --from,\n" +
			"a session that does not exist is opened with the spec in the file.",
		Example: "  penstock session restore run-7 noon\n  penstock session restore run-7 noon --world-size 4\n  " +
			"penstock session restore run-8 --from noon.json",
		Args: cobra.RangeArgs(1, 2),
	}
	cmd.Flags().StringVar(&file, "from", "", "file with the checkpoint, in place of a name")
	cmd.Flags().Uint32Var(&world, "world-size", 0, "number of trainers (default: as many as took the checkpoint)")
	nonce := rand.Text()
	cmd.RunE = c.call(func(ctx context.Context, m pb.MasterClient, args []string) (*pb.Session, error) {
		req := &pb.RestoreSessionRequest{Session: args[0], WorldSize: world, Nonce: nonce}
		switch named := len(args) == 2; {
		case named == (file != ""):
			return nil, errors.New("give a checkpoint's name, or a file with --from")
		case named:
			req.Name = args[1]
			return m.RestoreSession(ctx, req)
		}
		var err error
		if req.Checkpoint, err = readCheckpoint(file); err != nil {
			return nil, err
		}
		s, err := m.RestoreSession(ctx, req)
		if status.Code(err) != codes.NotFound || req.GetCheckpoint().GetSpec() == nil {
			return s, err
		}
		open := &pb.OpenRequest{
			Session: args[0], Spec: req.GetCheckpoint().GetSpec(),
			WorldSize: cmp.Or(world, req.GetCheckpoint().GetWorldSize()),
		}
		if _, err := m.Open(ctx, open); err != nil {
			return nil, err
		}
		return m.RestoreSession(ctx, req)
	}, openTimeout)
	return cmd
}

// readCheckpoint reads what `checkpoint --output json` wrote.
func readCheckpoint(file string) (*pb.Checkpoint, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCheckpointFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	n := &pb.Checkpoint{}
	if err := protojson.Unmarshal(text, n); err != nil {
		return nil, fmt.Errorf("%s is no checkpoint: %w; give what `penstock session checkpoint --output json` wrote",
			file, err)
	}
	return n, nil
}

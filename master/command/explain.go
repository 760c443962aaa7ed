package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/terminal"
	"github.com/penstock-ml/penstock/master/words"
)

// describedEvents and describedTrainers bound what `session describe` prints.
const (
	describedEvents   = 20
	describedTrainers = 32
)

// Explain returns `penstock explain`, which says why a session's trainers wait, and what to do about it.
func Explain() *cobra.Command {
	c := &sessionCommand{}
	cmd := &cobra.Command{
		Use:   "explain SESSION",
		Short: "Say why a session's trainers wait, with the numbers behind it, and what to do next",
		Long: "Says in words what holds the trainers of a session up, if anything does, and what to do about it; " +
			"then the numbers that say so.\n" +
			"They are of the last seconds: a session that has just begun is not known yet.",
		Example: "  penstock explain run-7\n  penstock explain run-7 --output json",
		Args:    cobra.ExactArgs(1),
	}
	c.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		return c.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) error {
			seen, err := m.Observe(ctx, &pb.ObserveRequest{Session: args[0], Workers: true})
			if err != nil {
				return err
			}
			if output == "json" {
				return cli.PrintProto(cmd.OutOrStdout(), seen)
			}
			return printExplanation(cmd.OutOrStdout(), args[0], seen)
		})
	}
	return cli.Setup(cmd)
}

func printExplanation(w io.Writer, id string, seen *pb.Observation) error {
	s := loadOf(seen, id)
	terminal.Printf(w, "%s\n\nnext: %s\n", terminal.Lines(cmp.Or(s.GetVerdict(), seen.GetVerdict())), nextStep(s, seen))
	if s.GetState() != pb.SessionState_RUNNING || s.GetBottleneck() == pb.Bottleneck_BOTTLENECK_UNSPECIFIED &&
		s.GetRate() == 0 {
		return nil // there are no numbers
	}
	fmt.Fprintln(w)
	if err := printLoad(w, s); err != nil {
		return err
	}
	return printStages(w, s)
}

func loadOf(seen *pb.Observation, id string) *pb.SessionLoad {
	for _, s := range seen.GetSessions() {
		if s.GetSession() == id {
			return s
		}
	}
	return nil
}

// nextStep is what to do about a session's bottleneck.
func nextStep(s *pb.SessionLoad, seen *pb.Observation) string {
	switch s.GetState() {
	case pb.SessionState_FINISHED:
		return fmt.Sprintf("nothing: it is over. `penstock session describe %s` tells how it went", s.GetSession())
	case pb.SessionState_FAILED:
		return fmt.Sprintf(
			"mend what it says, then `penstock session delete %s` and start the job again, or give the job "+
				"another name", s.GetSession())
	case pb.SessionState_WAITING:
		return fmt.Sprintf(
			"start the job, with this session's name; `penstock doctor --session %s` shows what its trainers need. "+
				"If there is none, `penstock session delete %s`",
			s.GetSession(), s.GetSession())
	case pb.SessionState_ABANDONED:
		return fmt.Sprintf(
			"nothing, if the job is done: `penstock session delete %s` ends it at once, else --session-ttl does. To "+
				"read on, start the job again", s.GetSession())
	case pb.SessionState_IDLE:
		return "look at the training loop: it computes, or hangs, or its loader was opened and is not read; then " +
			"close that"
	}
	switch s.GetBottleneck() {
	case pb.Bottleneck_WORKERS:
		if s.GetStage() == "" {
			return "start workers, with `penstock worker --join GOSSIP`, or have `penstock master --scale` do it; " +
				"`penstock doctor` shows which masters and workers see each other"
		}
		return fmt.Sprintf(
			"add workers (it has %s, and needs %s), or make its rows cheaper: they spend most of their time in %s. "+
				"`penstock master --scale` adds and removes workers by itself, up to --max-workers",
			workerCount(s.GetGranted()), needed(s.GetNeeded(), s.GetDemand()), s.GetStage())
	case pb.Bottleneck_STORAGE:
		if bytesRead(seen) < 1 {
			return "storage gives nothing: workers read 0 B/s altogether. See whether it answers at all, from where " +
				"masters and workers run, and what their logs say of it"
		}
		return fmt.Sprintf(
			"more workers would read no faster: workers read %s/s altogether. Look for the storage's limits and "+
				"errors, read fewer or smaller columns, or give workers more --memory to read further ahead",
			words.Size(bytesRead(seen)))
	case pb.Bottleneck_NETWORK:
		return "look at the network between workers and trainers: put both in one zone (--zone), and look for other " +
			"traffic of the trainers' machines"
	case pb.Bottleneck_CLIENT:
		return "the trainer's process is too busy to take batches: give it more CPU, make larger batches, or move " +
			"work out of the training loop"
	case pb.Bottleneck_STREAMS:
		return streamsNext(s)
	case pb.Bottleneck_TRAINER:
		return "nothing: the trainers take all that they can"
	case pb.Bottleneck_NONE:
		return "nothing: no trainer reads now"
	}
	return "wait some seconds, until enough is measured, and ask again"
}

// streamsNext is what to do about too few streams.
func streamsNext(s *pb.SessionLoad) string {
	joined, world := len(s.GetTrainers()), int(s.GetWorldSize())
	switch {
	case s.GetStage() == "slots":
		return "give workers more --slots, or add workers, or close the loaders of other sessions that are not read: " +
			"`penstock top` shows which are idle"
	case s.GetStage() != "":
		return "workers have time to spare, but too few streams are open or they are too short: write more files or " +
			"smaller row groups, give workers more --slots, or give the session a larger part of the workers " +
			"(--weight of `penstock session create`, share= of a loader)"
	case joined < world:
		return fmt.Sprintf("%d of %d ranks read now: start the others, unless they are done. A rank that reads alone "+
			"needs a world size of 1", joined, world)
	case world > 1:
		return fmt.Sprintf("nothing, if the epoch ends. Else other ranks hold the rest: `penstock session show %s` says "+
			"how much each has read", s.GetSession())
	}
	return "nothing: no row is left to read, or the dataset is too small to keep workers busy"
}

func bytesRead(seen *pb.Observation) (sum float64) {
	for _, w := range seen.GetWorkers() {
		sum += w.GetBytesRead()
	}
	return sum
}

// printLoad writes a session's numbers.
func printLoad(w io.Writer, s *pb.SessionLoad) error {
	t := terminal.Table(w)
	terminal.Printf(t, "delivered\t%s\n", words.Rate(s.GetRate()))
	terminal.Printf(t, "demand\t%s\n", demandOf(s))
	terminal.Printf(t, "stall\t%s of its trainers' time\n", words.Percent(s.GetStall()))
	terminal.Printf(t, "workers\t%s; %s needed\n", workerCount(s.GetGranted()), neededBy(s))
	terminal.Printf(t, "a row takes\t%s of a worker\n",
		orUnknown(s.GetCost(), func(x float64) string { return time.Duration(x * 1e9).String() }))
	terminal.Printf(t, "batches come\t%s\n", cmp.Or(words.Ways(s.GetBytesSent(), s.GetBytesLent(), s.GetBytesLinked()),
		"unknown"))
	if sh := s.GetShare(); sh.GetWeight() != 0 || sh.GetMinWorkers() != 0 || sh.GetMaxWorkers() != 0 {
		terminal.Printf(t, "share\tweight %s, at least %s, at most %s\n", humanize.Ftoa(cmp.Or(sh.GetWeight(), 1)),
			english.Plural(int(sh.GetMinWorkers()), "worker", ""),
			orUnlimited(sh.GetMaxWorkers()))
	}
	return t.Flush()
}

func orUnlimited(n uint32) string {
	if n == 0 {
		return "any number"
	}
	return humanize.Comma(int64(n))
}

func printStages(w io.Writer, s *pb.SessionLoad) error {
	total := 0.0
	for _, x := range s.GetStages() {
		total += x.GetSeconds()
	}
	if total == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := terminal.Table(w)
	fmt.Fprintln(t, "STAGE\tSHARE\tSTREAMS BUSY WITH IT")
	for _, x := range s.GetStages() {
		terminal.Printf(t, "%s\t%s\t%.2f\n", x.GetStage(), words.Percent(x.GetSeconds()/total), x.GetSeconds())
	}
	return t.Flush()
}

// described is what `session describe --output json` prints.
type described struct {
	session *pb.Session
	seen    *pb.Observation
	events  *pb.ListEventsReply
}

func (c *sessionCommand) describe() *cobra.Command {
	return &cobra.Command{
		Use: "describe ID", Short: "Show all about a session: its state, load, stages, trainers and events",
		Args:    cobra.ExactArgs(1),
		Example: "  penstock session describe run-7\n  penstock session describe run-7 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			output, err := cli.Output(cmd)
			if err != nil {
				return err
			}
			return c.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) error {
				d, err := askAll(ctx, m, args[0])
				if err != nil {
					return err
				}
				if output == "json" {
					return d.writeJSON(cmd.OutOrStdout())
				}
				return d.writeText(cmd.OutOrStdout())
			})
		},
	}
}

func askAll(ctx context.Context, m pb.MasterClient, id string) (d described, err error) {
	if d.session, err = m.GetSession(ctx, &pb.GetSessionRequest{Session: id}); err != nil {
		return d, err
	}
	if d.seen, err = m.Observe(ctx, &pb.ObserveRequest{Session: id}); err != nil {
		return d, err
	}
	d.events, err = m.ListEvents(ctx, &pb.ListEventsRequest{Session: id, Limit: describedEvents})
	return d, err
}

// writeJSON writes one object of the three answers.
func (d described) writeJSON(w io.Writer) error {
	fmt.Fprint(w, `{"session":`)
	if err := cli.PrintProto(w, d.session); err != nil {
		return err
	}
	fmt.Fprint(w, `,"observation":`)
	if err := cli.PrintProto(w, d.seen); err != nil {
		return err
	}
	fmt.Fprint(w, `,"events":`)
	if err := cli.PrintProto(w, d.events); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "}")
	return err
}

func (d described) writeText(w io.Writer) error {
	if err := printSession(w, d.session); err != nil {
		return err
	}
	if s := loadOf(d.seen, d.session.GetId()); s != nil {
		terminal.Printf(w, "\n%s\n\n", terminal.Lines(s.GetVerdict()))
		if err := printLoad(w, s); err != nil {
			return err
		}
		if err := printStages(w, s); err != nil {
			return err
		}
		if err := printTrainers(w, s.GetTrainers()); err != nil {
			return err
		}
	}
	if len(d.events.GetEvents()) > 0 {
		fmt.Fprintln(w)
	}
	for _, e := range d.events.GetEvents() {
		terminal.Printf(w, "%s  %s\n", time.UnixMilli(e.GetUnixMs()).Format(time.DateTime),
			terminal.Lines(e.GetWords()))
	}
	return nil
}

func printTrainers(w io.Writer, trainers []*pb.TrainerLoad) error {
	if len(trainers) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := terminal.Table(w)
	fmt.Fprintln(t, "RANK\tTAKES\tSTALL\tA STEP TAKES\tSTATE")
	shown := min(describedTrainers, len(trainers))
	for _, k := range trainers[:shown] {
		state := "present"
		if !k.GetPresent() {
			state = "gone"
		}
		step := orUnknown(float64(k.GetStepNs()),
			func(ns float64) string { return time.Duration(ns).Round(time.Microsecond).String() })
		terminal.Printf(t, "%d\t%s\t%s\t%s\t%s\n", k.GetRank(), words.Rate(k.GetRate()), words.Percent(k.GetStall()),
			step, state)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return leftOut(w, len(trainers)-shown)
}

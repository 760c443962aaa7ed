package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/terminal"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/words"
)

// lookAtSize is how often the terminal is asked how large it is.
const lookAtSize = 100 * time.Millisecond

// topSorts are the orders of top's tables, by the letters that choose them.
func topSorts() []string { return []string{"rate", "stall", "busy", "name"} }

// top is `penstock top`.
type top struct {
	sessionCommand
	session, sort string
	every         time.Duration
	once          bool
}

// Top returns `penstock top`, which shows what the fleet does.
func Top() *cobra.Command {
	t := &top{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what the fleet, its sessions and its workers do, live",
		Long: "Shows the verdict, the fleet's numbers, and tables of sessions and workers, again and again. Keys: " +
			"r, s, b and n sort by rows per\n" +
			"second, stall, busy and name; q ends. Where the output is no terminal, or one that cannot move its " +
			"cursor (TERM=dumb), it prints once, with all sessions and workers.",
		Example: "  penstock top\n  penstock top --sort stall --session run-7\n  penstock top --once\n  penstock " +
			"top --output json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd) },
	}
	t.register(cmd.Flags())
	cmd.Flags().StringVar(&t.session, "session", "", "this session alone, and its workers")
	cmd.Flags().StringVar(&t.sort, "sort", "rate", "order of the tables: "+strings.Join(topSorts(), ", "))
	cmd.Flags().DurationVar(&t.every, "every", 2*time.Second, "time between two looks")
	cmd.Flags().BoolVar(&t.once, "once", false, "print once and end")
	return cli.Setup(cmd)
}

func (t *top) run(cmd *cobra.Command) error {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	if !slices.Contains(topSorts(), t.sort) {
		return fmt.Errorf("--sort: want one of %s, found %q", strings.Join(topSorts(), ", "), t.sort)
	}
	if t.every <= 0 {
		return fmt.Errorf("--every: want more than 0, found %v", t.every)
	}
	if screen, ok := cmd.OutOrStdout().(*os.File); ok && !t.once && output == "text" &&
		term.IsTerminal(int(screen.Fd())) && os.Getenv("TERM") != "dumb" {
		return t.live(cmd, screen)
	}
	seen, err := t.look(cmd)
	if err != nil {
		return err
	}
	if output == "json" {
		seen.Workers = workersOf(seen, t.session)
		return cli.PrintProto(cmd.OutOrStdout(), seen)
	}
	return printTop(cmd.OutOrStdout(), seen, t.session, t.sort, 0)
}

func (t *top) look(cmd *cobra.Command) (seen *pb.Observation, err error) {
	err = t.with(cmd, callTimeout, func(ctx context.Context, m pb.MasterClient) error {
		seen, err = m.Observe(ctx, &pb.ObserveRequest{Session: t.session, Workers: true})
		return err
	})
	return seen, err
}

// workersOf are the workers of a session, and of "" all.
func workersOf(seen *pb.Observation, session string) []*pb.WorkerLoad {
	return slices.DeleteFunc(slices.Clone(seen.GetWorkers()), func(w *pb.WorkerLoad) bool {
		return session != "" &&
			!slices.Contains(w.GetSessions(), session)
	})
}

// serving counts the workers that do not drain. The newest point tells of those that were there some seconds ago.
func serving(seen *pb.Observation) (n int) {
	for _, w := range seen.GetWorkers() {
		if !w.GetDraining() {
			n++
		}
	}
	return n
}

// live draws on a screen of its own until it is told to end. A fleet that does not answer is looked at again.
func (t *top) live(cmd *cobra.Command, screen *os.File) (err error) {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	cmd.SetContext(ctx)
	keys := make(chan byte)
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		before, err := term.MakeRaw(in)
		if err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		defer func() { _ = term.Restore(in, before) }() // nothing more can be done about it
		go readKeys(ctx, keys)                          // waits for a key until the process ends
	}
	fmt.Fprint(screen, "\033[?1049h\033[?25l")
	defer fmt.Fprint(screen, "\033[?25h\033[?1049l")
	ticker, sizes := time.NewTicker(t.every), time.NewTicker(lookAtSize)
	defer ticker.Stop()
	defer sizes.Stop()
	for {
		seen, err := t.look(cmd)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted
		}
		width, height := sizeOf(screen)
		t.draw(screen, seen, err)
		for again := false; !again; {
			select {
			case <-ticker.C:
				again = true
			case <-sizes.C:
				if w, h := sizeOf(screen); w != width || h != height {
					width, height = w, h
					t.draw(screen, seen, err)
				}
			case <-ctx.Done():
				return nil
			case key := <-keys:
				if key == 'q' || key == 3 { // Ctrl-C
					return nil
				}
				t.sortBy(key)
				t.draw(screen, seen, err)
			}
		}
	}
}

func readKeys(ctx context.Context, keys chan<- byte) {
	var key [1]byte
	for {
		if _, err := os.Stdin.Read(key[:]); err != nil {
			return
		}
		select {
		case keys <- key[0]:
		case <-ctx.Done():
			return
		}
	}
}

// sortBy takes a key that chooses an order.
func (t *top) sortBy(key byte) {
	for _, name := range topSorts() {
		if name[0] == key {
			t.sort = name
		}
	}
}

// draw fills the screen, with lines that are cut at its edge.
func (t *top) draw(screen *os.File, seen *pb.Observation, err error) {
	width, height := sizeOf(screen)
	var text bytes.Buffer
	if err == nil {
		err = printTop(&text, seen, t.session, t.sort, height-1) // the last line is below
	}
	if err != nil {
		text.Reset()
		terminal.Printf(&text, "%s\n", terminal.Lines(err.Error()))
	}
	var out strings.Builder
	out.WriteString("\033[H")
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	for _, line := range lines[:min(len(lines), height-1)] {
		out.WriteString(cut(line, width) + "\033[K\r\n")
	}
	out.WriteString("\033[J" + cut(fmt.Sprintf("sorted by %s; r rate, s stall, b busy, n name, q ends", t.sort), width))
	fmt.Fprint(screen, out.String())
}

func sizeOf(screen *os.File) (width, height int) {
	width, height, err := term.GetSize(int(screen.Fd()))
	if err != nil || width < 1 || height < 2 {
		return 80, 24
	}
	return width, height
}

func cut(line string, width int) string {
	if runes := []rune(line); len(runes) > width {
		return string(runes[:width])
	}
	return line
}

// printTop writes what was observed, with the workers of one session or of "" all, on so many lines; 0 is as many as
// there are.
func printTop(w io.Writer, seen *pb.Observation, session, sort string, height int) error {
	workers := workersOf(seen, session)
	p := &pb.FleetPoint{}
	if n := len(seen.GetPoints()); n > 0 {
		p = seen.GetPoints()[n-1]
	}
	terminal.Printf(w, "%s  %s\n", time.UnixMilli(seen.GetNowUnixMs()).Format(time.TimeOnly),
		terminal.Lines(seen.GetVerdict()))
	terminal.Printf(w, "%s delivered, %s demanded; stall %s; %s, %s needed, busy %s; storage %s/s, cross-zone %s/s\n\n",
		words.Rate(p.GetRate()), orUnknown(p.GetDemand(), words.Demand), words.Percent(p.GetStall()),
		english.Plural(serving(seen), "worker", ""), needed(p.GetNeeded(), p.GetDemand()),
		words.Percent(p.GetBusy()), words.Size(p.GetBytesRead()), words.Size(p.GetBytesCrossZone()))
	sessionLines, workerLines := len(seen.GetSessions()), len(workers)
	if height > 0 { // four lines above, heads, an empty line, and a word on what is left out of each
		room := max(2, height-8)
		sessionLines = min(sessionLines, max(room/3, room-workerLines))
		workerLines = min(workerLines, room-sessionLines)
	}
	return errors.Join(printTopSessions(w, seen.GetSessions(), sort, sessionLines),
		printTopWorkers(w, workers, sort, workerLines))
}

func printTopSessions(w io.Writer, sessions []*pb.SessionLoad, sort string, lines int) error {
	if len(sessions) == 0 {
		fmt.Fprintln(w, "no session is open")
	}
	sessions = slices.Clone(sessions)
	slices.SortFunc(sessions, func(a, b *pb.SessionLoad) int {
		order := map[string]int{
			"rate":  cmp.Compare(b.GetRate(), a.GetRate()),
			"stall": cmp.Compare(b.GetStall(), a.GetStall()), "busy": cmp.Compare(b.GetGranted(), a.GetGranted()),
		}[sort]
		return cmp.Or(order, cmp.Compare(nameOf(a), nameOf(b)))
	})
	t := terminal.Table(w)
	if len(sessions) > 0 {
		fmt.Fprintln(t, "SESSION\tSTATE\tDELIVERED\tDEMAND\tSTALL\tWORKERS\tNEEDED\tTRAINERS\tEPOCH\tHELD UP BY")
	}
	for _, s := range sessions[:lines] {
		terminal.Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d of %d\t%d\t%s\n", nameOf(s), words.State(s.GetState()),
			words.Rate(s.GetRate()),
			demandOf(s), words.Percent(s.GetStall()), workerCount(s.GetGranted()), neededBy(s),
			presentOf(s.GetProgress()), s.GetWorldSize(), s.GetProgress().GetEpoch()+1, heldUpBy(s))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return leftOut(w, len(sessions)-lines)
}

// nameOf tells sessions of one id in several namespaces apart, as the dashboard does.
func nameOf(s *pb.SessionLoad) string {
	return store.NameOf(s.GetNamespace(), s.GetSession()).String()
}

func printTopWorkers(w io.Writer, workers []*pb.WorkerLoad, sort string, lines int) error {
	fmt.Fprintln(w)
	if len(workers) == 0 {
		fmt.Fprintln(w, "no worker reports")
		return nil
	}
	workers = slices.Clone(workers)
	slices.SortFunc(workers, func(a, b *pb.WorkerLoad) int {
		order := map[string]int{
			"rate": cmp.Compare(b.GetRate(), a.GetRate()),
			"busy": cmp.Compare(b.GetBusy(), a.GetBusy()),
		}[sort]
		return cmp.Or(order, cmp.Compare(a.GetName(), b.GetName()))
	})
	t := terminal.Table(w)
	fmt.Fprintln(t, "WORKER\tBUSY\tSENDS\tREADS\tSTREAMS\tMEMORY\tZONE\tSTATE\tADDRESS")
	for _, k := range workers[:lines] {
		state := "serves"
		if k.GetDraining() {
			state = "drains"
		}
		terminal.Printf(t, "%s\t%s\t%s\t%s/s\t%d of %d\t%s of %s\t%s\t%s\t%s\n", k.GetName(),
			words.Percent(k.GetBusy()),
			words.Rate(k.GetRate()), words.Size(k.GetBytesRead()),
			k.GetStreams(), k.GetSlots(), words.Size(float64(k.GetMemoryBytes())),
			words.Size(float64(k.GetMemoryLimit())), cmp.Or(k.GetZone(), "-"), state, k.GetAddress())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return leftOut(w, len(workers)-lines)
}

func leftOut(w io.Writer, n int) error {
	if n == 0 {
		return nil
	}
	_, err := terminal.Printf(w, "and %s more\n", humanize.Comma(int64(n)))
	return err
}

// heldUpBy says what a session waits for.
func heldUpBy(s *pb.SessionLoad) string {
	switch b := s.GetBottleneck(); b {
	case pb.Bottleneck_BOTTLENECK_UNSPECIFIED:
		return "not known yet"
	case pb.Bottleneck_NONE: // it is not read
		return "-"
	case pb.Bottleneck_TRAINER:
		return "nothing"
	case pb.Bottleneck_WORKERS:
		return strings.TrimSuffix("too few workers: "+s.GetStage(), ": ")
	case pb.Bottleneck_STREAMS:
		if s.GetStage() == "slots" {
			return "other sessions' idle streams"
		}
		return "too few streams"
	default:
		return strings.ToLower(b.String())
	}
}

// workerCount is a number of workers, which may be a small part of one.
func workerCount(x float64) string {
	if x > 0 && x < 0.1 {
		return "<0.1"
	}
	return humanize.FtoaWithDigits(x, 1)
}

// demandOf is what a session's trainers could take.
func demandOf(s *pb.SessionLoad) string {
	if s.GetBottleneck() == pb.Bottleneck_NONE {
		return "none"
	}
	return orUnknown(s.GetDemand(), words.Demand)
}

// neededBy is how many workers that takes.
func neededBy(s *pb.SessionLoad) string {
	if s.GetBottleneck() == pb.Bottleneck_NONE {
		return "none"
	}
	return needed(s.GetNeeded(), s.GetDemand())
}

// needed is how many workers a demand takes.
func needed(n, demand float64) string {
	if words.Unbounded(demand) {
		return "all there are"
	}
	return orUnknown(n, workerCount)
}

// orUnknown is for numbers that are 0 where nothing is known.
func orUnknown(x float64, say func(float64) string) string {
	if x == 0 {
		return "unknown"
	}
	return say(x)
}

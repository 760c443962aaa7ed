// Package doctor is `penstock doctor`, which checks each hop from a trainer to the fleet. It looks at many workers at
// once, and waits for all of that.
package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// workersAtOnce is how many workers are looked at in parallel.
const workersAtOnce = 64

// doctor is `penstock doctor`.
type doctor struct {
	masters []string
	session string
	timeout time.Duration // of one step
	ports   cli.RPCFlags
	version string

	rpc rpc.Config
}

// state is how a step went.
type state string

const (
	fine    state = "ok"
	warning state = "warn"
	failure state = "FAIL"
)

// finding is what one step showed.
type finding struct {
	Target string  `json:"target"` // "master 10.0.0.5:7070"
	Step   string  `json:"step"`   // name, connect, tls, call, leader, health, ...
	State  state   `json:"state"`
	Seen   string  `json:"seen"`
	Next   string  `json:"next,omitempty"` // what to do about it
	Ms     float64 `json:"ms"`             // how long it took
}

func good(format string, args ...any) finding {
	return finding{State: fine, Seen: fmt.Sprintf(format, args...)}
}

func fail(seen, next string) finding { return finding{State: failure, Seen: seen, Next: next} }

// Command returns `penstock doctor`.
func Command(version string) *cobra.Command {
	d := &doctor{version: version}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check each hop from here to the masters and workers",
		Long: "Check, from where it runs, each hop that a trainer depends on: that the masters' names resolve, that " +
			"their ports\n" +
			"answer, that certificates and token are right, that one of them leads and can be reached where it says " +
			"it is, and\n" +
			"that each worker can be reached where it says it is. A line for each step says what was seen and, if " +
			"it failed,\n" +
			"what to do. Nothing is changed. Exit status 0 if nothing failed.",
		Example: "  penstock doctor\n  penstock doctor --master penstock.default:7070 --tls-ca ca.pem --token-file " +
			"token\n  penstock doctor --session run-7 --output json",
		Args: cobra.NoArgs,
		RunE: d.run,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&d.masters, "master", []string{"127.0.0.1:7070"}, "addresses of masters")
	flags.StringVar(&d.session, "session", "", "id of a session to ask after, too")
	flags.DurationVar(&d.timeout, "timeout", 5*time.Second, "how long each step may take")
	d.ports.RegisterClient(flags)
	return cli.Setup(cmd)
}

func (d *doctor) run(cmd *cobra.Command, _ []string) error {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	if d.timeout <= 0 {
		return fmt.Errorf("--timeout: want more than 0, found %v", d.timeout)
	}
	if d.rpc, err = d.ports.Config(); err != nil {
		return err
	}
	conn, err := rpc.Dial("localhost:7070", d.rpc) // connects with the first call: this reads the files
	if err != nil {
		return err
	}
	_ = conn.Close() // it was never opened
	findings := d.examine(cmd.Context())
	failed := 0
	for _, f := range findings {
		if f.State == failure {
			failed++
		}
	}
	if output == "json" {
		err = cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"ok": failed == 0, "checks": findings})
	} else {
		err = printFindings(cmd.OutOrStdout(), findings)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d checks failed", failed, len(findings))
	}
	return err
}

func printFindings(w io.Writer, findings []finding) error {
	t := terminal.Table(w)
	for _, f := range findings {
		terminal.Printf(t, "%s\t%s\t%s\t%s", f.State, f.Target, f.Step, strings.ReplaceAll(f.Seen, "\n", "; "))
		if f.Next != "" {
			terminal.Printf(t, ". Next: %s", f.Next)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// examine looks at the masters that it was told of, then at the leader's own address, then at the workers.
func (d *doctor) examine(ctx context.Context) []finding {
	masters := make([]*target, len(d.masters))
	var group sync.WaitGroup
	for i, address := range d.masters {
		masters[i] = &target{doctor: d, role: "master", address: address}
		group.Go(func() { masters[i].askMaster(ctx) })
	}
	group.Wait()
	leaders := d.leaders(ctx, masters)
	targets := slices.Concat(masters, leaders)
	if best := choose(targets); best != nil {
		targets = append(targets, d.fleet(ctx, best)...)
	}
	var out []finding
	for _, t := range targets {
		out = append(out, t.findings...)
	}
	return out
}

// choose returns a master to take the fleet's word from: the leader, or whoever answers; nil if nobody does.
func choose(masters []*target) (best *target) {
	for _, m := range masters {
		if m.fleet != nil && (best == nil || m.leads && !best.leads) {
			best = m
		}
	}
	return best
}

// leaders looks at each leader that masters name, at the address that it says it has: trainers go there when another
// master sends them, and there is no other way for them to learn of it.
func (d *doctor) leaders(ctx context.Context, masters []*target) []*target {
	var out []*target
	elsewhere := slices.ContainsFunc(masters, func(m *target) bool { return m.elsewhere })
	for _, m := range masters {
		known := func(t *target) bool { return t.address == m.leader }
		if m.leader == "" || slices.ContainsFunc(masters, known) || slices.ContainsFunc(out, known) {
			continue
		}
		t := &target{doctor: d, role: "leader", address: m.leader, advertised: true, awayFrom: elsewhere}
		t.askMaster(ctx)
		out = append(out, t)
	}
	named := map[string]bool{}
	for _, m := range masters {
		if m.leader != "" {
			named[m.leader] = true
		}
	}
	if len(named) > 1 {
		t := &target{doctor: d, role: "fleet"}
		t.add(ctx, "leader", func(context.Context) finding {
			return fail(fmt.Sprintf("the masters name different leaders: %s", strings.Join(sorted(named), ", ")),
				"run this again, since the leadership may just have changed; if it stays so, these masters are not "+
					"of one fleet: all need the same --etcd and --etcd-prefix")
		})
		out = append(out, t)
	}
	return out
}

// fleet looks at the fleet as a master knows it, and at each worker.
func (d *doctor) fleet(ctx context.Context, from *target) []*target {
	whole := &target{doctor: d, role: "fleet"}
	whole.add(ctx, "workers", func(context.Context) finding { return countWorkers(from.fleet) })
	whole.add(ctx, "versions", func(context.Context) finding { return compareVersions(from.fleet, d.version) })
	out := []*target{whole}
	var group errgroup.Group
	group.SetLimit(workersAtOnce)
	for _, m := range from.fleet.GetMembers() {
		if m.GetRole() != "worker" {
			continue
		}
		t := &target{
			doctor: d, role: "worker", name: m.GetName(), address: m.GetAddress(), advertised: true,
			awayFrom: from.elsewhere,
		}
		out = append(out, t)
		group.Go(func() error {
			t.askWorker(ctx, m)
			return nil
		})
	}
	_ = group.Wait() // no function fails
	return out
}

func countWorkers(f *pb.Fleet) finding {
	workers, slots := 0, 0
	for _, m := range f.GetMembers() {
		if m.GetRole() == "worker" {
			workers++
			slots += int(m.GetSlots())
		}
	}
	if workers == 0 {
		return fail("the fleet has no worker",
			"start one with `penstock worker --join` and the gossip address of a master or worker; if one runs, its "+
				"log says why it cannot join: it needs the same token, and the gossip port by TCP and UDP")
	}
	return good("%d, with %s; %s %s open", workers, english.Plural(slots, "slot", ""),
		english.Plural(int(f.GetStreams()), "stream", ""),
		english.PluralWord(int(f.GetStreams()), "is", "are"))
}

func compareVersions(f *pb.Fleet, own string) finding {
	seen := map[string]map[string]bool{own: {"this command": true}}
	for _, m := range f.GetMembers() {
		if seen[m.GetVersion()] == nil {
			seen[m.GetVersion()] = map[string]bool{}
		}
		seen[m.GetVersion()][m.GetName()] = true
	}
	if len(seen) == 1 {
		return good("all are %s", own)
	}
	var parts []string
	for _, version := range sorted(seen) {
		names := sorted(seen[version])
		text := strings.Join(names[:min(3, len(names))], ", ")
		if len(names) > 3 {
			text += fmt.Sprintf(" and %d more", len(names)-3)
		}
		parts = append(parts, fmt.Sprintf("%q: %s", version, text))
	}
	return finding{
		State: warning, Seen: "versions differ: " + strings.Join(parts, "; "),
		Next: "bring all to one release, unless an update is under way: a worker of another one may refuse a " +
			"session's ops",
	}
}

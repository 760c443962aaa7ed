package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// report gathers what a run was, and writes it.
type report struct {
	options     options
	notIsolated error
	files       []int // their numbers of rows
	dataset     string
	began       time.Time
	struckFrom  time.Time
	played      time.Duration

	fleet *fleet
	job   *job
	storm *storm
	count *count

	mu sync.Mutex
}

// say prints a line with the time since the beginning. Many goroutines may call it.
func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := time.Since(r.began)
	fmt.Printf("%02d:%04.1f  %s\n", int(t.Minutes()), (t % time.Minute).Seconds(), fmt.Sprintf(format, args...))
}

// again are the flags of the same run.
func (o options) again() string {
	text := fmt.Sprintf(
		"--faults %d --seed %d --workers %d --masters %d --trainers %d --rows %d --epochs %d --last-batch "+
			"%s --order %s",
		o.faults, o.seed, o.workers, o.masters, o.trainers, o.rows, o.epochs, o.lastBatch, o.order)
	for _, f := range []struct {
		flag string
		is   bool
	}{
		{"mixed", o.mixed},
		{"full", o.full},
		{"named", o.named},
		{"functions", o.functions},
		{"without-states", o.stateless},
	} {
		if f.is {
			text += " --" + f.flag
		}
	}
	if o.format != parquetFormat {
		text += " --format " + o.format
	}
	if len(o.only) > 0 {
		text += " --only " + strings.Join(o.only, ",")
	}
	return text
}

// finish prints the report, and writes it where it is wanted. err is what failed.
func (r *report) finish(err error) error {
	text := r.text(err)
	fmt.Printf("\n%s", text)
	var errs []error
	if r.storm != nil {
		errs = append(errs, os.WriteFile(filepath.Join(r.options.dir, "faults.txt"), []byte(r.faults()), 0o644))
	}
	if r.options.report != "" {
		errs = append(errs, os.WriteFile(r.options.report, []byte(text), 0o644))
	}
	return errors.Join(errs...)
}

func (r *report) text(failed error) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	o := r.options
	p("# Chaos: %d faults, seed %d\n", o.faults, o.seed)
	p("`go run ./bench/chaos %s`, %s, %d CPUs, took %v. The same with --plan prints the schedule.\n",
		o.again(), runtime.GOOS, runtime.NumCPU(), r.played.Round(time.Second))
	p(
		"%d workers, %d masters, %d members of etcd, %d trainers at first, MinIO; leases of %v; %d epochs of %d "+
			"rows in %d files.",
		o.workers, o.masters, etcdMembers, o.trainers, o.lease, o.epochs, o.rows, len(r.files))
	if r.notIsolated != nil {
		p("Faults of the network are left out: %v.", r.notIsolated)
	}
	if r.count != nil {
		p("\n## Rows, counted by %s\n\n%v", r.count.By, r.count)
	}
	if r.job != nil {
		r.job.mu.Lock()
		defer r.job.mu.Unlock()
		r.jobText(p)
	}
	if failed != nil {
		p("\n## Failed\n\n%v", failed)
	} else if o.stateless {
		p("\nNo row came again but those that ranks were handed in the %v before their ends.", o.lease)
	} else {
		p("\nEvery row of every epoch was handed over exactly once, with its values.")
		if o.order == deterministic {
			p("The sequence is that of one trainer without faults.")
		}
	}
	return b.String()
}

func (r *report) jobText(p func(string, ...any)) {
	f := &r.job.figures
	p("\n## The job\n")
	p("%d checkpoints; %d starts. Ranks that ended, and took their attempt with them: %s.",
		f.Checkpoints, f.Attempts, counts(f.Ends))
	if r.options.named {
		p("Masters took %d named checkpoints, and the job went on from %d of them.", f.Named, f.NamedRestores)
	}
	if f.Overlaps > 0 {
		p(
			"%d restores were refused, of checkpoints in which a rank that no master had reached for longer than "+
				"its lease had rows that others had, too; older ones were restored.", f.Overlaps)
	}
	if len(r.fleet.ends) > 0 {
		p("Processes of the fleet that ended by themselves, and were started again: %s.", counts(r.fleet.ends))
	}
	if r.options.functions {
		p("Processes of functions: %d were killed, and %d stopped for good.", r.fleet.hit[syscall.SIGKILL],
			r.fleet.hit[syscall.SIGSTOP])
	}
	var highest vitals
	for _, peak := range r.fleet.peaks {
		highest = highest.max(peak)
	}
	p("The most that a process held: %v.", highest)
	p("From a rank's end to the next batch: %s.", distribution(f.Restarts))
	p("Time to get a batch: %s.", distribution(f.All))
	p(
		"\n## Pauses\n\nThe longest pause of any trainer during a fault or within a second of it, whatever caused "+
			"it; up to %d faults are under way at once.\n", atOnce)
	p("| class | kind | faults | median | 90%% | longest |\n| --- | --- | --: | --: | --: | --: |")
	byKind := map[string][]time.Duration{}
	for _, s := range r.storm.struck {
		k := s.Class + " | " + s.Kind
		byKind[k] = append(byKind[k], s.pause(f.Waits))
	}
	for _, k := range slices.Sorted(maps.Keys(byKind)) {
		d := byKind[k]
		p("| %s | %d | %s | %s | %s |", k, len(d), ms(quantile(d, 0.5)), ms(quantile(d, 0.9)), ms(quantile(d, 1)))
	}
}

// aftermath is how long after a fault a pause is still set against it.
const aftermath = time.Second

// pause is the longest wait that overlaps the fault.
func (s struck) pause(waits []wait) time.Duration {
	var longest time.Duration
	for _, w := range waits {
		if w.end.After(s.Began) && w.end.Add(-w.long).Before(s.Ended.Add(aftermath)) {
			longest = max(longest, w.long)
		}
	}
	return longest
}

// faults lists what was carried out.
func (r *report) faults() string {
	r.storm.mu.Lock()
	defer r.storm.mu.Unlock()
	slices.SortFunc(r.storm.struck, func(a, b struck) int { return a.Number - b.Number })
	text := ""
	for _, s := range r.storm.struck {
		text += fmt.Sprintf("%8.1f s  %v (%s)\n", s.Began.Sub(r.struckFrom).Seconds(), s.Fault, strings.Join(s.On, " "))
	}
	return text
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func distribution(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	return fmt.Sprintf("median %s, 90%% %s, 99%% %s, longest %s (%d)",
		ms(quantile(d, 0.5)), ms(quantile(d, 0.9)), ms(quantile(d, 0.99)), ms(quantile(d, 1)), len(d))
}

// quantile is the least value that a share of all is not above; 0 if there are none.
func quantile(d []time.Duration, share float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(d)-1, int(share*float64(len(d))))]
}

func ms(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/1e6)
}

func (c *count) String() string {
	text := fmt.Sprintf(
		"%d expected, %d handed over; %d lost, %d more than once, %d invented, %d altered, %d out of order.",
		c.Expected, c.HandedOver, c.Lost.Count, c.Doubled.Count, c.Invented.Count, c.Altered.Count, c.Displaced.Count)
	for _, f := range []struct {
		name string
		found
	}{{"lost (epoch, file, row)", c.Lost}, {
		"more than once (epoch, file, row, step, rank)",
		c.Doubled,
	}, {"invented", c.Invented}, {"altered", c.Altered}, {"out of order", c.Displaced}} {
		if f.Count > 0 {
			text += fmt.Sprintf("\n- %s: %v", f.name, f.Examples)
		}
	}
	return text
}

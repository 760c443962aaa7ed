package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// name is a benchmark.
type name struct{ pkg, bench string }

// cost is what one iteration of it takes.
type cost struct{ instructions, allocs int64 }

type costs map[name]cost

// readCosts reads a baseline; one that does not exist is empty.
func readCosts(path string) (costs, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return costs{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the baseline: %w", err)
	}
	defer f.Close()
	c := costs{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		var at name
		var is cost
		if _, err := fmt.Sscan(line, &at.pkg, &at.bench, &is.instructions, &is.allocs); err != nil {
			return nil, fmt.Errorf("%s line %d: %q is not a package, a benchmark, instructions and allocations: %w",
				path, n, line, err)
		}
		c[at] = is
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the baseline: %w", err)
	}
	return c, nil
}

func writeCosts(path string, c costs) error {
	var b strings.Builder
	b.WriteString(
		"# What an iteration of each benchmark costs: package, benchmark, instructions, allocations. go run " +
			"./bench/guard --update\n")
	for _, at := range c.names() {
		fmt.Fprintln(&b, at.pkg, at.bench, c[at].instructions, c[at].allocs)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write the baseline: %w", err)
	}
	return nil
}

func (c costs) names() []name {
	return slices.SortedFunc(maps.Keys(c), func(a, b name) int {
		if n := strings.Compare(a.pkg, b.pkg); n != 0 {
			return n
		}
		return strings.Compare(a.bench, b.bench)
	})
}

// of returns the costs of targets' packages.
func (c costs) of(chosen []target) costs {
	out := costs{}
	for at, is := range c {
		if slices.ContainsFunc(chosen, func(t target) bool { return t.pkg == at.pkg }) {
			out[at] = is
		}
	}
	return out
}

// with returns c with what was measured of the targets in place of what it had of them.
func (c costs) with(chosen []target, now costs) costs {
	out := maps.Clone(c)
	for at := range c.of(chosen) {
		delete(out, at)
	}
	maps.Copy(out, now)
	return out
}

// cheapest returns the lower costs of both.
func (c costs) cheapest(other costs) costs {
	out := maps.Clone(c)
	for at, is := range other {
		if was, had := c[at]; had {
			is = cost{min(was.instructions, is.instructions), min(was.allocs, is.allocs)}
		}
		out[at] = is
	}
	return out
}

// targets are the benchmarks, each as one target.
func (c costs) targets() []target {
	var all []target
	for _, at := range c.names() {
		all = append(all, target{at.pkg, exactly(at.bench)})
	}
	return all
}

// worse returns those of now that cost more than in c, the baseline.
func (c costs) worse(now costs) costs {
	out := costs{}
	for at, is := range now {
		if was, had := c[at]; had && judge(was, is, had, true) != "" {
			out[at] = is
		}
	}
	return out
}

// compare prints both, what is wrong last, and fails if a benchmark takes more than before, is gone, or was not there.
func compare(w io.Writer, before, now costs) error {
	all := maps.Clone(before)
	maps.Copy(all, now)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PACKAGE\tBENCHMARK\tINSTRUCTIONS\tBEFORE\tRATIO\tALLOCS\tBEFORE\t")
	var wrong []string
	for _, at := range all.names() {
		was, had := before[at]
		is, has := now[at]
		verdict := judge(was, is, had, has)
		line := fmt.Sprintf("%s\t%s\t%d\t%d\t%.3f\t%d\t%d\t%s\n", at.pkg, at.bench, is.instructions, was.instructions,
			float64(is.instructions)/max(1, float64(was.instructions)), is.allocs, was.allocs, verdict)
		if verdict != "" {
			wrong = append(wrong, line)
			continue
		}
		fmt.Fprint(t, line)
	}
	fmt.Fprint(t, strings.Join(wrong, ""))
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the comparison: %w", err)
	}
	if len(wrong) > 0 {
		return errWorse
	}
	return nil
}

// judge says what is wrong with a benchmark, if anything is.
func judge(was, is cost, had, has bool) string {
	switch {
	case !has:
		return "is gone"
	case !had:
		return "is not in the baseline"
	case float64(is.instructions) > (1+slack)*float64(was.instructions):
		return "takes more instructions"
	case is.allocs > was.allocs+max(was.allocs/20, min(1, was.allocs)): // maps grow at random
		return "allocates more"
	}
	return ""
}

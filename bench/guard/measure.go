package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

//go:embed qemu/instructions.c
var plugin []byte

// emulator is what emulates one process.
const emulator = "qemu-x86_64"

// target is a set of benchmarks of a package, chosen as by go test -bench.
type target struct{ pkg, bench string }

const (
	// warm is how many iterations the shorter run has: the first ones grow buffers.
	warm = 2
	// enough instructions tell apart what iterations take and what the runtime does beside, some 100,000.
	enough = 30_000_000
	// maxIterations bounds the iterations of a benchmark that takes next to nothing.
	maxIterations = 20_000
)

// measure returns what the targets' benchmarks cost.
func measure(ctx context.Context, chosen []target, progress io.Writer) (costs, error) {
	if _, err := exec.LookPath(emulator); err != nil {
		return nil, fmt.Errorf("%w; install QEMU's user emulation (Debian: apt-get install qemu-user)", err)
	}
	dir, err := os.MkdirTemp("", "guard-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir}
	if err := b.buildPlugin(ctx); err != nil {
		return nil, err
	}
	all := costs{}
	for _, t := range chosen {
		fmt.Fprintf(progress, "%s %s\n", t.pkg, t.bench)
		if err := b.measure(ctx, t, all); err != nil {
			return nil, fmt.Errorf("%s: %w", t.pkg, err)
		}
	}
	return all, nil
}

// bench runs benchmarks from a directory of its own.
type bench struct{ dir string }

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) buildPlugin(ctx context.Context) error {
	source := b.path("instructions.c")
	if err := os.WriteFile(source, plugin, 0o600); err != nil {
		return fmt.Errorf("write the plugin: %w", err)
	}
	return execute(ctx, "cc", "-shared", "-fPIC", "-O2", "-o", b.path("instructions.so"), source)
}

// measure adds the costs of a target's benchmarks.
func (b *bench) measure(ctx context.Context, t target, into costs) error {
	binary := b.path("test")
	if err := execute(ctx, "go", "test", "-c", "-o", binary, t.pkg); err != nil {
		return err
	}
	names, err := b.list(ctx, binary, t)
	if err != nil {
		return err
	}
	for _, n := range names {
		if into[name{t.pkg, n}], err = b.cost(ctx, binary, t.pkg, n); err != nil {
			return err
		}
	}
	return nil
}

// cost runs a benchmark with more and more iterations until they take enough instructions.
func (b *bench) cost(ctx context.Context, binary, pkg, bench string) (cost, error) {
	few, _, err := b.run(ctx, binary, pkg, bench, warm)
	if err != nil {
		return cost{}, err
	}
	for n := int64(1); ; {
		all, allocs, err := b.run(ctx, binary, pkg, bench, warm+int(n))
		if err != nil {
			return cost{}, err
		}
		took := max(1, all-few)
		if took >= enough || n == maxIterations {
			return cost{instructions: took / n, allocs: allocs}, nil
		}
		n = min(maxIterations, 10*n, n*enough/took+1)
	}
}

// list returns the names of the target's benchmarks.
func (b *bench) list(ctx context.Context, binary string, t target) ([]string, error) {
	out, err := b.start(exec.CommandContext(ctx, binary, arguments(t.bench, 1)...), t.pkg)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, line := range results(out) {
		names = append(names, line.bench)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no benchmark matches %q", t.bench)
	}
	return names, nil
}

// run returns the instructions of a whole process that runs a benchmark, and the allocations of one iteration.
func (b *bench) run(
	ctx context.Context, binary, pkg, bench string, iterations int,
) (instructions, allocs int64, err error) {
	args := append([]string{"-cpu", "max", "-plugin", b.path("instructions.so"), binary},
		arguments(exactly(bench), iterations)...)
	cmd := exec.CommandContext(ctx, emulator, args...)
	// One thread, and no collector that runs when it likes.
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1",
		"INSTRUCTIONS="+b.path("count"))
	out, err := b.start(cmd, pkg)
	if err != nil {
		return 0, 0, err
	}
	lines := results(out)
	if len(lines) != 1 {
		return 0, 0, fmt.Errorf("%s ran %d benchmarks in the emulator, not one:\n%s", bench, len(lines), out)
	}
	text, err := os.ReadFile(b.path("count"))
	if err != nil {
		return 0, 0, fmt.Errorf("read the plugin's count: %w", err)
	}
	instructions, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("read the plugin's count: %w", err)
	}
	return instructions, lines[0].allocs, nil
}

// start runs a test binary in its package's directory, as go test does, and returns what it printed.
func (b *bench) start(cmd *exec.Cmd, pkg string) ([]byte, error) {
	cmd.Dir = pkg
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return out, nil
}

func arguments(bench string, iterations int) []string {
	return []string{
		"-test.run", "^$", "-test.bench", bench, "-test.benchtime", fmt.Sprintf("%dx", iterations),
		"-test.benchmem", "-test.cpu", "1",
	}
}

// exactly is the pattern that only this benchmark matches.
func exactly(bench string) string {
	parts := strings.Split("Benchmark"+bench, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// result is a line of a benchmark's output.
type result struct {
	bench  string
	allocs int64
}

var resultLine = regexp.MustCompile(`^Benchmark(\S+)\s.*?(\d+) allocs/op`)

func results(out []byte) []result {
	var all []result
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if m := resultLine.FindStringSubmatch(lines.Text()); m != nil {
			allocs, _ := strconv.ParseInt(m[2], 10, 64) // digits, of a count
			all = append(all, result{m[1], allocs})
		}
	}
	return all
}

// execute runs a command that prints only if it fails.
func execute(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

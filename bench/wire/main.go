// Command wire measures how fast record batches go from one process to another on this machine, and what that takes of both: by
// Penstock's wire, by arrow's stock Flight, and by plain TCP, whose server writes the same buffers with writev and whose
// client reads them into one buffer. The reader of tuned TCP sleeps until a batch, or 1 MiB of it, has come, as Penstock's does. Kinds take
// turns in each round; the medians are printed, and each kind's ratio to plain and to tuned TCP. The exit status is 0 only if
// Penstock's wire was measured with batches of 256 KiB and of 1 MiB, and has 85% of plain TCP's speed with both.
//
//	go run ./bench/wire
//	go run ./bench/wire --kinds tcp,tcp-tuned,penstock --batch 256KiB,1MiB --rounds 15
//	go run ./bench/wire --bytes 4GiB --rounds 9 --out bench/results
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/bench/figures"
	"github.com/penstock-ml/penstock/internal/cli"
)

func main() {
	os.Exit(cli.Main(command()))
}

func command() *cobra.Command {
	total, rounds, serving, out := cli.Bytes(2<<30), 5, "", ""
	measured, batches := kinds, sizes
	cmd := &cobra.Command{
		Use: "wire", Short: "Measure the wire beside stock Flight and plain TCP", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serving != "" {
				return serve(cmd.Context(), serving)
			}
			if rounds < 1 {
				return fmt.Errorf("--rounds: want 1 or more, found %d", rounds)
			}
			for _, kind := range measured {
				if !slices.Contains(kinds, kind) {
					return fmt.Errorf("--kinds: found %q; want some of %s", kind, strings.Join(kinds, ", "))
				}
			}
			if !slices.Contains(measured, tcp) {
				return fmt.Errorf("--kinds: want %s among them, which others are compared with", tcp)
			}
			r, err := compare(cmd.Context(), measured, batches, int64(total), rounds)
			if err != nil {
				return err
			}
			if err := r.print(cmd.OutOrStdout()); err != nil {
				return err
			}
			if out != "" {
				if err := figures.Write(out, "wire", r.markdown(), r); err != nil {
					return err
				}
			}
			verdict, err := r.check()
			if verdict != "" {
				fmt.Fprintln(cmd.OutOrStdout(), verdict)
			}
			return err
		},
	}
	cmd.Flags().Var(&total, "bytes", "bytes that each kind moves in a round")
	cmd.Flags().StringSliceVar(&measured, "kinds", measured, "what to measure")
	cmd.Flags().Var(&batches, "batch", "sizes of batches")
	cmd.Flags().IntVar(&rounds, "rounds", rounds, "how often each kind takes its turn")
	cmd.Flags().StringVar(&out, "out", "", "folder that takes wire.md and wire.json")
	cmd.Flags().StringVar(&serving, "serve", "", "kind/batch/bytes to serve, for the processes that this one starts")
	_ = cmd.Flags().MarkHidden("serve") // it is there
	return cmd
}

// speeds are of one kind and size in one round.
type speeds struct{ speed, server, client float64 } // GB/s, CPU seconds per GB

// batchSizes is a flag: bytes, with commas between them.
type batchSizes []int

var sizes = batchSizes{256 << 10, 1 << 20, 8 << 20} //nolint:gochecknoglobals // never changed

func (b *batchSizes) String() string {
	words := make([]string, len(*b))
	for i, n := range *b {
		size := cli.Bytes(n)
		words[i] = size.String()
	}
	return strings.Join(words, ",")
}

// Set reads "256KiB,1MiB".
func (b *batchSizes) Set(s string) error {
	var sizes batchSizes
	for word := range strings.SplitSeq(s, ",") {
		var size cli.Bytes
		if err := size.Set(word); err != nil {
			return err
		}
		if size < leastSize || size > mostSize {
			return fmt.Errorf("want sizes from 4KiB to 256MiB, found %q", word)
		}
		sizes = append(sizes, int(size))
	}
	*b = sizes
	return nil
}

// leastSize is room for a row, and mostSize what a message may have.
const leastSize, mostSize = 4 << 10, 256 << 20

// Type names the value in --help.
func (*batchSizes) Type() string { return "bytes,..." }

func compare(ctx context.Context, kinds []string, sizes []int, total int64, rounds int) (report, error) {
	var lines report
	for _, size := range sizes {
		got := map[string][]speeds{}
		for range rounds {
			for _, kind := range kinds {
				f, err := measure(ctx, kind, size, total)
				if err != nil {
					return nil, fmt.Errorf("%s, batches of %d bytes: %w", kind, size, err)
				}
				got[kind] = append(got[kind], f)
			}
		}
		for _, kind := range kinds {
			lines = append(lines, summary(size, kind, got[kind], got[tcp], got[tunedTCP]))
		}
	}
	return lines, nil
}

// measure has a process of its own send, and receives.
func measure(ctx context.Context, kind string, size int, total int64) (f speeds, err error) {
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, self, "--serve", fmt.Sprintf("%s/%d/%d", kind, size, total))
	server.Stderr = os.Stderr
	in, err := server.StdinPipe() // it ends when this is closed
	if err != nil {
		return f, err
	}
	said, err := server.StdoutPipe()
	if err != nil {
		return f, err
	}
	if err := server.Start(); err != nil {
		return f, err
	}
	f, err = follow(ctx, kind, size, said, total/int64(size)*int64(size-8)) // a record may lack some bytes of its size
	if err = errors.Join(err, in.Close(), server.Wait()); err != nil {
		return f, err
	}
	state := server.ProcessState
	f.server = (state.UserTime() + state.SystemTime()).Seconds() / (float64(total) / 1e9)
	return f, nil
}

// follow receives what it wants, at least, from the server whose address it reads.
func follow(ctx context.Context, kind string, size int, said io.Reader, want int64) (f speeds, err error) {
	address, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return f, fmt.Errorf("its server said no address: %w", err)
	}
	began, used := time.Now(), figures.CPUSeconds()
	moved, err := receive(ctx, kind, strings.TrimSpace(address), size)
	if err == nil && moved < want {
		err = fmt.Errorf("%d bytes came of %d", moved, want)
	}
	gb := float64(moved) / 1e9
	return speeds{speed: gb / time.Since(began).Seconds(), client: (figures.CPUSeconds() - used) / gb}, err
}

func parseServing(s string) (kind string, size int, total int64, err error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return "", 0, 0, fmt.Errorf("--serve: want kind/batch/bytes, found %q", s)
	}
	size, err = strconv.Atoi(parts[1])
	if err != nil {
		return "", 0, 0, err
	}
	total, err = strconv.ParseInt(parts[2], 10, 64)
	return parts[0], size, total, err
}

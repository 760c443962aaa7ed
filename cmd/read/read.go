// Package read is `penstock read`, a trainer on the command line: it reads a session with package client, of a fleet
// that cmd/reach finds. It writes rows for cmd/apply, too. It is used from one goroutine.
package read

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/reach"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/transform"
)

// statusEvery is how often progress is shown.
const statusEvery = 200 * time.Millisecond

// reader is `penstock read`.
type reader struct {
	fleet       *reach.Flags
	session     string
	zone        string
	rank, world uint32
	head        int64
	epochs      uint32
	compression string

	output string
	rows   bool   // are printed
	table  *Table // --output parquet
	info   *pb.Session
	seen   summary
}

// summary is what was read, as --output json prints it.
type summary struct {
	Session  string `json:"session"`
	Rows     int64  `json:"rows"`
	LeftOut  int64  `json:"rows_left_out"` // beside these, as the spec's on_error says
	Batches  int64  `json:"batches"`
	Bytes    int64  `json:"bytes"`
	Received int64  `json:"received_bytes"` // over the network
	// Ways are batches from workers by how they came.
	Ways           map[wire.Way]int64 `json:"ways"`
	Seconds        float64            `json:"seconds"`
	RowsPerSecond  float64            `json:"rows_per_second"`
	BytesPerSecond float64            `json:"bytes_per_second"`
	StallShare     float64            `json:"stall_share"`
	Failovers      int64              `json:"failovers"`
	Parquet        string             `json:"parquet,omitempty"`
}

//nolint:gochecknoglobals // never changed
var compressions = map[string]pb.Compression{"none": 0, "lz4": pb.Compression_LZ4, "zstd": pb.Compression_ZSTD}

// Command returns `penstock read` of a release, which has a fleet in its own process, with the given ops, where there
// is none.
func Command(release string, ops *transform.Registry) *cobra.Command {
	r := &reader{fleet: reach.New(release, ops)}
	cmd := &cobra.Command{
		Use:   "read SPEC [PATH]",
		Short: "Be a trainer: read a session and count",
		Long: "Be a trainer on the command line: read what the spec says, as fast as it comes, and show counts and\n" +
			"throughput; one pass, unless the spec or --epochs says how many. --head N prints N rows and stops; " +
			"--output parquet PATH writes the rows to a file, with a\n" +
			"column for each dense feature. With --output json the last line is the summary. Where no master is " +
			"named, and none\n" +
			"answers at the default address, it reads with a fleet in its own process, as with --local.",
		Example: "  penstock read spec.yaml\n  penstock read spec.yaml --head 5 --local\n  penstock read spec.yaml " +
			"--output parquet rows.parquet\n" +
			"  penstock read spec.yaml --session run-7 --rank 0 --world-size 2\n" +
			"  penstock read spec.yaml --local --python default=python3",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&r.session, "session", "", "id of the session (default: one of its own, deleted at the end)")
	flags.Uint32Var(&r.rank, "rank", 0, "rank of this trainer")
	flags.Uint32Var(&r.world, "world-size", 1, "number of trainers of the session")
	flags.StringVar(&r.zone, "zone", "", "zone of this trainer; it reads from workers of the same one first")
	flags.Int64Var(&r.head, "head", 0, "print (or write to PATH) so many rows, and stop")
	flags.Uint32Var(&r.epochs, "epochs", 0,
		"passes to read (default: all that the spec limits them to, and one where it has no limit)")
	flags.StringVar(&r.compression, "compression", "none", "of batches on their way: none, lz4 or zstd")
	r.fleet.Register(flags)
	return cli.Setup(cmd)
}

func (r *reader) run(cmd *cobra.Command, args []string) (err error) {
	if r.output, err = cli.Output(cmd, "parquet"); err != nil {
		return err
	}
	if (r.output == "parquet") != (len(args) == 2) {
		return errors.New("--output parquet and PATH go together: penstock read SPEC --output parquet PATH")
	}
	if _, ok := compressions[r.compression]; !ok {
		return fmt.Errorf("--compression: want none, lz4 or zstd, found %q", r.compression)
	}
	if r.session == "" && (r.world > 1 || r.rank > 0) {
		return errors.New("--rank and --world-size: ranks read one session; give each the same --session")
	}
	r.rows = r.head > 0
	if r.head < 0 {
		return fmt.Errorf("--head: want 0 or more, found %d", r.head)
	}
	s, err := cli.ReadSpec(args[0])
	r.fleet.Names = spec.ByName(s)
	if err != nil {
		return err
	}
	if r.output == "parquet" {
		if r.table, err = CreateTable(args[1]); err != nil {
			return err
		}
		r.seen.Parquet = args[1]
		defer func() { err = errors.Join(err, r.table.Abandon()) }()
	}
	if err := r.read(cmd, s); err != nil {
		return err
	}
	if r.table != nil {
		program := &pb.Program{}
		if err := proto.Unmarshal(r.info.GetProgram(), program); err != nil {
			return fmt.Errorf("the session's program: %w", err)
		}
		if err := r.table.Close(program); err != nil {
			return err
		}
	}
	return r.print(cmd.OutOrStdout())
}

// read reads from a fleet.
func (r *reader) read(cmd *cobra.Command, s *pb.Spec) error {
	logger, err := cli.Logger(cmd, os.Stderr)
	if err != nil {
		return err
	}
	cfg := client.Config{Spec: s, Logger: logger}
	return r.fleet.Reach(cmd, r.session != "" || r.world > 1, func(ctx context.Context, fleet *reach.Fleet) error {
		return r.attend(ctx, cmd.OutOrStdout(), cfg, fleet)
	})
}

// attend opens the session and takes its batches.
func (r *reader) attend(ctx context.Context, out io.Writer, cfg client.Config, fleet *reach.Fleet) (err error) {
	if r.session == "" {
		r.session = "read-" + rand.Text()[:10]
		defer func() { err = errors.Join(err, fleet.Delete(ctx, r.session)) }()
	}
	r.seen.Session = r.session
	cfg.Session, cfg.Rank, cfg.WorldSize = r.session, r.rank, r.world
	cfg.Zone, cfg.Compression = r.zone, compressions[r.compression]
	session, err := fleet.Open(ctx, cfg)
	if err != nil {
		return err
	}
	r.info = session.Info()
	return errors.Join(r.batches(ctx, session, out), session.Close())
}

func (r *reader) batches(ctx context.Context, session *client.Session, out io.Writer) error {
	began := time.Now()
	var shown time.Time
	passes := r.epochs
	if passes == 0 && spec.Epochs(r.info.GetSpec()) == spec.Unlimited {
		passes = 1
	}
	for ended := uint32(0); ; {
		b, err := session.NextOfEpoch(ctx)
		if errors.Is(err, client.ErrEpochEnd) {
			if ended++; ended == passes {
				break
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		done, err := r.take(b, out)
		b.Release()
		if err != nil {
			return err
		}
		if time.Since(shown) > statusEvery {
			shown = time.Now()
			r.count(session.Stats(), time.Since(began))
			cli.Status(os.Stderr, "%s", r.seen.String())
		}
		if done {
			break
		}
	}
	cli.Status(os.Stderr, "")
	r.count(session.Stats(), time.Since(began))
	return nil
}

// take uses a batch and says whether no more are wanted.
func (r *reader) take(b *client.Batch, out io.Writer) (done bool, err error) {
	rows := b.Valid
	if r.head > 0 {
		rows = int(min(r.head, int64(rows)))
		r.head -= int64(rows)
		done = r.head == 0
	}
	if r.table != nil {
		return done, r.table.Write(b, rows)
	}
	if r.rows {
		for i := range rows {
			if err := PrintRow(out, b, i, r.output); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

func (r *reader) count(st client.Stats, elapsed time.Duration) {
	x := &r.seen
	x.Rows, x.Batches, x.Bytes, x.Received, x.Failovers = st.Rows, st.Batches, st.Bytes, st.Received, st.Failovers
	x.Ways, x.LeftOut = st.Ways, st.SkippedRows
	x.Seconds = max(elapsed, time.Nanosecond).Seconds()
	x.RowsPerSecond, x.BytesPerSecond = float64(x.Rows)/x.Seconds, float64(x.Bytes)/x.Seconds
	if total := st.Stall + st.Compute; total > 0 {
		x.StallShare = float64(st.Stall) / float64(total)
	}
}

func (r *reader) print(out io.Writer) error {
	if r.output == "json" {
		return cli.PrintJSON(out, r.seen)
	}
	_, err := fmt.Fprintln(out, r.seen.String())
	return err
}

func (x *summary) String() string {
	left := ""
	if x.LeftOut > 0 {
		left = fmt.Sprintf(" (%s %s left out)", humanize.Comma(x.LeftOut),
			english.PluralWord(int(x.LeftOut), "row", ""))
	}
	return fmt.Sprintf("%s rows%s in %s batches, %s, %.1f s: %s rows/s, %s/s, stalled %.0f%%",
		humanize.Comma(x.Rows), left, humanize.Comma(x.Batches), humanize.Bytes(uint64(x.Bytes)), x.Seconds,
		humanize.Comma(int64(x.RowsPerSecond)), humanize.Bytes(uint64(x.BytesPerSecond)), 100*x.StallShare)
}

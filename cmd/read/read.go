// Package read is `penstock read`, a trainer on the command line: it reads a session with package client, or, where no
// master answers, with a fleet of cmd/local in its own process. It writes rows for cmd/apply, too. It is used from one
// goroutine.
package read

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/local"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/transform"
)

// statusEvery is how often progress is shown.
const statusEvery = 200 * time.Millisecond

const (
	checkTimeout   = 3 * time.Second
	connectTimeout = 30 * time.Second
	retryEvery     = 500 * time.Millisecond
	deleteTimeout  = 10 * time.Second
)

// reader is `penstock read`.
type reader struct {
	fleet       local.Config // of one in this process
	stores      cli.StorageFlags
	local       bool
	connect     time.Duration // how long to wait for a master
	masters     []string
	session     string
	zone        string
	rank, world uint32
	head        int64
	epochs      uint32
	compression string
	ports       cli.RPCFlags

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
	r := &reader{}
	r.fleet = local.Config{Release: release, Ops: ops, Stores: &r.stores}
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
			"  penstock read spec.yaml --session run-7 --rank 0 --world-size 2",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&r.masters, "master", []string{"127.0.0.1:7070"}, "addresses of masters")
	flags.BoolVar(&r.local, "local", false,
		"read with a fleet in this process (default: where no master is named and none answers)")
	flags.DurationVar(&r.connect, "connect-timeout", connectTimeout, "how long to wait for a master that answers")
	flags.StringVar(&r.session, "session", "", "id of the session (default: one of its own, deleted at the end)")
	flags.Uint32Var(&r.rank, "rank", 0, "rank of this trainer")
	flags.Uint32Var(&r.world, "world-size", 1, "number of trainers of the session")
	flags.StringVar(&r.zone, "zone", "", "zone of this trainer; it reads from workers of the same one first")
	flags.Int64Var(&r.head, "head", 0, "print (or write to PATH) so many rows, and stop")
	flags.Uint32Var(&r.epochs, "epochs", 0,
		"passes to read (default: all that the spec limits them to, and one where it has no limit)")
	flags.StringVar(&r.compression, "compression", "none", "of batches on their way: none, lz4 or zstd")
	r.ports.RegisterClient(flags)
	r.stores.Register(flags)
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
	here, err := r.isLocal(cmd)
	if err != nil {
		return err
	}
	cfg := client.Config{Spec: s, Logger: logger}
	if here {
		return local.Beside(cmd, r.fleet, func(ctx context.Context, at local.Here) error {
			r.masters, cfg.Local = []string{at.Master}, at.Local
			return r.attend(ctx, cmd.OutOrStdout(), cfg, at.RPC)
		})
	}
	ports, err := r.ports.Config()
	if err != nil {
		return err
	}
	for _, address := range r.masters {
		// The client would wait for a master; some mistakes do not go away.
		if err := r.check(cmd.Context(), address, ports); err != nil {
			return err
		}
	}
	if err := r.await(cmd.Context(), ports); err != nil {
		return err
	}
	return r.attend(cmd.Context(), cmd.OutOrStdout(), cfg, ports)
}

// isLocal reports whether to read with a fleet in this process, and says so where nobody asked for it.
func (r *reader) isLocal(cmd *cobra.Command) (bool, error) {
	shared := r.session != "" || r.world > 1
	switch flags := cmd.Flags(); {
	case flags.Changed("local") && r.local && shared:
		return false, errors.New(
			"--local: a fleet in this process has no sessions but its own, and one rank; leave out --session and " +
				"--world-size, or run `penstock local` for all ranks")
	case flags.Changed("local"):
		return r.local, nil
	case flags.Changed("master"):
		return false, nil
	}
	conn, err := (&net.Dialer{Timeout: checkTimeout}).DialContext(cmd.Context(), "tcp", r.masters[0])
	switch {
	case err == nil:
		return false, conn.Close() // something answers; what it is shows with the first call
	case shared:
		return false, fmt.Errorf(
			"no master answers at %s, the default address: name the session's by --master, or start one (`penstock "+
				"master` and `penstock worker`, or `penstock local`)", r.masters[0])
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(),
		"no master answers at %s: reading with a fleet in this process, as with --local (--master names another one)\n",
		r.masters[0])
	return true, err
}

// await waits until a master answers.
func (r *reader) await(ctx context.Context, ports rpc.Config) error {
	ctx, cancel := context.WithTimeout(ctx, r.connect)
	defer cancel()
	for {
		wrong := false
		err := rpc.AtLeader(ctx, r.masters, ports, func(ctx context.Context, m pb.MasterClient) error {
			_, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
			wrong = rpc.NotMaster(err) != ""
			return err
		})
		if wrong {
			return err
		}
		if err == nil || !errors.Is(err, rpc.ErrUnavailable) && ctx.Err() == nil {
			return nil // whatever else it said, opening the session says it, too
		}
		cli.Status(os.Stderr, "waiting for a master: %v", err)
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			cli.Status(os.Stderr, "")
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf(
				"no master answered within %v (--connect-timeout): %w, or read with a fleet in this process: --local",
				r.connect, err)
		}
	}
}

// attend opens the session and takes its batches.
func (r *reader) attend(ctx context.Context, out io.Writer, cfg client.Config, ports rpc.Config) (err error) {
	if r.session == "" {
		r.session = "read-" + rand.Text()[:10]
		if cfg.Local == nil { // else its fleet ends with it
			defer func() { err = errors.Join(err, r.delete(ctx, ports)) }()
		}
	}
	r.seen.Session = r.session
	cfg.Masters, cfg.Session, cfg.Rank, cfg.WorldSize = r.masters, r.session, r.rank, r.world
	cfg.Dial = func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, ports) }
	cfg.DialLink, cfg.Zone, cfg.Compression = rpc.LinkDialer(ports), r.zone, compressions[r.compression]
	session, err := client.Open(ctx, cfg)
	if err != nil {
		return err
	}
	r.info = session.Info()
	return errors.Join(r.batches(ctx, session, out), session.Close())
}

func (r *reader) check(ctx context.Context, address string, cfg rpc.Config) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return rpc.Check(ctx, address, cfg)
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
	x.Ways = st.Ways
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
	return fmt.Sprintf("%s rows in %s batches, %s, %.1f s: %s rows/s, %s/s, stalled %.0f%%",
		humanize.Comma(x.Rows), humanize.Comma(x.Batches), humanize.Bytes(uint64(x.Bytes)), x.Seconds,
		humanize.Comma(int64(x.RowsPerSecond)), humanize.Bytes(uint64(x.BytesPerSecond)), 100*x.StallShare)
}

// delete removes the session that this command made for itself, if it came to be.
func (r *reader) delete(ctx context.Context, cfg rpc.Config) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	err := rpc.AtLeader(ctx, r.masters, cfg, func(ctx context.Context, m pb.MasterClient) error {
		_, err := m.DeleteSession(ctx, &pb.DeleteSessionRequest{Session: r.session})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
	if err == nil || r.info == nil { // the error of Open says enough
		return nil
	}
	return fmt.Errorf("delete the session %s: %w", r.session, err)
}

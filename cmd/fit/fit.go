// Package fit is `penstock fit`: it reads what a spec's transforms ask of the data by sessions of a fleet that
// cmd/reach finds, has client/fit compute it, and writes the fitted file that specs then name. It is used from one
// goroutine.
package fit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/cmd/reach"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/worker/transform"
)

// describedBytes bounds the descriptions of files that are kept in memory.
const describedBytes = 256 << 20

// flags are the settings of `penstock fit`.
type flags struct {
	fleet      *reach.Flags
	ops        *transform.Registry
	out        string
	folder     string
	memory     cli.Bytes
	exact      uint64
	checkpoint time.Duration
	message    bool // the spec is a request
}

// Command returns `penstock fit` of a release, which has a fleet in its own process, with the given ops, where there is
// none.
func Command(release string, ops *transform.Registry) *cobra.Command {
	f := &flags{fleet: reach.New(release, ops), ops: ops, memory: 1 << 30}
	cmd := &cobra.Command{
		Use:   "fit SPEC",
		Short: "Compute what a spec's transforms ask of the data",
		Long: "Compute the statistics that a spec's transforms ask for: means, quantiles, vocabularies. They are of " +
			"the rows that the spec's\n" +
			"filter keeps, and are written to the file that the spec names by `fitted`, which sessions of the spec " +
			"then read.\n" +
			"A statistic of what another one is needed for takes another pass over the data. Where it is stopped, it " +
			"goes on when it is started again.\n" +
			"The file is written at the very end. What further passes need lies beside it until then: of " +
			"clicks.parquet as\n" +
			"_clicks.parquet.HASH.unfinished, which is tried before anything is read. The hash is of spec, dataset " +
			"and file.\n" +
			"The same data give the same file, bit for bit, whatever fleet reads them. It needs to read the dataset " +
			"itself, and to write the file.",
		Example: "  penstock fit spec.yaml\n  penstock fit spec.yaml --master penstock-master:7070 --memory 8GiB\n" +
			"  penstock fit spec.yaml --out s3://my-bucket/clicks.fitted.parquet\n" +
			"  penstock fit spec.yaml --local --python default=python3",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	set := cmd.Flags()
	set.StringVar(&f.out, "out", "", "file to write, a path or a URI (default: the one that the spec names by `fitted`)")
	set.StringVar(&f.folder, "folder", "",
		"folder for checkpoints, and for counts that are too many for memory (default: one in the user's cache, "+
			"removed in the end)")
	set.Var(&f.memory, "memory", "bytes of counted values; what is more goes to the folder")
	set.Uint64Var(&f.exact, "exact", 1<<24,
		"distinct values of a column up to which its quantiles are exact; beyond, they are off by 0.05% at most")
	set.DurationVar(&f.checkpoint, "checkpoint", time.Minute, "how often to save where it is")
	set.BoolVar(&f.message, "message", false, "SPEC is a request, as Python makes it")
	_ = set.MarkHidden("message") // the flag exists
	f.fleet.Register(set)
	return cli.Setup(cmd)
}

// fit is one run.
type fit struct {
	*flags
	cmd     *cobra.Command
	storage *storage.Store
	spec    *pb.Spec
	code    []byte // of its functions; nil: it brings none
	text    string // of the spec
	data    *master.Dataset
	out     string // the URI
	// What workers read before all passes are made lies beside it.
	unfinished string   // the URI
	shown      *pb.File // what is there; nil: nothing
	folder     string
	lock       *os.File // this process's, of the folder
	kept       bool     // the folder is to stay
	known      *fitted.Known
	functions  map[string]string // by name, that passes have called: their digests
	passes     int
	began      time.Time
}

func (f *flags) run(cmd *cobra.Command, path string) (err error) {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	r := &fit{flags: f, cmd: cmd, began: time.Now()}
	if err := r.look(path); err != nil {
		return err
	}
	if err := r.openFolder(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.lock.Close()) }()
	if err := r.compute(); err != nil {
		return err
	}
	if err := r.print(cmd.OutOrStdout(), output); err != nil || r.kept {
		return err
	}
	return removeLocked(r.folder)
}

// compute makes the passes that are left, and then the file.
func (r *fit) compute() error {
	left, err := spec.Passes(r.spec, r.data.Given(r.ops))
	if err != nil {
		return err
	}
	defer r.withdraw()
	if left > 0 {
		if err := r.show(r.cmd.Context()); err != nil {
			return err
		}
		if err := r.fleet.Reach(r.cmd, false, r.all); err != nil {
			return err
		}
	}
	if _, err = r.publish(r.cmd.Context(), r.out); err != nil {
		return fmt.Errorf("%w; mend that and start the fit again: it goes on by writing the file", err)
	}
	return nil
}

// look finds out what there is to do, before any fleet is started.
func (r *fit) look(path string) (err error) {
	if err := r.read(path); err != nil {
		return err
	}
	if r.storage, err = r.fleet.Stores.Open(); err != nil {
		return err
	}
	if err := r.where(path); err != nil {
		return err
	}
	if r.text, err = textOf(r.spec); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.spec.Fitted = nil // what is there is not used
	ctx := r.cmd.Context()
	if r.data, err = master.Look(ctx, r.storage, formats.NewCache(describedBytes), plan.Config{}, r.spec); err != nil {
		return fmt.Errorf("%s:\n%w", path, err)
	}
	if err := r.beside(); err != nil {
		return err
	}
	if r.passes, err = spec.Passes(r.spec, r.data.Given(r.ops)); err != nil {
		return fmt.Errorf("%s:\n%w", path, err)
	}
	if r.passes == 0 {
		return fmt.Errorf("%s:\ntransforms: the spec asks nothing of the data; a parameter does as in `of: fit`, "+
			"`vocabulary: fit`, `{fit: median}` or `{quantiles: 100}`", path)
	}
	return nil
}

// all makes all passes that are left.
func (r *fit) all(ctx context.Context, fleet *reach.Fleet) error {
	for {
		left, err := spec.Passes(r.spec, r.data.Given(r.ops))
		if err != nil || left == 0 {
			return err
		}
		pass, err := spec.NextPass(r.spec, r.data.Given(r.ops))
		if err != nil {
			return err
		}
		if r.known != nil {
			pass.Spec.Fitted = &pb.Fitted{Uri: r.unfinished, Digest: r.known.Digest}
		}
		p := &reading{fit: r, pass: pass, number: r.passes - left + 1}
		if err := p.run(ctx, fleet); err != nil {
			return err
		}
		if left > 1 {
			if err := r.show(ctx); err != nil {
				return err
			}
		}
	}
}

// identity is what a pass reads, for its checkpoints.
func identity(pass *spec.Pass, info fitted.Info, exact uint64) (string, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(pass.Spec)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(text, "%s %d", info.Dataset, exact))
	return hex.EncodeToString(sum[:]), nil
}

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
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
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
	message    bool // the spec is one, as protojson has it
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
			"The same data give the same file, bit for bit, whatever fleet reads them. It needs to read the dataset " +
			"itself, and to write the file.",
		Example: "  penstock fit spec.yaml\n  penstock fit spec.yaml --master penstock-master:7070 --memory 8GiB\n" +
			"  penstock fit spec.yaml --out s3://my-bucket/clicks.fitted.parquet",
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
	set.BoolVar(&f.message, "message", false, "SPEC is a message, as Python sends it")
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
	text    string // of the spec
	data    *master.Dataset
	out     string // the URI
	folder  string
	kept    bool // the folder is to stay
	known   *fitted.Known
	rows    int64
	passes  int
	began   time.Time
}

func (f *flags) run(cmd *cobra.Command, path string) (err error) {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	r := &fit{flags: f, cmd: cmd, began: time.Now()}
	if err := r.prepare(path); err != nil {
		return err
	}
	if err := f.fleet.Reach(cmd, false, r.all); err != nil {
		return err
	}
	if err := r.print(cmd.OutOrStdout(), output); err != nil || r.kept {
		return err
	}
	return os.RemoveAll(r.folder)
}

// prepare finds out what there is to do, before any fleet is started.
func (r *fit) prepare(path string) (err error) {
	if r.spec, err = r.read(path); err != nil {
		return err
	}
	if r.storage, err = r.fleet.Stores.Open(); err != nil {
		return err
	}
	if err := r.where(path); err != nil {
		return err
	}
	text, err := spec.Format(r.spec)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.text = string(text)
	r.spec.Fitted = nil // what is there is not used
	ctx := r.cmd.Context()
	if r.data, err = master.Look(ctx, r.storage, formats.NewCache(describedBytes), plan.Config{}, r.spec); err != nil {
		return fmt.Errorf("%s:\n%w", path, err)
	}
	if r.passes, err = spec.Passes(r.spec, r.data.Given(r.ops)); err != nil {
		return fmt.Errorf("%s:\n%w", path, err)
	}
	if r.passes == 0 {
		return fmt.Errorf("%s asks nothing of the data; a parameter does as in `of: fit`, `vocabulary: fit`, "+
			"`{fit: median}` or `{quantiles: 100}`", path)
	}
	return r.openFolder()
}

// read reads the spec.
func (r *fit) read(path string) (*pb.Spec, error) {
	if !r.message {
		return cli.ReadSpec(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	s := &pb.Spec{}
	if err := protojson.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return s, nil
}

// where finds the file to write, which must be none, or a fitted one.
func (r *fit) where(path string) error {
	r.out = r.flags.out
	if r.out == "" {
		r.out = r.spec.GetFitted().GetUri()
	}
	if r.out == "" {
		return fmt.Errorf("%s names no file to write; add `fitted: s3://bucket/clicks.fitted.parquet` to it, or give --out",
			path)
	}
	uri, err := storage.Canonical(r.out)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	r.out = uri
	if err := r.outside(uri); err != nil {
		return err
	}
	info, err := os.Stat(strings.TrimPrefix(uri, "file://")) // else it shows only when all is done
	isFolder := err == nil && info.IsDir()
	listed, err := r.storage.List(r.cmd.Context(), r.profile(), []string{uri})
	switch {
	case isFolder || len(listed) > 0 && listed[0].GetUri() != uri:
		return fmt.Errorf("%s is a folder; name a file to write", uri)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	_, err = fitted.Open(r.cmd.Context(), uri, listed[0].GetSize(), r.reads(listed[0]))
	if err != nil {
		return fmt.Errorf("%w, or name another one: nothing but a fitted file is replaced", err)
	}
	return nil
}

// outside refuses to write among the files of the dataset, of which the file would be one then.
func (r *fit) outside(file string) error {
	for _, uri := range r.spec.GetDataset().GetUri() {
		dir, err := storage.Canonical(uri)
		if err != nil {
			return fmt.Errorf("dataset.uri: %w", err)
		}
		if storage.Finds(dir, file) {
			return fmt.Errorf("%s would be one of the dataset's files, which are those of %s; write it elsewhere, or "+
				"give it a name that begins with _, such as _fitted.parquet", file, dir)
		}
	}
	return nil
}

func (r *fit) profile() string { return r.spec.GetDataset().GetStorage() }

func (r *fit) reads(f *pb.File) fitted.ReadAt {
	return func(ctx context.Context, buf []byte, offset int64) error {
		return r.storage.ReadAt(ctx, r.profile(), f, buf, offset)
	}
}

// info is what the file says of itself.
func (r *fit) info() fitted.Info {
	return fitted.Info{Spec: r.text, Dataset: hex.EncodeToString(plan.DatasetDigest(r.data.Files))}
}

// openFolder opens the folder, which may have what a run before came to.
func (r *fit) openFolder() error {
	r.folder, r.kept = r.flags.folder, r.flags.folder != ""
	if !r.kept {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("--folder: name one: %w", err)
		}
		sum := sha256.Sum256([]byte(r.info().Spec + "\x00" + r.info().Dataset + "\x00" + r.out))
		r.folder = filepath.Join(cache, "penstock", "fit", hex.EncodeToString(sum[:8]))
	}
	uri, err := storage.Canonical(r.file())
	if err == nil {
		err = r.outside(uri)
	}
	if err == nil {
		err = os.MkdirAll(r.folder, 0o755)
	}
	if err != nil {
		return fmt.Errorf("--folder: %w", err)
	}
	file, err := openFile(r.cmd.Context(), r.file(), r.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || file.Info != r.info():
		return os.Remove(r.file()) // of another run
	}
	r.use(r.cmd.Context(), file)
	return nil
}

// openFile opens a fitted file on disk. Its errors call it by another name.
func openFile(ctx context.Context, path, name string) (*fitted.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return fitted.Open(ctx, name, info.Size(), func(_ context.Context, buf []byte, offset int64) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = f.ReadAt(buf, offset)
		return errors.Join(err, f.Close())
	})
}

// file is the fitted file as far as passes have come, with quantiles as exact as is asked for.
func (r *fit) file() string {
	return filepath.Join(r.folder, fmt.Sprintf("fitted-%d.parquet", r.exact))
}

// use has further passes know what a file has.
func (r *fit) use(ctx context.Context, file *fitted.File) {
	r.known = file.Known(ctx, func(*fitted.Entry) (*pb.Table, error) { return &pb.Table{}, nil })
	r.data.Fitted = r.known
}

// all makes all passes.
func (r *fit) all(ctx context.Context, fleet *reach.Fleet) error {
	for {
		if r.known != nil { // if this run made no pass yet, one before may have been stopped just here
			if err := r.publish(ctx); err != nil {
				return err
			}
		}
		pass, err := spec.NextPass(r.spec, r.data.Given(r.ops))
		if err != nil || len(pass.Asked) == 0 {
			return err
		}
		if r.known != nil {
			pass.Spec.Fitted = &pb.Fitted{Uri: r.out, Digest: r.known.Digest}
		}
		left, err := spec.Passes(r.spec, r.data.Given(r.ops))
		if err != nil {
			return err
		}
		p := &reading{fit: r, pass: pass, number: r.passes - left + 1}
		if err := p.run(ctx, fleet); err != nil {
			return err
		}
	}
}

// publish writes what there is to where workers find it.
func (r *fit) publish(ctx context.Context) error {
	file, err := os.Open(r.file())
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return err
	}
	_, err = r.storage.Put(ctx, r.profile(), r.out, file, info.Size())
	return err
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

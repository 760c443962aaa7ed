package offline

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	decoders "github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/transform"
)

// describedBytes bounds the descriptions of files that the commands here keep in memory.
const describedBytes = 256 << 20

// Validate returns `penstock validate`.
func Validate(ops *transform.Registry) *cobra.Command {
	var stores cli.StorageFlags
	var functions workercommand.PythonFlags
	var quick bool
	cmd := &cobra.Command{
		Use:   "validate SPEC",
		Short: "Check a spec against its dataset",
		Long: "Check a spec against the schema of its dataset, and show every mistake at once. Exit status 0 if " +
			"there is none.\n" +
			"All files are looked at, since they may differ; with --quick those alone that a session looks at when " +
			"it opens.\n" +
			"With --python, the spec's Python functions run on the first rows. Their modules are imported, so give " +
			"an interpreter that has the packages of the workers.",
		Example: "  penstock validate spec.yaml\n  penstock validate spec.yaml --quick\n" +
			"  penstock validate spec.yaml --python default=python3 --python-path default=.",
		Args: cobra.ExactArgs(1),
	}
	stores.Register(cmd.Flags())
	functions.RegisterTrial(cmd.Flags())
	cmd.Flags().BoolVar(&quick, "quick", false, "look only at the files that a session looks at when it opens")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		s, d, err := resolve(cmd.Context(), ops, &stores, args[0])
		if err != nil {
			return err
		}
		if !quick {
			if _, err := planned(cmd.Context(), d); err != nil {
				return fmt.Errorf("%s:\n%w", args[0], err)
			}
		}
		hints := hintsOf(s, d.Program)
		if spec.ByName(s) {
			hint, err := validateFunctions(cmd.Context(), ops, &stores, &functions, s)
			if err != nil {
				return fmt.Errorf("%s:\n%w", args[0], err)
			}
			hints = append(hints, hint)
		}
		if output == "json" {
			return cli.PrintProto(cmd.OutOrStdout(), d.Program)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %s, %s; reads %s, runs %s, makes %s\norder %s\n",
			args[0], english.Plural(len(d.Files), "file", ""), humanize.IBytes(uint64(d.Bytes)),
			english.Plural(len(d.Program.GetSources()), "column", ""),
			english.Plural(len(d.Program.GetSteps()), "step", ""), english.Plural(len(d.Program.GetOutputs()), "tensor",
				""), spec.Describe(s, 0))
		return errors.Join(err, writeLines(cmd.OutOrStdout(), "listing", d.Notes()),
			writeLines(cmd.OutOrStdout(), "hint", hints))
	}
	return cli.Setup(cmd)
}

// Plan returns `penstock plan`.
func Plan(ops spec.Catalog) *cobra.Command {
	var stores cli.StorageFlags
	var pin bool
	cmd := &cobra.Command{
		Use:   "plan SPEC",
		Short: "Show what a session of a spec would read",
		Long: "Show what a session would read in its first epoch: files, extents, shards, rows, and bytes by " +
			"column.\n" +
			"Below are the ops in their order, with what Python functions run in, and hints at what a session of it " +
			"costs.\n" +
			"All files are looked at: what they say of themselves is read, and no data. Files that do not say where " +
			"their rows are,\nsuch as JSON lines, are read whole, but for those that `penstock index` indexed.\n" +
			"With --pin the spec is written in place of that, pinned to what it is now: the versions of ops, and the " +
			"digests of the fitted file and of side tables, which are read for it. A spec that a training pinned is " +
			"held against what is here first.",
		Example: "  penstock plan spec.yaml\n  penstock plan spec.yaml --output json\n" +
			"  penstock plan spec.yaml --pin > pinned.yaml",
		Args: cobra.ExactArgs(1),
	}
	stores.Register(cmd.Flags())
	cmd.Flags().BoolVar(&pin, "pin", false, "write the spec as YAML, pinned to the ops and files of now")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		s, d, err := resolve(cmd.Context(), ops, &stores, args[0])
		if err != nil {
			return err
		}
		if pin {
			return writePinned(cmd, s, d, args[0])
		}
		out, err := planned(cmd.Context(), d)
		if err != nil {
			return fmt.Errorf("%s:\n%w", args[0], err)
		}
		out.Order = spec.Describe(s, 0)
		all := &plannedSession{
			out, d.Program.GetFilter(), opsOf(s, d.Program), hintsOf(s, d.Program), d.LeftOut, d.Notes(),
		}
		if output == "json" {
			return cli.PrintJSON(cmd.OutOrStdout(), all)
		}
		return all.WriteText(cmd.OutOrStdout())
	}
	return cli.Setup(cmd)
}

// writePinned writes a spec that is pinned to what it was resolved to.
func writePinned(cmd *cobra.Command, s *pb.Spec, d *master.Dataset, path string) error {
	pinned, err := d.Pinned(cmd.Context(), s)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if spec.ByName(s) && len(pinned.GetPinned().GetFunctions()) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "the Python functions are not pinned: a session knows which they are; "+
			"loader.pinned_spec() in Python, and PinnedSpec in Go, pin them, too")
	}
	text, err := spec.Format(pinned)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// planned finds out what all files hold, and checks each file.
func planned(ctx context.Context, d *master.Dataset) (*plan.Description, error) {
	loaded, err := d.Describe(ctx, func(done int) {
		cli.Status(os.Stderr, "files %d of %d", done, len(d.Files))
	})
	cli.Status(os.Stderr, "")
	if err != nil {
		return nil, err
	}
	known := make(map[int]format.File, len(loaded))
	var how map[string]string
	for i, f := range loaded {
		known[int(f.GetIndex())] = f.Holds
		if i == 0 {
			how = decoding(f.Holds, d.Program.GetSources())
		}
	}
	return plan.Describe(plan.Config{}, d.Program, d.Files, known, how)
}

// resolve does what a master does when a session opens.
func resolve(
	ctx context.Context, ops spec.Catalog, stores *cli.StorageFlags, path string,
) (*pb.Spec, *master.Dataset, error) {
	s, err := cli.ReadSpec(path)
	if err != nil {
		return nil, nil, err
	}
	st, err := stores.Open()
	if err != nil {
		return nil, nil, err
	}
	d, err := master.Resolve(ctx, st, formats.NewCache(describedBytes), ops, plan.Config{}, s)
	if err != nil {
		return nil, nil, fmt.Errorf("%s:\n%w", path, err)
	}
	return s, d, nil
}

// decoding says how a worker decodes each source of a program from a file, by the source's name.
func decoding(f format.File, sources []*pb.Source) map[string]string {
	out := make(map[string]string, len(sources))
	if len(f.Extents()) == 0 {
		return out
	}
	own := format.OwnOf(sources)
	how, err := explain(f, own.Sources)
	for i, s := range sources {
		at, inFile := own.Place(i)
		switch {
		case err != nil:
			out[s.GetName()] = err.Error()
		case inFile:
			out[s.GetName()] = how[at]
		}
	}
	return out
}

// explain says how each source is decoded from a file's first extent.
func explain(f format.File, sources []*pb.Source) ([]string, error) {
	b, err := f.Bind(sources)
	if err != nil {
		return nil, err
	}
	d, err := decoders.New(f.Format(), sources)
	if err != nil {
		return nil, err
	}
	return d.Explain(b, 0)
}

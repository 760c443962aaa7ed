package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/transform"
)

// tryTimeout bounds a trial: a loader waits for it.
const tryTimeout = 15 * time.Second

// errTime ends a trial that takes longer.
var errTime = fmt.Errorf("the trial took more than %v", tryTimeout)

// tryRequest is what `penstock try` reads.
type tryRequest struct {
	Spec json.RawMessage `json:"spec"` // as protojson has it
	Code []byte          `json:"code"` // of its functions
}

// Try returns `penstock try`, by which a loader tries its functions. It is no command for people.
func Try(ops *transform.Registry) *cobra.Command {
	var stores cli.StorageFlags
	var functions workercommand.PythonFlags
	cmd := &cobra.Command{
		Use: "try", Short: "Run the functions of a spec on the first rows of its dataset", Hidden: true,
		Args: cobra.NoArgs,
	}
	stores.Register(cmd.Flags())
	functions.Register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := functions.Config(slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		if cfg == nil {
			return errors.New("try: it runs code; say which by --code")
		}
		t := &trial{ops: ops}
		if t.storage, err = stores.Open(); err != nil {
			return err
		}
		if err := t.read(cmd.InOrStdin()); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), tryTimeout, errTime)
		defer cancel()
		var out *tried
		err = withPool(ctx, *cfg, func(pool *python.Pool) {
			if err := t.pin(ctx, pool); err != nil { // a session says it, if its workers have them as little
				out = &tried{Untried: err.Error()}
				return
			}
			out = t.run(ctx, pool)
		})
		if err != nil {
			return err
		}
		return cli.PrintJSON(cmd.OutOrStdout(), out)
	}
	return cli.Setup(cmd)
}

// validateTimeout bounds the trial of `penstock validate`, which imports the functions' modules.
const validateTimeout = 5 * time.Minute

// validateFunctions tries a spec's functions by name in the environment that the flags name, and says what came of it.
func validateFunctions(
	ctx context.Context, ops *transform.Registry, stores *cli.StorageFlags, functions *workercommand.PythonFlags,
	s *pb.Spec,
) (hint string, err error) {
	cfg, err := functions.Trial(slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	if cfg == nil {
		return "the Python functions were not called; --python default=PATH names an interpreter that has them", nil
	}
	t := &trial{ops: ops, spec: s}
	if t.storage, err = stores.Open(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, validateTimeout, fmt.Errorf("it takes more than %v", validateTimeout))
	defer cancel()
	var out *tried
	var absent error
	err = withPool(ctx, *cfg, func(pool *python.Pool) {
		if absent = t.pin(ctx, pool); absent == nil {
			out = t.run(ctx, pool)
		}
	})
	switch err := errors.Join(absent, err); {
	case err != nil:
		return "", err
	case out.Failed != nil:
		return "", errors.New(out.Failed.Words)
	case out.Untried != "":
		return "the Python functions were not all called with rows: " + out.Untried, nil
	}
	return "the Python functions were called with the first rows, and did not fail", nil
}

// read takes the request in.
func (t *trial) read(from io.Reader) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return fmt.Errorf("try: %w", err)
	}
	var r tryRequest
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("try: the request: %w", err)
	}
	t.spec, t.code = &pb.Spec{}, r.Code
	if err := protojson.Unmarshal(r.Spec, t.spec); err != nil {
		return fmt.Errorf("try: the spec: %w", err)
	}
	return nil
}

// withPool does something with a pool of one process, which ends with it.
func withPool(ctx context.Context, cfg python.Config, do func(*python.Pool)) error {
	cfg.Processes = 1
	pool, err := python.New(cfg)
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return pool.Run(life) })
	do(pool)
	end()
	return group.Wait()
}

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
		err = withPool(ctx, *cfg, func(pool *python.Pool) { out = t.run(ctx, pool) })
		if err != nil {
			return err
		}
		return cli.PrintJSON(cmd.OutOrStdout(), out)
	}
	return cli.Setup(cmd)
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

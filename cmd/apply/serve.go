package apply

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/apply"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// errGone says that nobody asks any more, or nobody answers.
var errGone = errors.New("the program that asked has ended")

// Serve returns `penstock apply-rows`, by which the Python package applies transforms. It is no command for people.
func Serve(ops *transform.Registry) *cobra.Command {
	var functions workercommand.PythonFlags
	var stores cli.StorageFlags
	cmd := &cobra.Command{
		Use: "apply-rows", Short: "Apply a spec's transforms to rows that a program sends over standard input",
		Hidden: true, Args: cobra.NoArgs,
	}
	functions.Register(cmd.Flags())
	stores.Register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := functions.Config(quiet())
		if err != nil {
			return err
		}
		st, err := stores.Open()
		if err != nil {
			return err
		}
		s := &server{ops: ops, python: cfg, storage: st, to: bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)}
		return s.run(cmd.Context(), cmd.InOrStdin())
	}
	return cli.Setup(cmd)
}

// server applies the transforms that one program asks for. Its requests are received by a goroutine of its own, so that
// the program's end ends what is being done for it.
type server struct {
	ops     *transform.Registry
	python  *python.Config // nil: no functions run
	storage storage.Storage
	to      *bufio.Writer

	requests chan *request
	schema   *arrow.Schema // of the last reply
}

// run answers until the program closes its end.
func (s *server) run(ctx context.Context, from io.Reader) error {
	s.requests = make(chan *request)
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	group.Go(func() error {
		err := s.receive(ctx, bufio.NewReaderSize(from, 64<<10))
		cancel(errGone)
		return err
	})
	group.Go(func() error {
		err := s.answer(ctx)
		cancel(errGone)
		if c, ok := from.(io.Closer); ok {
			_ = c.Close() // which ends the other one
		}
		return err
	})
	return group.Wait()
}

// receive receives requests.
func (s *server) receive(ctx context.Context, from io.Reader) error {
	limit := int64(apply.DefaultMemory)
	for {
		r, err := receive(from, limit)
		if err != nil {
			return unless(ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed), err)
		}
		if r.Open != nil {
			limit = max(limit, r.Open.Memory)
		}
		select {
		case s.requests <- r:
		case <-ctx.Done():
			return nil
		}
	}
}

// next is the next request; nil: there is none.
func (s *server) next(ctx context.Context) *request {
	select {
	case r := <-s.requests:
		return r
	case <-ctx.Done():
		return nil
	}
}

// answer answers requests.
func (s *server) answer(ctx context.Context) error {
	r := s.next(ctx)
	if r == nil {
		return nil
	}
	cfg, code, err := s.config(ctx, r)
	if err == nil {
		err = withFunctions(ctx, s.python, code, cfg, func(t *apply.Transforms) error {
			if err := send(s.to, &reply{}, nil); err != nil {
				return err
			}
			return s.apply(ctx, t)
		})
	}
	if err == nil || errors.Is(err, errSend) || ctx.Err() != nil {
		return unless(ctx.Err() != nil, err)
	}
	return s.failed(err)
}

// unless is an error, unless it was to be expected.
func unless(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}

// errSend says that the program does not read what it asked for.
var errSend = errors.New("a reply was not taken")

func (s *server) failed(err error) error {
	kind := "data"
	if _, ok := errors.AsType[spec.Problems](err); ok {
		kind = "spec"
	}
	return send(s.to, &reply{Error: err.Error(), Kind: kind}, nil)
}

// config is what the first request says.
func (s *server) config(
	ctx context.Context, r *request,
) (cfg apply.Config, code []byte, err error) {
	if r.Open == nil || len(r.parts) != 2 {
		return cfg, nil, errors.New("nothing was opened: the package and the binary are of different releases")
	}
	cfg = apply.Config{
		Ops: s.ops, Outputs: r.Open.Outputs, Memory: r.Open.Memory, Spec: &pb.Spec{}, Storage: s.storage,
	}
	if r.Open.SpecText != "" {
		cfg.Spec, err = spec.Parse([]byte(r.Open.SpecText))
	} else if err = protojson.Unmarshal(r.Open.Spec, cfg.Spec); err != nil {
		err = fmt.Errorf("the spec: %w", err)
	}
	if err == nil && r.Open.Pinned != "" {
		err = pin(cfg.Spec, r.Open.Pinned)
	}
	if err == nil && len(r.parts[1]) > 0 {
		cfg.Schema, err = apply.SchemaOfFile(ctx, r.parts[1])
	}
	if err == nil {
		if here, err := os.Getwd(); err == nil {
			spec.ResolvePaths(cfg.Spec, here)
		}
		cfg.Spec.Python = "" // the program's own interpreter runs its functions
		err = fit(ctx, s.storage, &cfg)
	}
	return cfg, r.parts[0], err
}

// pin has a spec be pinned to what another one is, which is given as text.
func pin(s *pb.Spec, text string) error {
	like, err := spec.Parse([]byte(text))
	if err != nil {
		return fmt.Errorf("pinned: %w", err)
	}
	if like.GetPinned() == nil {
		return spec.Problems{{Path: "pinned", Message: "found a spec that is pinned to nothing; give what " +
			"loader.pinned_spec() returned"}}
	}
	s.Pinned = like.GetPinned()
	if s.GetFitted() != nil {
		s.Fitted.Digest = cmp.Or(s.GetFitted().GetDigest(), like.GetFitted().GetDigest())
	}
	return nil
}

// apply applies the transforms to the rows of each request.
func (s *server) apply(ctx context.Context, t *apply.Transforms) error {
	for r := s.next(ctx); r != nil; r = s.next(ctx) {
		if len(r.parts) != 1 {
			return errors.New("rows are one part: the package and the binary are of different releases")
		}
		b, err := t.ApplyArrow(ctx, r.parts[0])
		if err == nil {
			err = s.tensors(t, b)
		} else {
			err = s.failed(err)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errSend, err)
		}
	}
	return nil
}

// tensors sends what was made, and releases it.
func (s *server) tensors(t *apply.Transforms, b *tensor.Batch) error {
	defer b.Release()
	out := &reply{Rows: b.Rows, Without: t.Without()}
	schema := b.Schema()
	if schema != s.schema {
		var text bytes.Buffer
		if err := ipc.NewWriter(&text, ipc.WithSchema(schema)).Close(); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
		out.Schema, s.schema = text.Bytes(), schema
	}
	return send(s.to, out, b.Values())
}

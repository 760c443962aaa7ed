package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/worker/apply"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/transform"
)

// quiet logs nothing: what is worth to be known, errors say.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// withFunctions does something with transforms whose Python functions run as cfg says; nil: none run. The functions'
// bytes are their code, unless they are by name. All ends with it.
func withFunctions(
	ctx context.Context, python *python.Config, functions []byte, cfg apply.Config, do func(*apply.Transforms) error,
) error {
	if python == nil {
		cfg.Functions = nobody{}
		return with(ctx, cfg, do)
	}
	return withPool(ctx, *python, func(p pool) (err error) {
		if spec.ByName(cfg.Spec) {
			if cfg.Spec, err = p.pin(ctx, cfg.Spec); err != nil {
				return err
			}
		}
		if cfg.Spec.GetCode() != nil {
			if cfg.Functions, err = p.functions(cfg.Spec, functions); err != nil {
				return err
			}
		}
		return with(ctx, cfg, do)
	})
}

func with(ctx context.Context, cfg apply.Config, do func(*apply.Transforms) error) error {
	t, err := apply.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	return do(t)
}

// nobody runs no functions.
type nobody struct{}

// Function refuses a step.
func (nobody) Function(*pb.Step, []spec.Type) (transform.Function, error) {
	return nil, errors.New("it needs an interpreter that has it; name one, as by --python default=python3")
}

// pool runs functions.
type pool struct{ *python.Pool }

// withPool does something with a pool of one process, which ends with it.
func withPool(ctx context.Context, cfg python.Config, do func(pool) error) error {
	cfg.Processes = 1
	p, err := python.New(cfg)
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { return p.Run(life) })
	err = do(pool{p})
	end()
	return errors.Join(err, group.Wait())
}

// pin has functions by name be those that the environment has.
func (p pool) pin(ctx context.Context, s *pb.Spec) (*pb.Spec, error) {
	t := &pb.Ticket{Namespace: identity.DefaultNamespace, Environment: s.GetPython()}
	has, err := p.Calls(ctx, t, spec.NamedCalls(s))
	if err != nil {
		return nil, fmt.Errorf("the spec's functions: %w", err)
	}
	return spec.Pin(s, has)
}

// functions are those of a spec, whose bytes are data, unless they are by name.
func (p pool) functions(s *pb.Spec, data []byte) (transform.Functions, error) {
	t := &pb.Ticket{
		Session: "apply", Namespace: identity.DefaultNamespace, Environment: s.GetPython(),
		Code: &pb.StoredCode{Identity: s.GetCode()},
	}
	if len(data) > 0 {
		t.Code = code.Of(data, s.GetCode())
		for part := range code.Parts(t.GetCode(), data) {
			if err := p.Keep(t, part); err != nil {
				return nil, err
			}
		}
	}
	return p.Functions(t, nil) // there is one session
}

package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tables"
)

const (
	// filesKept bounds the memory of what the tables' files say of themselves.
	filesKept = 16 << 20
	// patience is how long a table waits for memory.
	patience = 5 * time.Second
)

// sides are the tables beside the rows that programs look values up in. They stay in memory from one engine to the
// next; the Transforms owns the goroutines that load them.
type sides struct {
	store *tables.Store // nil: there is no storage to read them of
	named map[spec.TableName]*spec.SideTable
}

// newSides describes the tables that a spec names.
func newSides(ctx context.Context, cfg Config) (s sides, err error) {
	if cfg.Storage == nil {
		return sides{}, nil
	}
	files := formats.NewCache(filesKept)
	if s.named, err = formats.Tables(ctx, cfg.Storage, files, cfg.Spec); err != nil {
		return sides{}, err
	}
	s.store = tables.New(tables.Config{Storage: cfg.Storage, Files: files, Patience: patience})
	s.store.Use(memory.New(memory.Config{Limit: cfg.Memory, Cache: s.store}))
	return s, nil
}

func (s sides) close() {
	if s.store != nil {
		s.store.Close()
	}
}

// hold loads the tables of a program.
func (s sides) hold(ctx context.Context, p *pb.Program) (tables.Set, error) {
	if s.store != nil {
		return s.store.All(ctx, "", p)
	}
	for _, step := range p.GetSteps() {
		if step.Table != nil && int(step.GetTable()) < len(p.GetTables()) {
			return nil, fmt.Errorf("apply: %s looks values up in %s; give a storage that reads it", step.GetAt(),
				p.GetTables()[step.GetTable()].GetFile().GetUri())
		}
	}
	return nil, nil
}

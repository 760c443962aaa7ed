package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/worker/lookup"
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

// held are a program's tables, in memory; nil in place of those that no step looks values up in.
type held []*tables.Held

// hold loads the tables of a program.
func (s sides) hold(ctx context.Context, p *pb.Program) (_ held, err error) {
	all := make(held, len(p.GetTables()))
	defer func() {
		if err != nil {
			all.release()
		}
	}()
	for _, step := range p.GetSteps() {
		at := int(step.GetTable())
		switch {
		case step.Table == nil || at >= len(all) || all[at] != nil:
			continue
		case s.store == nil:
			return nil, fmt.Errorf("apply: %s looks values up in %s; give a storage that reads it", step.GetAt(),
				p.GetTables()[at].GetFile().GetUri())
		}
		if all[at], err = s.store.Hold(ctx, p.GetTables()[at]); err != nil {
			return nil, fmt.Errorf("%s: %w", step.GetAt(), err)
		}
	}
	return all, nil
}

func (h held) lookups() []*lookup.Table {
	all := make([]*lookup.Table, len(h))
	for i, t := range h {
		if t != nil {
			all[i] = t.Table
		}
	}
	return all
}

func (h held) release() {
	for _, t := range h {
		if t != nil {
			t.Release()
		}
	}
}

package tables

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/lookup"
)

// Set are the tables of a program; nil in place of those that no step looks values up in.
type Set []*Held

// All waits for the tables that the steps of a session's program look values up in. Its errors name the step. Release
// the set.
func (s *Store) All(ctx context.Context, session string, p *pb.Program) (_ Set, err error) {
	set := make(Set, len(p.GetTables()))
	defer func() {
		if err != nil {
			set.Release()
		}
	}()
	for _, step := range p.GetSteps() {
		at := int(step.GetTable())
		if step.Table == nil || at >= len(set) || set[at] != nil {
			continue
		}
		if set[at], err = s.Hold(ctx, session, p.GetTables()[at]); err != nil {
			return nil, fmt.Errorf("%s: %w", step.GetAt(), err)
		}
	}
	return set, nil
}

// Lookups are the tables, for the steps.
func (s Set) Lookups() []*lookup.Table {
	all := make([]*lookup.Table, len(s))
	for i, t := range s {
		if t != nil {
			all[i] = t.Table
		}
	}
	return all
}

// Release says that they are not used any more.
func (s Set) Release() {
	for i, t := range s {
		if t != nil {
			t.Release()
			s[i] = nil
		}
	}
}

// Bytes is their memory.
func (s Set) Bytes() (n int64) {
	for _, t := range s {
		if t != nil {
			n += t.Bytes
		}
	}
	return n
}

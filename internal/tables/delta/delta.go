// Package delta reads the logs of Delta Lake's tables: what files a version consists of, with their constants, deleted
// rows and statistics. Package tables has it in its list of kinds. One listing of _delta_log/ says what commits and
// checkpoints there are (history.go); the newest checkpoint up to the version and the commits after it are read, newest
// first (load.go, checkpoint.go), and reconciled (replay.go); what is left becomes a Snapshot (snapshot.go).
//
// The names of things are those of Delta's protocol (github.com/delta-io/delta, PROTOCOL.md). Everything is read
// through package storage, nothing is kept between calls, and a table may be opened by many goroutines at once.
package delta

import (
	"context"

	"github.com/penstock-ml/penstock/internal/tables/table"
)

// Kind is that of Delta Lake's tables.
func Kind() table.Kind { return table.Kind{Name: "Delta Lake", Prefix: "delta", Open: open} }

// open finds the files of a version: "v12", the newest one of a time such as "2026-11-01T00:00Z", or the newest of all.
func open(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
	within, err := newRoot(t.Root)
	if err != nil {
		return nil, err
	}
	h, err := list(ctx, t)
	if err != nil {
		return nil, err
	}
	l := &loader{table: t, memory: table.Memory{Ask: t.Take}}
	version, err := h.version(ctx, l, t.Version)
	if err != nil {
		return nil, err
	}
	from, err := h.until(version)
	if err != nil {
		return nil, err
	}
	r := newReplay(within, l.memory.Keep)
	if err := l.commits(ctx, from.commits, r.apply); err != nil {
		return nil, err
	}
	if from.checkpoint != nil {
		if err := l.checkpoint(ctx, from.checkpoint, r.apply); err != nil {
			return nil, err
		}
	}
	return r.snapshot(version)
}

// Package iceberg reads the metadata of Apache Iceberg's tables: what files a snapshot consists of, with their columns
// by id, deleted rows and statistics. Package tables has it in its list of kinds. A catalogue says which metadata file
// is the newest (catalogue.go); it has the schemas and snapshots (metadata.go, schema.go), of which one is chosen
// (version.go); its manifests list data files and files of deleted rows (manifest.go), which are put together
// (deletes.go) and become a Snapshot (snapshot.go).
//
// The names of things are those of Iceberg's specification (iceberg.apache.org/spec). Everything is read through
// package storage, nothing is kept between calls, and a table may be opened by many goroutines at once.
package iceberg

import (
	"context"

	"github.com/penstock-ml/penstock/internal/tables/table"
)

// Kind is that of Iceberg's tables.
func Kind() table.Kind { return table.Kind{Name: "Iceberg", Prefix: "iceberg", Open: open} }

// open finds the files of a version: a snapshot's id, a branch or tag, the snapshot of a time such as
// "2026-11-01T00:00Z", or the current one.
func open(ctx context.Context, t *table.Table) (*table.Snapshot, error) {
	l := &loader{table: t, memory: table.Memory{Ask: t.Take}}
	at, err := l.inFolder(ctx)
	if err != nil {
		return nil, err
	}
	return l.open(ctx, at)
}

// located is where a catalogue has a table.
type located struct {
	metadata string // the URI of its newest metadata file
	root     string // that of its folder, below which its files lie, without a "/" at its end
}

// open reads a version of a table.
func (l *loader) open(ctx context.Context, at located) (*table.Snapshot, error) {
	m, err := l.metadata(ctx, at.metadata)
	if err != nil {
		return nil, err
	}
	v, err := m.version(l.table.Version)
	if err != nil {
		return nil, err
	}
	within, err := newRoot(at.root, m.Location)
	if err != nil {
		return nil, err
	}
	r := &reader{loader: l, metadata: m, root: within}
	return r.snapshot(ctx, v)
}

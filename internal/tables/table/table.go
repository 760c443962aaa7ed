// Package table holds what package tables and the kinds of tables share: what is opened, and what a version of a table
// consists of. It has no state.
//
// What logs and manifests say is not trusted: paths stay below the table's root, sizes and counts are bounded.
package table

import (
	"context"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Kind is a kind of table.
type Kind struct {
	// Name is that of messages: "Delta Lake".
	Name string
	// Prefix stands in front of a table's URI, with a "+" after it (spec.TablePrefixes): "delta" of
	// delta+s3://bucket/table.
	Prefix string
	// Open finds the files of a version of a table.
	Open func(ctx context.Context, t *Table) (*Snapshot, error)
}

// Table is one that is to be opened.
type Table struct {
	Storage storage.Storage
	Profile string
	// Root is the URI of the table's folder, canonical, without a "/" at its end.
	Root string
	// Version is what stands behind the "@" of the URI: "v12", a time in RFC 3339, or what else the kind knows (a tag
	// or a branch); "": the newest.
	Version string
	// Take is asked for memory that is not little.
	Take func(bytes int64) error
}

// Snapshot is a version of a table.
type Snapshot struct {
	// Version names it, so that Open finds the same one again: "v12".
	Version string
	// Root is the URI of the folder that all files lie below, without a "/" at its end; "": the Table's.
	Root string
	// Schema has the table's columns, by the types that their values have when the table is read. The metadata of a
	// field, on any level, may have StoredName, OtherNames and FieldID.
	Schema *arrow.Schema
	// Partitions names columns that files have no values of: each has a constant of that name in each file.
	Partitions []string
	Files      []File
	// Notes say what is worth knowing: "3 files have deleted rows".
	Notes []string
}

// Keys of metadata of a Snapshot's fields.
const (
	// StoredName is the field's name in files, if that is another one.
	StoredName = "stored_name"
	// OtherNames are further names of it in files, each with a NUL behind it: the first that a file has counts.
	OtherNames = "other_names"
	// FieldID is the id that files give the field (Parquet's field_id). A file whose fields have ids is read by these.
	FieldID = "field_id"
	// Widened is there if files may have the field, or what it lists, as a narrower type: whole numbers where it has
	// floats or decimals, dates where it has times without a zone.
	Widened = "widened"
)

// File is a file of a table: its URI, size, constants and excluded rows. It has no ETag, as manifests have none.
type File struct {
	*pb.File
	// Rows is how many there are, excluded ones, too; -1: the table does not say.
	Rows int64
	// Stats tells what the table knows of the values of a column, by its name, in all of the file; nil: nothing. Like
	// the statistics of formats they are believed only as far as they do not contradict themselves.
	Stats func(column string) (filter.Stats, bool)
}

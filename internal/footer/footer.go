// Package footer reads Parquet footers into the little that Penstock needs of them: the schema as features
// and, for each row group, where the column chunks lie and what their statistics say. The master plans with it,
// the worker decodes by it. A Footer is immutable once read.
package footer

import (
	"github.com/penstock-ml/penstock/api/spec"
)

// Footer describes one file.
type Footer struct {
	Schema    spec.Schema
	Leaves    []Leaf
	RowGroups []RowGroup
	Rows      int64
	// Bytes of memory that this value takes, for caches.
	Size int64
}

// Physical is a Parquet physical type, numbered as in parquet.thrift.
type Physical int8

// Physical types.
const (
	Boolean Physical = iota
	Int32
	Int64
	Int96
	Float
	Double
	ByteArray
	FixedLenByteArray
)

// Leaf is a leaf column of the Parquet schema, in file order.
type Leaf struct {
	// Column is the index in Schema.Columns of the feature that this leaf belongs to, or -1.
	Column int
	// Path holds all levels ("ids", "list", "element").
	Path     []string
	Physical Physical
	// TypeLength of FixedLenByteArray.
	TypeLength int
	// MaxDef and MaxRep are the maximal definition and repetition levels.
	MaxDef, MaxRep int
	// Converted says how to read the physical value as its feature's kind (unsigned, decimal scale, ...).
	Logical Logical
	// MapKey marks the key leaf of a map column, MapValue its value leaf.
	MapKey, MapValue bool
}

// Logical is the part of a leaf's logical type that changes how values are read.
type Logical struct {
	Unsigned bool
	Decimal  bool
	Scale    int
	Float16  bool
	// Optional levels, outermost first: RowNullDef is the definition level at and above which the row itself is
	// present (0: it cannot be null), ListDef the one at and above which the list has at least one element.
	RowNullDef, ListDef int
}

// RowGroup describes one row group.
type RowGroup struct {
	Rows     int64
	FirstRow int64
	Chunks   []Chunk // one for each leaf
}

// Chunk is a column chunk.
type Chunk struct {
	// Offset of the first page (dictionary or data) and the chunk's length in the file.
	Offset, Length int64
	// Uncompressed is the length of all pages, decompressed.
	Uncompressed int64
	Values       int64 // with nulls and, for lists, empty rows
	Codec        int32 // numbered as in parquet.thrift
	Encodings    []int32
	Stats        Stats
}

// Stats are a chunk's statistics; Min and Max are nil where the file has none, or where they cannot be trusted.
type Stats struct {
	Min, Max []byte // plain encoding
	Nulls    int64  // -1: unknown
}

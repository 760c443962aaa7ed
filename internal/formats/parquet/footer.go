// Package parquet describes Parquet files: it reads footers into the little that is needed of them, which are the
// schema as features and, for each row group, where the column chunks lie that are asked for and what their statistics
// say. A row group is an extent. A Footer is immutable once read. Its worker's half is worker/formats/parquet.
//
// Statistics and page indexes that contradict themselves or their neighbours are used for nothing. Others are believed,
// as by every reader of Parquet: rows behind false bounds that fit all else are left out.
package parquet

import (
	"cmp"
	"iter"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/parquet/crypt"
)

// Footer is what a file's footer says.
type Footer struct {
	format.Columns
	Leaves    []Leaf
	RowGroups []RowGroup
	Rows      int64
	// Bytes of memory that this value takes, for caches.
	Size int64

	spans  []span        // the leaves of each column
	locked map[int]error // leaves whose keys are missing
	slots  []int32       // where each leaf's chunk is in RowGroup.Chunks, or -1; nil: all are there, in their order
	stored []int64       // bytes of the chunks of each leaf
}

// LeavesOf returns which leaves make up the column: Leaves[from:to], or of a map column the first of these, its keys,
// and the last one, its values. Each of them makes up a column of its own, too.
func (f *Footer) LeavesOf(column int) (from, to int) {
	s := f.spans[column]
	return s.from, s.to
}

// leaves are those that make up the column.
func (f *Footer) leaves(column int) iter.Seq[int] {
	return f.spans[column].leaves(&f.Schema.Columns[column])
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
	// Column is the index in Schema.Columns of the feature that this leaf belongs to (of a map's leaves: the map), or
	// -1 if it belongs to one that is Unsupported, unless that is an Untyped list.
	Column int
	// Path holds all levels ("ids", "list", "element").
	Path     []string
	Physical Physical
	// Kind is what the leaf's values are read as; unspecified if Column is -1, or there are none.
	Kind pb.Kind
	// TypeLength of FixedLenByteArray, above 0.
	TypeLength int
	// MaxDef and MaxRep are the maximal definition and repetition levels. Where Column is not -1, MaxRep is 0 for
	// scalars, 1 for lists and maps, and more for lists within them. A value, or an element, is present if its
	// definition level is MaxDef.
	MaxDef, MaxRep int
	// Logical says how to read the physical value as Kind (unsigned, decimal scale, ...).
	Logical Logical

	unordered bool // nobody says how its bounds were compared
	unbounded bool // it has none that could be used
}

// Logical is the part of a leaf's logical type that changes how values are read. A null struct around the
// feature counts as a null row. Levels of the usual shapes, o marking what is optional:
//
//	                                   MaxDef  RowNullDef  ListDef
//	scalar, o scalar                   0, 1    0, 1        0
//	o struct { o scalar }              2       2           0
//	o list { list { o element } }      3       1           2
//	list { list { element } }          1       0           1
//	o list { array }  (two levels)     2       1           2
//	repeated scalar                    1       0           1
//	o list { list { o struct { o f }}} 4       1           2
//	o map { key_value { key } }        2       1           2
//	o map { key_value { o value } }    3       1           2
//
// Of lists of lists, whose levels nest directly, these are the outermost's, and Nested has those of the others. Maps
// are lists of their entries:
//
//	o list { list { o list { list { o element } } } }              5, 1, 2, and 3 and 4
//	o map { key_value { o value { list { o element } } } }         5, 1, 2, and 3 and 4
//	o map { key_value { o value { key_value { key } } } }          4, 1, 2, and 3 and 4
type Logical struct {
	// Unsigned integers: an Int32 is widened to INT64 with zeros; an Int64 keeps its bits.
	Unsigned bool
	// Small is INT8, UINT8, INT16 or UINT16 of an Int32 that holds such: values that have more bits are cut to it, as
	// by pyarrow, DuckDB and polars. KIND_UNSPECIFIED: it does not.
	Small pb.Kind
	// Decimal values (Int32, Int64, or big-endian two's complement bytes) are divided by 10^Scale.
	Decimal bool
	Scale   int
	// Float16 values are two bytes, little endian.
	Float16 bool
	// RowNullDef is the definition level at and above which the row is present; 0: it cannot be null.
	RowNullDef int
	// ListDef is the definition level at and above which there is an element (or a map's entry), null or not;
	// below it, and at or above RowNullDef, the list is empty. 0 for scalars.
	ListDef int
	// Nested has the MaxRep-1 levels of lists below that, the outermost first.
	Nested [spec.MaxNested]ListLevel
}

// ListLevel is to lists within lists what RowNullDef and ListDef are to those of rows.
type ListLevel struct{ NullDef, ElementDef uint8 }

// RowGroup describes one row group.
type RowGroup struct {
	Rows     int64
	FirstRow int64
	Chunks   []Chunk // one for each leaf whose chunks are kept
}

// Chunk is a column chunk.
type Chunk struct {
	// Offset of the first page (dictionary or data) and the chunk's length in the file; both 0 if it has no values.
	Offset, Length int64
	// Loose is set where Length is the most that the chunk may have, and others' bytes may stand at its end.
	Loose bool
	// Uncompressed is the length of all pages, decompressed; 0: it is not known, as in files of older DuckDBs.
	Uncompressed int64
	// Plain is the length that values of type BYTE_ARRAY have without any encoding, as newer writers tell; 0: it is not
	// known.
	Plain     int64
	Values    int64 // with nulls and, for lists, empty rows
	Codec     int32 // numbered as in parquet.thrift
	Encodings []int32
	Stats     Stats
	// Crypt opens the pages of an encrypted chunk; nil if it is not.
	Crypt *crypt.Chunk
	pageIndex
}

// Pages is about the length of all pages, decompressed.
func (c *Chunk) Pages() int64 { return cmp.Or(c.Uncompressed, c.Length) }

// pageIndex is where a chunk's page index lies; lengths of 0 stand for none.
type pageIndex struct {
	columnIndex, offsetIndex             int64
	columnIndexLength, offsetIndexLength int32
}

// Stats are a chunk's statistics. Min and Max are nil where the file has none, or where they cannot be trusted;
// else they are values of the leaf's Kind: little endian (BOOL: one byte), BINARY the bytes themselves. Each value
// that is neither null nor NaN lies between them, both included; they may be wider than the values. BINARY
// values compare as unsigned bytes. Beware: NaN lies outside of all bounds.
type Stats struct {
	Min, Max []byte
	Nulls    int64 // -1: unknown; of lists and maps, null and empty rows may count or not
	// Contradiction is what of the statistics cannot be, or cannot be beside their neighbours; "" if nothing. Then
	// nothing of them is known.
	Contradiction string
}

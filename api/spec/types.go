package spec

import (
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// Type is a feature's type: a scalar or a list of scalars a row.
type Type struct {
	Kind pb.Kind
	List bool
	// Nested is how many levels of lists the elements of a list are: 1 of a list of lists.
	Nested uint32
	// Picture is what is known of the values of kind PICTURE.
	Picture Picture
}

// Picture is what is known of all pictures of a feature.
type Picture struct {
	Channels      int32
	Height, Width int32 // 0 if they differ
	Shorter       int32 // of the sides, if that is all that is known of the size
	Floats        bool  // float32 values, else uint8
}

// String writes what is known: "3 channels, 224 x 224".
func (p Picture) String() string {
	size := "of any size"
	switch {
	case p.Height > 0:
		size = fmt.Sprintf("%d x %d", p.Height, p.Width)
	case p.Shorter > 0:
		size = fmt.Sprintf("the shorter side %d", p.Shorter)
	}
	text := fmt.Sprintf("%d channels, %s", p.Channels, size)
	if p.Floats {
		text += ", float32"
	}
	return text
}

// String writes a type as it stands in messages: "int64", "list<float32>".
func (t Type) String() string {
	if t.Kind == pb.Kind_PICTURE {
		return "picture(" + t.Picture.String() + ")"
	}
	k := KindName(t.Kind)
	if t.List {
		levels := int(t.Nested) + 1
		return strings.Repeat("list<", levels) + k + strings.Repeat(">", levels)
	}
	return k
}

// KindName is a kind as it stands in specs and messages: "int64".
func KindName(k pb.Kind) string { return strings.ToLower(k.String()) }

// KindNamed is the kind of a name, in lower case as KindName writes it; KIND_UNSPECIFIED: there is none.
func KindNamed(name string) pb.Kind {
	if k := pb.Kind(pb.Kind_value[strings.ToUpper(name)]); KindName(k) == name {
		return k
	}
	return pb.Kind_KIND_UNSPECIFIED
}

// Small reports whether a kind is one that no op computes with: values as the files have them, which only tensors take.
func Small(k pb.Kind) bool { return k >= pb.Kind_INT8 && k <= pb.Kind_BFLOAT16 }

// StandIn is the kind that ops compute with where a file has values of a small one.
func StandIn(k pb.Kind) pb.Kind {
	switch k {
	case pb.Kind_FLOAT16, pb.Kind_BFLOAT16:
		return pb.Kind_FLOAT32
	case pb.Kind_UINT32:
		return pb.Kind_INT64
	}
	return pb.Kind_INT32
}

// Computes reports whether ops and filters know such values: they know neither lists of lists nor small kinds.
func (t Type) Computes() bool { return t.Nested == 0 && !Small(t.Kind) }

// Width is how many bytes a value of a kind has, of bools one; 0 of kinds whose values have none of their own.
func Width(k pb.Kind) int {
	switch k {
	case pb.Kind_BOOL, pb.Kind_INT8, pb.Kind_UINT8:
		return 1
	case pb.Kind_INT16, pb.Kind_UINT16, pb.Kind_FLOAT16, pb.Kind_BFLOAT16:
		return 2
	case pb.Kind_INT32, pb.Kind_UINT32, pb.Kind_FLOAT32:
		return 4
	case pb.Kind_INT64, pb.Kind_FLOAT64:
		return 8
	}
	return 0
}

// Proto returns t as it crosses the wire.
func (t Type) Proto() *pb.Type {
	m := &pb.Type{Kind: t.Kind, List: t.List, Nested: t.Nested}
	if p := t.Picture; p != (Picture{}) {
		m.Picture = &pb.Picture{
			Channels: p.Channels, Height: p.Height, Width: p.Width, Shorter: p.Shorter,
			Floats: p.Floats,
		}
	}
	return m
}

// TypeFromProto reads a type.
func TypeFromProto(m *pb.Type) Type {
	p := m.GetPicture()
	return Type{Kind: m.GetKind(), List: m.GetList(), Nested: m.GetNested(), Picture: Picture{
		Channels: p.GetChannels(), Height: p.GetHeight(), Width: p.GetWidth(), Shorter: p.GetShorter(),
		Floats: p.GetFloats(),
	}}
}

// Schema is what a dataset's files offer as features.
type Schema struct {
	Columns []Column
}

// Column is one selectable column of a dataset: a top-level column, a leaf of a struct (its Name joins the path
// with dots), or a map column, whose keys are selectable as scores.42.
type Column struct {
	// Name is unique in a file. A map column of maps is two, the inner ones' keys and their values, which are
	// selectable as scores.42.key and scores.42.value: their names have a star for the key.
	Name string
	// Path in the Parquet schema, without the inner levels of lists and maps.
	Path []string
	// Type of the column; of a map column, the type of one key's value.
	Type Type
	// Key is the kind of a map column's keys, else KIND_UNSPECIFIED. The map's keys and values themselves are
	// columns of their own: scores.key and scores.value, lists, unless a key bears that name.
	Key pb.Kind
	// UnsignedKeys is set for a map column whose keys of 64 bits are uint64.
	UnsignedKeys bool
	// Field says what this is of the values of a map column, where they are maps: "key" or "value".
	Field []string
	// Own is the kind that the file itself has, where Type has the one that ops compute with: INT8 where Type has
	// INT32. Tensors have it. Files that differ in it have Type's.
	Own pb.Kind
	// Shape is that of each row, where the file says that all lists of the column have one: [2, 3].
	Shape []int32
	// Meaning says what integers of this column stand for, where that is more than numbers: "timestamp[ms]",
	// "time[us]", "uint64". Files that differ in it do not go together.
	Meaning string
	// Int96 is set for a column of Parquet's old timestamps of 96 bits. They go as nanoseconds, and are read as
	// microseconds where a source means these: what wrote them most often, Spark, has no finer ones.
	Int96 bool
	// Text is set for a column whose byte strings the file says are text. Files that differ in it have bytes.
	Text bool
	// Date is set for a column whose integers are days since 1970. Files that differ in it do not go together.
	Date bool
	// Clock says of a column of timestamps whose time it is, "UTC" or "local", as far as the file tells. Files that
	// differ in it do not go together.
	Clock string
	// Partition is set for a key of hive partitions, which no file has as a column: patterns do not stand for it.
	Partition bool
	// Unsupported says why a column cannot be a feature ("list of lists"), else it is empty.
	Unsupported string
	// Untyped is set for a column that is Unsupported since whoever wrote the file saw only nulls, or no element of its
	// lists, and so no type. Beside files that have one it has theirs.
	Untyped bool
	// Inferred is set for a column whose type is that of the values at the file's front: nothing in the file says it.
	Inferred bool
}

// Stands is what integers of a column stand for beyond its Meaning: "date", "number", "UTC" or "local"; "" if that is
// not known, or they are none. Where two files say something, it is the same.
func (c Column) Stands() string {
	isInt := c.Type.Kind == pb.Kind_INT32 || c.Type.Kind == pb.Kind_INT64
	switch {
	case c.Date:
		return "date"
	case isInt && c.Meaning == "" && c.Unsupported == "":
		return "number"
	}
	return c.Clock
}

// Catalog is the list of ops a spec may use. The worker's registry of transforms implements it.
type Catalog interface {
	// Names of all ops, sorted.
	Names() []string
	// Check infers what an op makes of inputs of the given types, or returns what is wrong with its parameters
	// or inputs. The error's text follows "transforms[3]: ".
	Check(op string, params map[string]*pb.Value, in []Type) (Signature, error)
	// Maps reports whether op is applied to each of its inputs by itself, and whether it exists.
	Maps(op string) (maps, ok bool)
	// Fitting is what op may ask of the data.
	Fitting(op string) Fitting
}

// Signature is what Check found.
type Signature struct {
	Version uint32
	// Out is the result's type.
	Out Type
	// SelectsRows is set for ops such as sample, that choose rows and have no result.
	SelectsRows bool
	// Keeps: the result's values mean what those of the first input do; see Column.Meaning and Column.Text.
	Keeps bool
	// Params with defaults filled in.
	Params map[string]*pb.Value
}

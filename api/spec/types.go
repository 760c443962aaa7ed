package spec

import (
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// Type is a feature's type: a scalar or a list of scalars a row.
type Type struct {
	Kind pb.Kind
	List bool
}

// String writes a type as it stands in messages: "int64", "list<float32>".
func (t Type) String() string {
	k := strings.ToLower(t.Kind.String())
	if t.List {
		return "list<" + k + ">"
	}
	return k
}

// Proto returns t as it crosses the wire.
func (t Type) Proto() *pb.Type { return &pb.Type{Kind: t.Kind, List: t.List} }

// TypeFromProto reads a type.
func TypeFromProto(m *pb.Type) Type { return Type{Kind: m.GetKind(), List: m.GetList()} }

// Schema is what a dataset's files offer as features.
type Schema struct {
	Columns []Column
}

// Column is one selectable column of a dataset: a top-level column, a leaf of a struct (its Name joins the path
// with dots), or a map column, whose keys are selectable as Name.key.
type Column struct {
	Name string
	// Path in the Parquet schema, without the inner levels of lists and maps.
	Path []string
	// Type of the column; of a map column, the type of one key's value.
	Type Type
	// Key is the kind of a map column's keys, else KIND_UNSPECIFIED. The map's keys and values themselves are
	// columns of their own: Name.key and Name.value, lists, unless a key bears that name.
	Key pb.Kind
	// Meaning says what integers of this column stand for, where that is more than numbers: "timestamp[ms]", "time[us]",
	// "uint64". Files that differ in it do not go together.
	Meaning string
	// Unsupported says why a column cannot be a feature ("list of lists"), else it is empty.
	Unsupported string
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
}

// Signature is what Check found.
type Signature struct {
	Version uint32
	// Out is the result's type.
	Out Type
	// SelectsRows is set for ops such as sample, that choose rows and have no result.
	SelectsRows bool
	// Params with defaults filled in.
	Params map[string]*pb.Value
}

package reference

import (
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/parquet-go/parquet-go/format"

	snapshots "github.com/penstock-ml/penstock/internal/tables/table"
)

// unnamed is the name of columns that a file has and its table has not. No spec can say it.
const unnamed = "\x00"

// named is the schema of a table's file with the names that the table has for its columns.
func named(schema []format.SchemaElement, fields []arrow.Field) []format.SchemaElement {
	n := &naming{rest: slices.Clone(schema)}
	out := n.rest
	n.element(arrow.StructOf(fields...))
	return out
}

// naming goes through a schema's flat list.
type naming struct{ rest []format.SchemaElement }

// element gives the fields of structs at and below the next element their names. t is its type, or those of its
// children where these are what repeats in a list or map; nil for what the table has not.
func (n *naming) element(t any) {
	if len(n.rest) == 0 {
		return
	}
	children := int(n.rest[0].NumChildren.V)
	n.rest = n.rest[1:]
	for i := range children {
		if len(n.rest) == 0 {
			return
		}
		switch t := t.(type) {
		case *arrow.StructType:
			n.element(n.field(t.Fields()))
		case *arrow.MapType: // its one child has keys and values
			n.element([]arrow.DataType{t.KeyType(), t.ItemType()})
		case *arrow.ListType:
			n.element([]arrow.DataType{t.Elem()})
		case []arrow.DataType: // of what repeats
			n.element(t[min(i, len(t)-1)])
		default:
			n.element(nil)
		}
	}
}

// field names the next element, and returns its type.
func (n *naming) field(fields []arrow.Field) any {
	at := &n.rest[0]
	i := slices.IndexFunc(fields, func(f arrow.Field) bool {
		if id, ok := f.Metadata.GetValue(snapshots.FieldID); ok && at.FieldID != 0 {
			return id == strconv.Itoa(int(at.FieldID))
		}
		stored, ok := f.Metadata.GetValue(snapshots.StoredName)
		others, _ := f.Metadata.GetValue(snapshots.OtherNames)
		return stored == at.Name || !ok && f.Name == at.Name || slices.Contains(strings.Split(others, "\x00"), at.Name)
	})
	if i < 0 {
		at.Name = unnamed
		return nil
	}
	at.Name = fields[i].Name
	return fields[i].Type
}

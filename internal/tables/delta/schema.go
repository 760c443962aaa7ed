package delta

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/tables/table"
)

const (
	maxNesting = 64
	maxDigits  = 38 // of decimals
)

// schema is a table's: its columns, and their leaves outside lists and maps.
type schema struct {
	columns []read
	leaves  map[string]*scalar // by the names on the way to them, with dots between
	notes   []string
	mapping string // the mode of column mapping: "name", "id" or ""
}

// scalar is a leaf: how the log spells the way to it, and its type.
type scalar struct {
	path     []string
	typ      string
	wasFloat bool // files may have it as float, which typ was widened from
}

// structType, and field, are as the log has them in JSON.
type structType struct {
	Type     string          `json:"type"`
	Fields   []field         `json:"fields"`
	Element  json.RawMessage `json:"elementType"`
	Key      json.RawMessage `json:"keyType"`
	Value    json.RawMessage `json:"valueType"`
	Nullable *bool           `json:"containsNull"`
}

type field struct {
	Name     string                     `json:"name"`
	Type     json.RawMessage            `json:"type"`
	Nullable bool                       `json:"nullable"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

// errUnsupported says why a column is left out.
type errUnsupported struct{ why string }

func (e errUnsupported) Error() string { return e.why }

// parseSchema reads a schema. Columns that cannot be read are left out, which notes say.
func parseSchema(text, mapping string) (*schema, error) {
	s := &schema{leaves: map[string]*scalar{}}
	switch mapping {
	case "", "none":
	case "name", "id":
		s.mapping = mapping
	default:
		return nil, fmt.Errorf("delta.columnMapping.mode is %.40q; want none, name or id", mapping)
	}
	var top structType
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		return nil, fmt.Errorf("schemaString: %w; the log is damaged: restore it", err)
	}
	if top.Type != "struct" {
		return nil, fmt.Errorf("schemaString is of type %.40q; want struct", top.Type)
	}
	w := walk{schema: s}
	var err error
	if s.columns, err = w.fields(top.Fields); err != nil {
		return nil, fmt.Errorf("schemaString: %w", err)
	}
	return s, nil
}

// walk goes through a schema.
type walk struct {
	schema *schema
	names  []string // on the way
	stored []string
	within int // lists and maps on the way
}

// read is a field that was read.
type read struct {
	arrow.Field
	stored string // its name in files and in the log
	typ    string // of a scalar, as the log has it; "": it is none
}

func (w *walk) fields(all []field) (out []read, err error) {
	met := make(map[string]bool, len(all))
	for _, f := range all {
		if f.Name == "" || met[f.Name] {
			return nil, fmt.Errorf("the column %q is there twice, or has no name", w.name(f.Name))
		}
		met[f.Name] = true
		one, err := w.field(f)
		var unsupported errUnsupported
		if errors.As(err, &unsupported) {
			note := fmt.Sprintf("column %s is left out: %s", w.name(f.Name), unsupported.why)
			w.schema.notes = append(w.schema.notes, note)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (w *walk) name(last string) string {
	return strings.Join(append(slices.Clone(w.names), last), ".")
}

func (w *walk) field(f field) (read, error) {
	stored, meta, err := w.mapped(f)
	if err != nil {
		return read{}, err
	}
	changes, err := changesOf(f.Metadata["delta.typeChanges"])
	if err != nil {
		return read{}, fmt.Errorf("column %s: %w", w.name(f.Name), err)
	}
	if len(changes) > 0 {
		meta[table.Widened] = ""
	}
	w.names, w.stored = append(w.names, f.Name), append(w.stored, stored)
	defer func() { w.names, w.stored = w.names[:len(w.names)-1], w.stored[:len(w.stored)-1] }()
	typ, name, err := w.typeOf(f.Type)
	if err != nil {
		return read{}, err
	}
	if name != "" && w.within == 0 {
		wasFloat := slices.ContainsFunc(changes, func(c change) bool { return c.From == "float" })
		w.schema.leaf(strings.Join(w.names, "."), &scalar{slices.Clone(w.stored), name, wasFloat})
	}
	of := arrow.Field{Name: f.Name, Type: typ, Nullable: f.Nullable, Metadata: arrow.MetadataFrom(meta)}
	return read{of, stored, name}, nil
}

// leaf notes one, unless another has the same name, since names may have dots in them.
func (s *schema) leaf(name string, of *scalar) {
	if _, twice := s.leaves[name]; twice {
		of = nil
	}
	s.leaves[name] = of
}

// mapped is how files and the log call a field.
func (w *walk) mapped(f field) (stored string, meta map[string]string, err error) {
	meta = map[string]string{}
	if w.schema.mapping == "" {
		return f.Name, meta, nil
	}
	if err := json.Unmarshal(f.Metadata["delta.columnMapping.physicalName"], &stored); err != nil || stored == "" {
		return "", nil, fmt.Errorf("column %s lacks delta.columnMapping.physicalName: the log is damaged; restore it",
			w.name(f.Name))
	}
	meta[table.StoredName] = stored
	if w.schema.mapping == "id" {
		var id int32
		if err := json.Unmarshal(f.Metadata["delta.columnMapping.id"], &id); err != nil {
			return "", nil, fmt.Errorf("column %s lacks delta.columnMapping.id: the log is damaged; restore it",
				w.name(f.Name))
		}
		meta[table.FieldID] = strconv.Itoa(int(id))
	}
	return stored, meta, nil
}

// typeOf reads a type, and its name if it is a scalar's.
func (w *walk) typeOf(raw json.RawMessage) (t arrow.DataType, scalar string, err error) {
	if len(w.names)+w.within > maxNesting {
		return nil, "", fmt.Errorf("column %s nests deeper than %d levels", w.name("…"), maxNesting)
	}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		t, err = scalarType(name)
		return t, name, err
	}
	var nested structType
	if err := json.Unmarshal(raw, &nested); err != nil {
		return nil, "", fmt.Errorf("column %s: %w", strings.Join(w.names, "."), err)
	}
	switch nested.Type {
	case "struct":
		t, err = w.structOf(nested.Fields)
	case "array":
		t, err = w.listOf(nested)
	case "map":
		t, err = w.mapOf(nested)
	default:
		err = errUnsupported{fmt.Sprintf("its type is %.40q, which cannot be read", nested.Type)}
	}
	return t, "", err
}

func (w *walk) structOf(all []field) (arrow.DataType, error) {
	fields, err := w.fields(all)
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, errUnsupported{"its struct has no fields that can be read"}
	}
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		out[i] = f.Field
	}
	return arrow.StructOf(out...), nil
}

func (w *walk) listOf(of structType) (arrow.DataType, error) {
	w.within++
	defer func() { w.within-- }()
	item, _, err := w.typeOf(of.Element)
	if err != nil {
		return nil, err
	}
	nullable := of.Nullable == nil || *of.Nullable
	return arrow.ListOfField(arrow.Field{Name: "element", Type: item, Nullable: nullable}), nil
}

func (w *walk) mapOf(of structType) (arrow.DataType, error) {
	w.within++
	defer func() { w.within-- }()
	key, _, err := w.typeOf(of.Key)
	if err != nil {
		return nil, err
	}
	value, _, err := w.typeOf(of.Value)
	if err != nil {
		return nil, err
	}
	return arrow.MapOf(key, value), nil
}

var isDecimal = regexp.MustCompile(`^decimal\((\d{1,2}),\s*(\d{1,2})\)$`)

// scalarType is that of a primitive type.
func scalarType(name string) (arrow.DataType, error) {
	switch name {
	case "string":
		return arrow.BinaryTypes.String, nil
	case "long":
		return arrow.PrimitiveTypes.Int64, nil
	case "integer":
		return arrow.PrimitiveTypes.Int32, nil
	case "short":
		return arrow.PrimitiveTypes.Int16, nil
	case "byte":
		return arrow.PrimitiveTypes.Int8, nil
	case "float":
		return arrow.PrimitiveTypes.Float32, nil
	case "double":
		return arrow.PrimitiveTypes.Float64, nil
	case "boolean":
		return arrow.FixedWidthTypes.Boolean, nil
	case "binary":
		return arrow.BinaryTypes.Binary, nil
	case "date":
		return arrow.FixedWidthTypes.Date32, nil
	case "timestamp":
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
	case "timestamp_ntz":
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	}
	if precision, scale, ok := decimalType(name); ok {
		return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}, nil
	}
	if name == "void" {
		return nil, errUnsupported{"all its values are null (its type is void)"}
	}
	return nil, errUnsupported{fmt.Sprintf("its type is %.40q, which cannot be read", name)}
}

// decimalType reads the name of a decimal type. "decimal" alone has ten digits.
func decimalType(name string) (precision, scale int, ok bool) {
	if name == "decimal" {
		return 10, 0, true
	}
	m := isDecimal.FindStringSubmatch(name)
	if m == nil {
		return 0, 0, false
	}
	precision, _ = strconv.Atoi(m[1]) // two digits
	scale, _ = strconv.Atoi(m[2])
	return precision, scale, precision > 0 && precision <= maxDigits && scale <= precision
}

// change is one of a field's type, or of what it lists or maps.
type change struct {
	From string `json:"fromType"`
	To   string `json:"toType"`
}

// changesOf refuses a table with files of a type that is not read as the one that their column has since.
func changesOf(raw json.RawMessage) (all []change, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("delta.typeChanges: %w", err)
	}
	for _, c := range all {
		if !widens(c.From, c.To) {
			return nil, fmt.Errorf("its type was changed from %.40s to %.40s, and files written before that cannot be "+
				"read as the latter: have the table rewritten (ALTER TABLE … DROP FEATURE typeWidening)", c.From, c.To)
		}
	}
	return all, nil
}

// digitsOf are those of whole numbers, as decimals have them.
func digitsOf(typ string) int {
	return map[string]int{"byte": 3, "short": 5, "integer": 10, "long": 20}[typ]
}

// widens reports whether values of one type are read as another.
func widens(from, to string) bool {
	p, s, isNumber := decimalType(from)
	if digits := digitsOf(from); digits > 0 {
		switch toDigits := digitsOf(to); {
		case toDigits > 0:
			return digits <= toDigits
		case to == "double":
			return from != "long"
		}
		p, s, isNumber = digits, 0, true
	}
	switch from + " " + to {
	case "float double", "date timestamp_ntz":
		return true
	}
	q, t, isDecimal := decimalType(to)
	return isNumber && isDecimal && t >= s && q-t >= p-s
}

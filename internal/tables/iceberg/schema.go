package iceberg

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
	leaves  map[string]*leaf // by the names on the way to them, with dots between; nil: several have the name
	notes   []string
	mapping mapping
}

// leaf is one, by its id, and its type.
type leaf struct {
	id  int
	typ primitive
}

// read is a field that was read.
type read struct {
	arrow.Field
	id  int
	typ primitive // of a scalar; "": it is none
}

// errUnsupported says why a column is left out.
type errUnsupported struct{ why string }

func (e errUnsupported) Error() string { return e.why }

// newSchema reads a schema. Columns that cannot be read are left out, which notes say.
func newSchema(of *schemaJSON, names mapping) (*schema, error) {
	s := &schema{leaves: map[string]*leaf{}, mapping: names}
	w := walk{schema: s, ids: map[int]bool{}}
	var err error
	if s.columns, err = w.fields(of.Fields); err != nil {
		return nil, fmt.Errorf("the schema %d: %w", of.ID, err)
	}
	if len(s.columns) == 0 {
		return nil, fmt.Errorf("the schema %d has no columns that can be read", of.ID)
	}
	return s, nil
}

// walk goes through a schema.
type walk struct {
	schema *schema
	names  []string // on the way
	ids    map[int]bool
	within int // lists and maps on the way
}

func (w *walk) name(last string) string {
	return strings.Join(append(slices.Clone(w.names), last), ".")
}

func (w *walk) fields(all []fieldJSON) (out []read, err error) {
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

func (w *walk) field(f fieldJSON) (read, error) {
	if err := w.note(f.ID); err != nil {
		return read{}, fmt.Errorf("column %s: %w", w.name(f.Name), err)
	}
	if len(f.Default) > 0 && string(f.Default) != "null" {
		return read{}, errUnsupported{"files that lack it have a default of the table's (initial-default)"}
	}
	w.names = append(w.names, f.Name)
	defer func() { w.names = w.names[:len(w.names)-1] }()
	t, typ, err := w.typeOf(f.Type)
	if err != nil {
		return read{}, err
	}
	if typ != "" && w.within == 0 {
		w.schema.leaf(strings.Join(w.names, "."), &leaf{f.ID, typ})
	}
	values := map[string]string{table.FieldID: strconv.Itoa(f.ID)}
	if names := w.schema.mapping[f.ID]; len(names) > 0 {
		values[table.StoredName] = names[0]
		if len(names) > 1 {
			values[table.OtherNames] = strings.Join(names[1:], "\x00") + "\x00"
		}
	}
	column := arrow.Field{Name: f.Name, Type: t, Nullable: !f.Required, Metadata: arrow.MetadataFrom(values)}
	return read{column, f.ID, typ}, nil
}

// note notes the id of a field, of which a schema has each once.
func (w *walk) note(id int) error {
	if id <= 0 || id > 1<<31-1 || w.ids[id] {
		return fmt.Errorf("its id is %d, which is none or another's: the metadata is damaged; restore it", id)
	}
	w.ids[id] = true
	return nil
}

// leaf notes one, unless another has the same name, since names may have dots in them.
func (s *schema) leaf(name string, of *leaf) {
	if _, twice := s.leaves[name]; twice {
		of = nil
	}
	s.leaves[name] = of
}

// typeOf reads a type, and its name if it is a scalar's.
func (w *walk) typeOf(raw json.RawMessage) (t arrow.DataType, typ primitive, err error) {
	if len(w.names)+w.within > maxNesting {
		return nil, "", fmt.Errorf("column %s nests deeper than %d levels", w.name("…"), maxNesting)
	}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		t, err = primitive(name).arrow()
		return t, primitive(name), err
	}
	var nested schemaJSON
	if err := json.Unmarshal(raw, &nested); err != nil {
		return nil, "", fmt.Errorf("column %s: %w", strings.Join(w.names, "."), err)
	}
	switch nested.Type {
	case "struct":
		t, err = w.structOf(nested.Fields)
	case "list":
		t, err = w.listOf(&nested)
	case "map":
		t, err = w.mapOf(&nested)
	default:
		err = errUnsupported{fmt.Sprintf("its type is %.40q, which cannot be read", nested.Type)}
	}
	return t, "", err
}

func (w *walk) structOf(all []fieldJSON) (arrow.DataType, error) {
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

func (w *walk) listOf(of *schemaJSON) (arrow.DataType, error) {
	item, err := w.inner(of.Element, of.ElementID)
	if err != nil {
		return nil, err
	}
	return arrow.ListOfField(arrow.Field{Name: "element", Type: item, Nullable: !of.ElementRequired}), nil
}

func (w *walk) mapOf(of *schemaJSON) (arrow.DataType, error) {
	key, err := w.inner(of.Key, of.KeyID)
	if err != nil {
		return nil, err
	}
	value, err := w.inner(of.Value, of.ValueID)
	if err != nil {
		return nil, err
	}
	return arrow.MapOf(key, value), nil
}

// inner is the type of what a list or map holds.
func (w *walk) inner(raw json.RawMessage, id int) (arrow.DataType, error) {
	if err := w.note(id); err != nil {
		return nil, fmt.Errorf("column %s: %w", strings.Join(w.names, "."), err)
	}
	w.within++
	defer func() { w.within-- }()
	t, _, err := w.typeOf(raw)
	return t, err
}

// primitive is the name of a type that nests no others.
type primitive string

var (
	isDecimal = regexp.MustCompile(`^decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)$`)
	isFixed   = regexp.MustCompile(`^fixed\[(\d{1,9})\]$`)
)

func (p primitive) arrow() (arrow.DataType, error) {
	switch p {
	case "boolean":
		return arrow.FixedWidthTypes.Boolean, nil
	case "int":
		return arrow.PrimitiveTypes.Int32, nil
	case "long":
		return arrow.PrimitiveTypes.Int64, nil
	case "float":
		return arrow.PrimitiveTypes.Float32, nil
	case "double":
		return arrow.PrimitiveTypes.Float64, nil
	case "date":
		return arrow.FixedWidthTypes.Date32, nil
	case "time":
		return arrow.FixedWidthTypes.Time64us, nil
	case "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns":
		t := &arrow.TimestampType{Unit: arrow.Microsecond}
		if strings.HasSuffix(string(p), "_ns") {
			t.Unit = arrow.Nanosecond
		}
		if strings.HasPrefix(string(p), "timestamptz") {
			t.TimeZone = "UTC"
		}
		return t, nil
	case "string":
		return arrow.BinaryTypes.String, nil
	case "binary":
		return arrow.BinaryTypes.Binary, nil
	case "uuid":
		return &arrow.FixedSizeBinaryType{ByteWidth: 16}, nil
	case "unknown":
		return nil, errUnsupported{"all its values are null (its type is unknown)"}
	}
	if m := isFixed.FindStringSubmatch(string(p)); m != nil {
		width, _ := strconv.Atoi(m[1]) // at most nine digits
		return &arrow.FixedSizeBinaryType{ByteWidth: width}, nil
	}
	if precision, scale, ok := p.decimal(); ok {
		return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}, nil
	}
	return nil, errUnsupported{fmt.Sprintf("its type is %.40q, which cannot be read", string(p))}
}

func (p primitive) decimal() (precision, scale int, ok bool) {
	m := isDecimal.FindStringSubmatch(string(p))
	if m == nil {
		return 0, 0, false
	}
	precision, _ = strconv.Atoi(m[1]) // two digits
	scale, _ = strconv.Atoi(m[2])
	return precision, scale, precision > 0 && precision <= maxDigits && scale <= precision
}

// mapping tells what files without ids call fields: those that were written before the table was one of Iceberg.
type mapping map[int][]string

// nameMapping is the table's property that has one.
const nameMapping = "schema.name-mapping.default"

type mappedJSON struct {
	ID     int          `json:"field-id"`
	Names  []string     `json:"names"`
	Fields []mappedJSON `json:"fields"`
}

func parseMapping(text string) (mapping, error) {
	if text == "" {
		return nil, nil
	}
	var all []mappedJSON
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("the property %s: %w", nameMapping, err)
	}
	m := mapping{}
	m.add(all)
	return m, nil
}

// add goes as deep as JSON that was read.
func (m mapping) add(all []mappedJSON) {
	for _, f := range all {
		if f.ID != 0 && len(f.Names) > 0 {
			m[f.ID] = f.Names
		}
		m.add(f.Fields)
	}
}

package parquet

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// Bounds on what a schema may claim, far above what files in use have.
const (
	maxElements = 1 << 20
	maxNesting  = 64
	maxNames    = 128 << 20 // bytes of the full names of all leaves, 40 more for each level
)

// repetition is a Parquet repetition type, numbered as in parquet.thrift.
type repetition int8

const (
	required repetition = iota
	optional
	repeated
)

// converted is Parquet's older annotation of an element, numbered as in parquet.thrift.
type converted int8

const (
	convertedUTF8        converted = 0
	convertedMap         converted = 1
	convertedMapKeyValue converted = 2
	convertedList        converted = 3
	convertedEnum        converted = 4
	convertedDecimal     converted = 5
	convertedDate        converted = 6
	convertedTimeMs      converted = 7
	convertedTimeUs      converted = 8
	convertedTimestampMs converted = 9
	convertedTimestampUs converted = 10
	convertedUint8       converted = 11
	convertedUint16      converted = 12
	convertedUint32      converted = 13
	convertedUint64      converted = 14
	convertedInt8        converted = 15
	convertedInt16       converted = 16
	convertedJSON        converted = 19
	convertedInterval    converted = 21
	noConverted          converted = -1
)

// logical is Parquet's newer annotation: the field of the union LogicalType that is set, 0 for none.
type logical int8

const (
	logicalString    logical = 1
	logicalMap       logical = 2
	logicalList      logical = 3
	logicalEnum      logical = 4
	logicalDecimal   logical = 5
	logicalDate      logical = 6
	logicalTime      logical = 7
	logicalTimestamp logical = 8
	logicalInteger   logical = 10
	logicalUnknown   logical = 11
	logicalJSON      logical = 12
	logicalFloat16   logical = 15
	logicalVariant   logical = 16
)

// noPhysical is the physical type of groups.
const noPhysical Physical = -1

// elementBytes is more memory than an element takes: a node, and what becomes of it.
const elementBytes = int64(unsafe.Sizeof(node{})+unsafe.Sizeof(Leaf{})+unsafe.Sizeof(spec.Column{})) + 256

// node is an element of the Parquet schema.
type node struct {
	name       string
	physical   Physical
	typeLength int
	repetition repetition
	converted  converted
	logical    logical
	bits       int8   // of logicalInteger
	id         int32  // that the file gives it; 0: none
	clock      string // of logicalTimestamp: "UTC" or "local"
	unit       int8   // of logicalTime and logicalTimestamp: the field of the union TimeUnit that is set
	signed     bool
	scale      int32
	precision  int32
	claims     int // children it is said to have
	children   []*node
}

func (n *node) isLeaf() bool { return n.physical != noPhysical }

func (n *node) isList() bool {
	return !n.isLeaf() && (n.logical == logicalList || n.logical == 0 && n.converted == convertedList)
}

func (n *node) isMap() bool {
	return !n.isLeaf() && (n.logical == logicalMap ||
		n.logical == 0 && (n.converted == convertedMap || n.converted == convertedMapKeyValue))
}

func (n *node) isVariant() bool { return n.logical == logicalVariant }

// readSchema reads the list of schema elements and returns the tree that it describes, depth first.
func readSchema(r *thrift.Reader, take func(int64) error) (*node, error) {
	n := r.ListOf(thrift.Struct)
	if n > maxElements {
		return nil, fmt.Errorf("schema of %d elements; at most %d can be read", n, maxElements)
	}
	if err := take(int64(n) * elementBytes); err != nil {
		return nil, err
	}
	var flat []*node
	for range n {
		e, err := readElement(r)
		if err != nil {
			return nil, fmt.Errorf("schema element %d: %w", len(flat), err)
		}
		flat = append(flat, e)
	}
	if len(flat) == 0 {
		return nil, errors.New("schema without elements")
	}
	rest, err := flat[0].adopt(flat[1:], 0)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("schema element %q belongs to no group", rest[0].name)
	}
	if n := flat[0].nameBytes(0); n > maxNames {
		return nil, fmt.Errorf("the columns' full names have %d bytes; at most %d can be read", n, maxNames)
	} else if err := take(2 * int64(n)); err != nil { // of leaves and columns
		return nil, err
	}
	return flat[0], nil
}

// nameBytes is about the memory that the full names of the leaves at and below n take. A short schema can make
// them very long.
func (n *node) nameBytes(above int) int {
	above += len(n.name) + 40
	if len(n.children) == 0 {
		return above
	}
	total := 0
	for _, child := range n.children {
		total += child.nameBytes(above)
	}
	return total
}

// adopt takes a node's descendants from the front of flat and returns what is left.
func (n *node) adopt(flat []*node, depth int) ([]*node, error) {
	if n.isLeaf() && depth > 0 {
		return flat, nil
	}
	if depth > maxNesting {
		return nil, fmt.Errorf("schema nests deeper than %d levels", maxNesting)
	}
	if n.claims < 0 || n.claims > len(flat) {
		return nil, fmt.Errorf("schema group %q has %d children, but only %d elements follow",
			n.name, n.claims, len(flat))
	}
	for range n.claims {
		if len(flat) == 0 {
			return nil, fmt.Errorf("schema ends inside group %q", n.name)
		}
		child := flat[0]
		rest, err := child.adopt(flat[1:], depth+1)
		if err != nil {
			return nil, err
		}
		n.children, flat = append(n.children, child), rest
	}
	return flat, nil
}

// readElement reads a SchemaElement.
func readElement(r *thrift.Reader) (*node, error) {
	n := &node{physical: noPhysical, converted: noConverted}
	named := false
	var scale, precision int32
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I32:
			n.physical = Physical(r.Int32())
			if n.physical < Boolean || n.physical > FixedLenByteArray {
				return nil, errors.New("unknown physical type")
			}
		case 2<<4 | thrift.I32:
			n.typeLength = int(r.Int32())
		case 3<<4 | thrift.I32:
			n.repetition = repetition(r.Int32())
		case 4<<4 | thrift.Binary:
			n.name, named = string(r.Bytes()), true
		case 5<<4 | thrift.I32:
			n.claims = int(r.Int32())
		case 6<<4 | thrift.I32:
			n.converted = converted(r.Int32())
		case 7<<4 | thrift.I32:
			scale = r.Int32()
		case 8<<4 | thrift.I32:
			precision = r.Int32()
		case 9<<4 | thrift.I32:
			n.id = r.Int32()
		case 10<<4 | thrift.Struct:
			n.readLogical(r)
		default:
			r.Skip(f)
		}
	}
	if n.logical != logicalDecimal {
		n.scale, n.precision = scale, precision
	}
	switch {
	case r.Err() != nil:
		return nil, r.Err()
	case !named:
		return nil, errors.New("it has no name")
	case n.repetition < required || n.repetition > repeated:
		return nil, fmt.Errorf("%q: unknown repetition type %d", n.name, n.repetition)
	}
	return n, nil
}

// readLogical reads a LogicalType.
func (n *node) readLogical(r *thrift.Reader) {
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		n.logical = logical(f >> 4)
		if f.Type() != thrift.Struct {
			r.Skip(f)
			continue
		}
		for g := r.Next(0); g != thrift.Stop; g = r.Next(g) {
			switch {
			case n.logical == logicalDecimal && g == 1<<4|thrift.I32:
				n.scale = r.Int32()
			case n.logical == logicalDecimal && g == 2<<4|thrift.I32:
				n.precision = r.Int32()
			case n.logical == logicalInteger && g == 1<<4|thrift.I8:
				n.bits = r.Int8()
			case n.logical == logicalInteger && g == 2<<4|thrift.True:
				n.signed = true
			case n.logical == logicalTimestamp && g == 1<<4|thrift.True:
				n.clock = "UTC"
			case n.logical == logicalTimestamp && g == 1<<4|thrift.False:
				n.clock = "local"
			case (n.logical == logicalTime || n.logical == logicalTimestamp) && g == 2<<4|thrift.Struct:
				for u := r.Next(0); u != thrift.Stop; u = r.Next(u) {
					n.unit = int8(u >> 4)
					r.Skip(u)
				}
			default:
				r.Skip(g)
			}
		}
	}
}

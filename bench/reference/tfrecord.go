package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// example is a record of TFRecord: a tf.train.Example, whose features have lists of one kind.
type example map[string]featureList

type featureList struct {
	kind   pb.Kind // of nothing: KIND_UNSPECIFIED
	values []any
}

var errExample = errors.New("its protobuf is damaged")

// readTFRecord reads frames: a length and its checksum, a record and its checksum.
func readTFRecord(data []byte, how *pb.Format) (*recordFile, error) {
	f := &recordFile{}
	le := binary.LittleEndian
	fronts, rest := 0, data
	for len(rest) > 0 {
		if len(rest) < 12 || masked(rest[:8]) != le.Uint32(rest[8:]) {
			return nil, fmt.Errorf("record %d: its length is damaged or cut off", len(f.records))
		}
		n := le.Uint64(rest)
		if rest = rest[12:]; n > uint64(len(rest)) || uint64(len(rest))-n < 4 {
			return nil, fmt.Errorf("record %d is cut off", len(f.records))
		}
		if masked(rest[:n]) != le.Uint32(rest[n:]) {
			return nil, fmt.Errorf("record %d is damaged", len(f.records))
		}
		e, err := parseExample(rest[:n])
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(f.records), err)
		}
		f.records = append(f.records, e)
		if rest = rest[n+4:]; len(data)-len(rest) <= front {
			fronts = len(f.records)
		}
	}
	given, err := declared(how)
	if err != nil {
		return nil, err
	}
	for i := range given {
		given[i].path = []string{given[i].name} // a name may have dots
	}
	f.columns = declare(columnsOfExamples(f.records[:max(fronts, min(1, len(f.records)))]), given)
	return f, nil
}

// fields calls take with the fields of a message that have bytes, or are of a wire type that numbers have.
func fields(message []byte, take func(n protowire.Number, t protowire.Type, value []byte) error) error {
	for len(message) > 0 {
		n, t, size := protowire.ConsumeTag(message)
		if size < 0 {
			return errExample
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(n, t, message); size < 0 {
			return errExample
		}
		value := message[:size]
		if t == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message)
		}
		if err := take(n, t, value); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}

// parseExample reads Example{Features features = 1}, Features{map<string, Feature> feature = 1}.
func parseExample(data []byte) (example, error) {
	e := example{}
	err := fields(data, func(n protowire.Number, t protowire.Type, value []byte) error {
		if n == 2 && t == protowire.BytesType {
			return errors.New("it is a SequenceExample")
		}
		if n != 1 || t != protowire.BytesType {
			return nil
		}
		return fields(value, func(n protowire.Number, t protowire.Type, value []byte) error {
			if n != 1 || t != protowire.BytesType {
				return nil
			}
			return e.entry(value)
		})
	})
	return e, err
}

// entry reads an entry of the map: a name is 1, and a Feature 2. The last one of a name counts.
func (e example) entry(data []byte) error {
	name, feature := "", []byte{}
	err := fields(data, func(n protowire.Number, t protowire.Type, value []byte) error {
		switch {
		case t != protowire.BytesType:
		case n == 1:
			name = string(value)
		case n == 2:
			feature = append(feature, value...) // a message in parts is these together
		}
		return nil
	})
	if err != nil {
		return err
	}
	e[name], err = parseFeature(feature)
	return err
}

// parseFeature reads oneof {BytesList = 1, FloatList = 2, Int64List = 3}, each of which has repeated values = 1.
func parseFeature(data []byte) (f featureList, err error) {
	kinds := map[protowire.Number]pb.Kind{1: pb.Kind_BINARY, 2: pb.Kind_FLOAT32, 3: pb.Kind_INT64}
	err = fields(data, func(n protowire.Number, t protowire.Type, value []byte) error {
		if kinds[n] == pb.Kind_KIND_UNSPECIFIED || t != protowire.BytesType {
			return nil
		}
		if f.kind != kinds[n] {
			f = featureList{kind: kinds[n], values: []any{}}
		}
		return fields(value, func(n protowire.Number, t protowire.Type, value []byte) error {
			if n != 1 {
				return nil
			}
			return f.add(t, value)
		})
	})
	return f, err
}

// add adds values, of which numbers may lie packed together.
func (f *featureList) add(t protowire.Type, value []byte) error {
	switch {
	case f.kind == pb.Kind_BINARY && t == protowire.BytesType:
		f.values = append(f.values, textual(value))
	case f.kind == pb.Kind_FLOAT32 && (t == protowire.BytesType || t == protowire.Fixed32Type):
		if len(value)%4 != 0 {
			return errExample
		}
		for ; len(value) > 0; value = value[4:] {
			f.values = append(f.values, math.Float32frombits(binary.LittleEndian.Uint32(value)))
		}
	case f.kind == pb.Kind_INT64 && (t == protowire.BytesType || t == protowire.VarintType):
		for len(value) > 0 {
			x, size := protowire.ConsumeVarint(value)
			if size < 0 {
				return errExample
			}
			f.values, value = append(f.values, int64(x)), value[size:]
		}
	}
	return nil
}

// columnsOfExamples are those that records show: scalars if each record has one value.
func columnsOfExamples(records []record) (out []column) {
	seen := map[string]*column{}
	for _, r := range records {
		for name, f := range r.(example) {
			c := seen[name]
			if c == nil {
				c = &column{name: name, path: []string{name}, untyped: true, inferred: true}
				seen[name] = c
			}
			if f.kind == pb.Kind_KIND_UNSPECIFIED {
				continue
			}
			c.typ.List = c.typ.List || len(f.values) != 1
			if c.untyped {
				c.typ.Kind, c.untyped = f.kind, false
			} else if c.typ.Kind != f.kind {
				c.typ.Kind = pb.Kind_KIND_UNSPECIFIED
			}
		}
	}
	for _, c := range seen {
		if !c.supported() {
			c.typ = spec.Type{}
		}
		out = append(out, *c)
	}
	return out
}

func (e example) value(c column) (any, bool, error) {
	f, ok := e[c.name]
	if !ok || f.kind == pb.Kind_KIND_UNSPECIFIED {
		return nil, false, nil
	}
	if len(c.shape) > 0 && len(f.values) != size(c.shape) {
		return nil, false, fmt.Errorf("%d values, where %v are declared", len(f.values), c.shape)
	}
	if c.typ.List {
		if f.kind != c.typ.Kind && !slices.Contains(widens(f.kind), c.typ.Kind) { // also where there are no values
			return nil, false, fmt.Errorf("a list of %v, where %v is wanted", f.kind, c.typ)
		}
		return f.values, true, nil
	}
	if len(f.values) != 1 {
		return nil, false, fmt.Errorf("%d values, where one is wanted", len(f.values))
	}
	return f.values[0], true, nil
}

// widens are the kinds of columns that take values of a list's kind, beside that.
func widens(k pb.Kind) []pb.Kind {
	switch k {
	case pb.Kind_INT64:
		return []pb.Kind{pb.Kind_INT32}
	case pb.Kind_FLOAT32:
		return []pb.Kind{pb.Kind_FLOAT64}
	}
	return nil
}

package tfrecord

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
)

// What is read of protobuf's wire format. https://protobuf.dev/programming-guides/encoding
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

var (
	errProto    = errors.New("it is no tf.train.Example: its protobuf is damaged")
	errSequence = errors.New("it is a tf.train.SequenceExample, whose feature lists are not read: write Examples")
)

// field is one of a message, and what follows it.
type field struct {
	number uint64
	wire   uint64
	bytes  []byte // what it has; of wireVarint, the number's
	rest   []byte
}

// cutField reads the field that data begins with; false: it is none.
func cutField(data []byte) (f field, ok bool) {
	tag, n := varint(data)
	if n == 0 || tag>>3 == 0 {
		return f, false
	}
	data = data[n:]
	f.number, f.wire = tag>>3, tag&7
	size := uint64(0)
	switch f.wire {
	case wireVarint:
		_, n = varint(data)
		f.bytes, f.rest = data[:n], data[n:]
		return f, n > 0
	case wire64:
		size = 8
	case wire32:
		size = 4
	case wireBytes:
		if size, n = varint(data); n == 0 {
			return f, false
		}
		data = data[n:]
	default:
		return f, false
	}
	if size > uint64(len(data)) {
		return f, false
	}
	f.bytes, f.rest = data[:size], data[size:]
	return f, true
}

// varint reads a number, and how many bytes it has; 0: there is none.
func varint(data []byte) (x uint64, n int) {
	if len(data) > 0 && data[0] < 0x80 {
		return uint64(data[0]), 1
	}
	x, n = binary.Uvarint(data)
	return x, max(n, 0)
}

// Features are those of an Example. A name may come twice: then the last one counts.
type Features struct{ example, features []byte }

// NewFeatures returns the features of an Example, as its protobuf has them.
func NewFeatures(example []byte) Features { return Features{example: example} }

// Next returns the next feature; false: there is none.
func (f *Features) Next() (name, feature []byte, ok bool, err error) {
	for {
		for len(f.features) > 0 {
			entry, ok := cutField(f.features)
			if !ok {
				return nil, nil, false, errProto
			}
			f.features = entry.rest
			if entry.number == 1 && entry.wire == wireBytes {
				name, feature, ok = cutEntry(entry.bytes)
				if !ok {
					return nil, nil, false, errProto
				}
				return name, feature, true, nil
			}
		}
		if len(f.example) == 0 {
			return nil, nil, false, nil
		}
		of, ok := cutField(f.example)
		switch {
		case !ok:
			return nil, nil, false, errProto
		case of.number == 2 && of.wire == wireBytes:
			return nil, nil, false, errSequence
		case of.number == 1 && of.wire == wireBytes:
			f.features = of.bytes
		}
		f.example = of.rest
	}
}

// cutEntry reads an entry of the map of features.
func cutEntry(data []byte) (name, feature []byte, ok bool) {
	var all parts
	for len(data) > 0 {
		f, ok := cutField(data)
		if !ok {
			return nil, nil, false
		}
		data = f.rest
		switch {
		case f.wire != wireBytes:
		case f.number == 1:
			name = f.bytes
		case f.number == 2:
			all.add(f.bytes)
		}
	}
	return name, all.data, true
}

// parts are those of a message, which may come in several and is as good as one.
type parts struct {
	data  []byte
	owned bool
}

func (p *parts) add(more []byte) {
	switch {
	case len(more) == 0:
	case len(p.data) == 0:
		p.data, p.owned = more, false
	case !p.owned:
		p.data, p.owned = append(slices.Clip(p.data), more...), true
	default:
		p.data = append(p.data, more...)
	}
}

// List is what a feature has.
type List struct {
	// Kind is BINARY, FLOAT32 or INT64; KIND_UNSPECIFIED: the feature has nothing, as if it were not there.
	Kind pb.Kind
	data []byte
}

// ListOf reads a feature.
func ListOf(feature []byte) (List, error) {
	var l List
	var all parts
	for len(feature) > 0 {
		f, ok := cutField(feature)
		if !ok {
			return l, errProto
		}
		feature = f.rest
		if f.wire != wireBytes || f.number > 3 {
			continue
		}
		kind := [...]pb.Kind{1: pb.Kind_BINARY, 2: pb.Kind_FLOAT32, 3: pb.Kind_INT64}[f.number]
		if kind != l.Kind { // the last one counts
			l, all = List{Kind: kind}, parts{}
		}
		all.add(f.bytes)
	}
	l.data = all.data
	return l, nil
}

// Part are values of a list that lie together.
type Part struct {
	// Bytes is a byte string, or floats, little endian.
	Bytes []byte
	// Ints are numbers, as varints.
	Ints []byte
}

// Next takes the next values; false: there are none.
func (l *List) Next() (p Part, ok bool, err error) {
	for len(l.data) > 0 {
		f, ok := cutField(l.data)
		if !ok {
			return p, false, errProto
		}
		l.data = f.rest
		switch {
		case f.number != 1:
		case l.Kind == pb.Kind_BINARY && f.wire == wireBytes:
			return Part{Bytes: f.bytes}, true, nil
		case l.Kind == pb.Kind_FLOAT32 && (f.wire == wireBytes || f.wire == wire32):
			if len(f.bytes)%4 != 0 {
				return p, false, errProto
			}
			return Part{Bytes: f.bytes}, true, nil
		case l.Kind == pb.Kind_INT64 && (f.wire == wireBytes || f.wire == wireVarint):
			return Part{Ints: f.bytes}, true, nil
		}
	}
	return p, false, nil
}

// CutInt takes a number of those of a Part; false: they are damaged.
func CutInt(ints []byte) (x int64, rest []byte, ok bool) {
	n, size := varint(ints)
	return int64(n), ints[size:], size > 0
}

// Count is how many values a list has.
func (l List) Count() (n int, err error) {
	for {
		p, ok, err := l.Next()
		if err != nil || !ok {
			return n, err
		}
		switch l.Kind {
		case pb.Kind_BINARY:
			n++
		case pb.Kind_FLOAT32:
			n += len(p.Bytes) / 4
		default:
			for ints := p.Ints; len(ints) > 0; n++ {
				if _, ints, ok = CutInt(ints); !ok {
					return n, errProto
				}
			}
		}
	}
}

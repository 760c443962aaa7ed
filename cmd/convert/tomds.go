package convert

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/klauspost/compress/zstd"
)

// mdsEncoder writes shards of MDS, as mosaicml-streaming's MDSWriter does. A shard is in memory until it ends: where
// each sample begins stands in front of them.
type mdsEncoder struct {
	compression string // "" or zstd
	to          io.Writer
	columns     []mdsColumn
	config      []byte
	sizes       []int // of samples
	samples     bytes.Buffer
	bytes       int64 // of the shard that ended last
}

// mdsColumn is how a column is written.
type mdsColumn struct {
	encoding string
	size     int // of each value; 0: they differ
	// encode appends a value that is not null.
	encode func(to []byte, a arrow.Array, row int) ([]byte, error)
}

// mdsShard is what index.json says of a shard, and, without its files, what the shard itself says.
type mdsShard struct {
	Encodings   []string  `json:"column_encodings"`
	Names       []string  `json:"column_names"`
	Sizes       []*int    `json:"column_sizes"`
	Compression *string   `json:"compression"`
	Format      string    `json:"format"`
	Hashes      []string  `json:"hashes"`
	Raw         *mdsFile  `json:"raw_data,omitempty"`
	Samples     *int64    `json:"samples,omitempty"`
	SizeLimit   *int64    `json:"size_limit"`
	Version     int       `json:"version"`
	Zip         **mdsFile `json:"zip_data,omitempty"`
}

type mdsFile struct {
	Name   string            `json:"basename"`
	Bytes  int64             `json:"bytes"`
	Hashes map[string]string `json:"hashes"`
}

const (
	mdsEnd    = ".mds"
	zstdEnd   = ".zstd"
	mdsIndex  = "index.json"
	asZstd    = "zstd"
	mdsHeader = 8 // the number of samples, and the begin of the first one
)

// mdsColumns are how the columns of an output are written.
func mdsColumns(l *layout) ([]mdsColumn, error) {
	var columns []mdsColumn
	for _, c := range l.columns {
		of, err := mdsColumnOf(c.field.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.field.Name, err)
		}
		columns = append(columns, of)
	}
	if len(columns) == 0 {
		return nil, errors.New("MDS has no samples without columns")
	}
	return columns, nil
}

// mdsColumnOf chooses an encoding: numbers are numbers, their lists arrays, and what is nested otherwise is JSON.
func mdsColumnOf(t arrow.DataType) (mdsColumn, error) {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return mdsColumn{"uint8", 1, func(to []byte, a arrow.Array, row int) ([]byte, error) {
			return append(to, map[bool]byte{true: 1}[a.(*array.Boolean).Value(row)]), nil
		}}, nil
	case *arrow.StringType, *arrow.LargeStringType:
		return mdsColumn{encoding: "str", encode: appendWords}, nil
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		return mdsColumn{encoding: "bytes", encode: func(to []byte, a arrow.Array, row int) ([]byte, error) {
			return append(to, textOf(a.(array.BinaryLike), row)...), nil
		}}, nil
	case *arrow.FixedSizeBinaryType:
		return mdsColumn{encoding: "bytes", encode: func(to []byte, a arrow.Array, row int) ([]byte, error) {
			return append(to, a.(*array.FixedSizeBinary).Value(row)...), nil
		}}, nil
	case *arrow.Decimal128Type:
		return mdsColumn{encoding: "str_decimal", encode: appendWords}, nil
	case arrow.ListLikeType:
		if name, width := mdsNumber(t.Elem()); name != "" && t.ID() != arrow.MAP {
			return mdsColumn{encoding: "ndarray:" + name, encode: arrayEncoder(width)}, nil
		}
	}
	if name, width := mdsNumber(t); name != "" {
		if name == "int64" {
			name = "int" // which is Python's
		}
		return mdsColumn{name, width, func(to []byte, a arrow.Array, row int) ([]byte, error) {
			return append(to, fixed(a, width, row, 1)...), nil
		}}, nil
	}
	if _, nested := t.(arrow.NestedType); !nested {
		return mdsColumn{encoding: "str", encode: appendWords}, nil
	}
	return mdsColumn{encoding: "json", encode: func(to []byte, a arrow.Array, row int) ([]byte, error) {
		text, err := jsonOf(a, row)
		return append(to, text...), err
	}}, checkLines(t)
}

// mdsNumber is the name of numbers that MDS has, and how wide they are.
func mdsNumber(t arrow.DataType) (name string, width int) {
	if id := t.ID(); arrow.IsInteger(id) || id == arrow.FLOAT32 || id == arrow.FLOAT64 {
		return t.Name(), widthOf(t)
	}
	if t.ID() == arrow.FLOAT16 {
		return "float16", 2
	}
	return "", 0
}

func appendWords(to []byte, a arrow.Array, row int) ([]byte, error) {
	text, err := textInstead(a, row)
	return append(to, text...), err
}

// arrayEncoder writes a list of numbers as an array of one dimension, which says how long it is.
func arrayEncoder(width int) func(to []byte, a arrow.Array, row int) ([]byte, error) {
	return func(to []byte, a arrow.Array, row int) ([]byte, error) {
		values, from, n, err := numbersOf(a, row)
		if err != nil {
			return nil, err
		}
		switch {
		case n < 1<<8:
			to = append(to, 1<<2, byte(n))
		case n < 1<<16:
			to = binary.LittleEndian.AppendUint16(append(to, 1<<2|1), uint16(n))
		default:
			to = binary.LittleEndian.AppendUint32(append(to, 1<<2|2), uint32(n))
		}
		return append(to, fixed(values, width, from, n)...), nil
	}
}

// numbersOf are the numbers of a list, of which none may be null.
func numbersOf(a arrow.Array, row int) (values arrow.Array, from, n int, err error) {
	list := a.(array.ListLike)
	begin, end := list.ValueOffsets(row)
	values = list.ListValues()
	for i := begin; i < end; i++ {
		if values.IsNull(int(i)) {
			return nil, 0, 0, errors.New("its list has a null, which arrays have not: write Parquet")
		}
	}
	return values, int(begin), int(end - begin), nil
}

// mdsConfig is what each shard of an output says of its columns.
func mdsConfig(l *layout, compression string) (mdsShard, error) {
	columns, err := mdsColumns(l)
	s := mdsShard{Format: "mds", Version: 2, Hashes: []string{}}
	if compression != "" {
		s.Compression = &compression
	}
	for i, c := range columns {
		s.Names = append(s.Names, l.columns[i].field.Name)
		s.Encodings = append(s.Encodings, c.encoding)
		size := &c.size
		if c.size == 0 {
			size = nil
		}
		s.Sizes = append(s.Sizes, size)
	}
	return s, err
}

func (e *mdsEncoder) open() bool { return e.to != nil }

func (e *mdsEncoder) begin(to io.Writer, l *layout) (err error) {
	if e.columns, err = mdsColumns(l); err != nil {
		return err
	}
	config, err := mdsConfig(l, e.compression)
	if err == nil {
		e.config, err = json.Marshal(config)
	}
	if err != nil {
		return err
	}
	e.to, e.sizes = to, e.sizes[:0]
	e.samples.Reset()
	return nil
}

// size is how many bytes the shard has so far, or had when it ended, before it is compressed.
func (e *mdsEncoder) size() int64 {
	if !e.open() {
		return e.bytes
	}
	return mdsHeader + 4*int64(len(e.sizes)) + int64(len(e.config)+e.samples.Len())
}

func (e *mdsEncoder) rowGroup(l *layout, group []arrow.Record) error {
	if err := l.eachRow(group, e.sample); err != nil {
		return err
	}
	if e.size() > math.MaxUint32 {
		return errors.New("a shard of MDS has no more than 4 GiB: give --file-bytes, or less --file-rows")
	}
	return nil
}

// sample writes the sizes of the values whose sizes differ, and all values.
func (e *mdsEncoder) sample(rec arrow.Record, row int) error {
	var sizes, values []byte
	for i, c := range e.columns {
		a, before := rec.Column(i), len(values)
		var err error
		if isNone(a, row) {
			err = errors.New("it is null, which MDS has not: leave the column or the row out, or write Parquet")
		} else {
			values, err = c.encode(values, a, row)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", rec.ColumnName(i), err)
		}
		if c.size == 0 {
			sizes = binary.LittleEndian.AppendUint32(sizes, uint32(len(values)-before))
		}
	}
	e.sizes = append(e.sizes, len(sizes)+len(values))
	e.samples.Write(sizes)
	e.samples.Write(values)
	return nil
}

func (e *mdsEncoder) end() error {
	e.bytes = e.size()
	le := binary.LittleEndian
	header := le.AppendUint32(nil, uint32(len(e.sizes)))
	at := mdsHeader + 4*len(e.sizes) + len(e.config)
	header = le.AppendUint32(header, uint32(at))
	for _, n := range e.sizes {
		at += n
		header = le.AppendUint32(header, uint32(at))
	}
	header = append(header, e.config...)
	to := e.to
	e.to = nil
	if e.compression == "" {
		_, err := to.Write(header)
		if err == nil {
			_, err = to.Write(e.samples.Bytes())
		}
		return err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	_, err = to.Write(z.EncodeAll(append(header, e.samples.Bytes()...), nil)) // a frame that says its size
	return errors.Join(err, z.Close())
}

func (e *mdsEncoder) abandon() { e.to = nil }

// mdsIndexOf is index.json, without which mosaicml-streaming does not find shards.
func mdsIndexOf(o *Options, l *layout, files []finished) (*attached, error) {
	config, err := mdsConfig(l, o.zipped())
	if err != nil {
		return nil, err
	}
	if o.FileBytes > 0 {
		config.SizeLimit = &o.FileBytes
	}
	index := struct {
		Shards  []mdsShard `json:"shards"`
		Version int        `json:"version"`
	}{Version: 2}
	for _, f := range files {
		shard := config
		shard.Samples = &f.Rows
		var zip *mdsFile
		shard.Raw, shard.Zip = &mdsFile{f.Name, f.Bytes, map[string]string{}}, &zip
		if o.zipped() != "" {
			zip = &mdsFile{f.Name, f.Bytes, map[string]string{}}
			shard.Raw.Name, shard.Raw.Bytes = f.Name[:len(f.Name)-len(zstdEnd)], f.Raw
		}
		index.Shards = append(index.Shards, shard)
	}
	text, err := json.Marshal(index)
	return &attached{mdsIndex, text}, err
}

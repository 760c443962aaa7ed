// Package mds describes shards of Mosaic's MDS, the format of mosaicml-streaming, as they are or compressed by zstd or
// gzip. A shard says itself what it holds: how many samples, where each begins, and the names, encodings and sizes of
// its columns. So the dataset's index.json is not needed; package storage looks whether all shards are there
// that it names. The worker's half is worker/formats/mds.
//
// A sample has the sizes of those columns that have none that is fixed, and then the values of all columns:
// https://docs.mosaicml.com/projects/streaming/en/stable/preparing_datasets/dataset_format.html
package mds

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Kind is MDS.
type Kind struct{}

// Name is the format's.
func (Kind) Name() string { return "MDS" }

// Version is that of the rule by which samples are cut.
func (Kind) Version() uint32 { return 1 }

// Extensions are those of shards' names.
func (Kind) Extensions() []string { return []string{".mds"} }

// Options are none.
func (Kind) Options() []records.Option { return nil }

// Claims reports whether a front is that of a shard.
func (Kind) Claims(front []byte) bool {
	h, err := headerOf(front)
	return err == nil && h.check() == nil
}

// Open reads a shard's header.
func (Kind) Open(f *records.Front) (records.Opened, error) {
	h, err := headerOf(f.Data)
	if err != nil {
		return nil, err
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	if len(f.How.GetColumns()) > 0 {
		return nil, errors.New("dataset.format.columns: MDS has types of its own; leave columns out")
	}
	s := &Shard{samples: h.samples, begin: h.begin}
	if err := records.CheckColumns(len(h.config.Names)); err != nil {
		return nil, err
	}
	for i, name := range h.config.Names {
		c := Column{Name: name, Encoding: h.config.Encodings[i]}
		if size := h.config.Sizes[i]; size != nil && *size > 0 {
			c.Size = int(*size)
		} else {
			s.sizes++
		}
		if err := c.resolve(); err != nil {
			return nil, fmt.Errorf("header: column %s: %w", name, err)
		}
		s.Fields = append(s.Fields, c)
	}
	fields, more := s.look(f.Data)
	if more > 0 && !f.Whole {
		return nil, &records.FrontError{At: s.begin, Record: more}
	}
	columns := make([]spec.Column, len(s.Fields))
	for i := range s.Fields {
		columns[i] = s.Fields[i].column()
	}
	s.columns = format.NewColumns(s.withFields(columns, fields))
	return s, nil
}

const (
	// maxSamples bounds those of a shard, which cost four bytes each in its header.
	maxSamples = records.MaxHeader/4 - maxConfig
	// maxConfig bounds what a header says of columns.
	maxConfig = 4 << 20
)

// header is what stands in front of the samples.
type header struct {
	samples, begin int64
	config         struct {
		Version   int      `json:"version"`
		Format    string   `json:"format"`
		Names     []string `json:"column_names"`
		Encodings []string `json:"column_encodings"`
		Sizes     []*int64 `json:"column_sizes"`
	}
}

// headerOf reads the header: the number of samples, where each begins, and where the last one ends, as uint32, and the
// columns as JSON.
func headerOf(front []byte) (*header, error) {
	le := binary.LittleEndian
	if len(front) < 8 {
		return nil, errors.New("header: the file is cut off, or is no shard of MDS")
	}
	h := &header{samples: int64(le.Uint32(front)), begin: int64(le.Uint32(front[4:]))}
	table := 4 + 4*(h.samples+1)
	switch {
	case h.samples > maxSamples:
		return nil, fmt.Errorf("header: it claims %d samples; at most %d can be read: is it a shard of MDS?", h.samples,
			maxSamples)
	case h.begin <= table:
		return nil, errors.New("header: samples begin before it ends: the file is damaged, or is no shard of MDS")
	case h.begin > table+maxConfig:
		return nil, fmt.Errorf("header: what it says of columns has %d bytes; at most %d can be read: is it a "+
			"shard of MDS?", h.begin-table, maxConfig)
	case h.begin > int64(len(front)):
		return nil, &records.FrontError{At: h.begin}
	}
	if err := json.Unmarshal(front[table:h.begin], &h.config); err != nil {
		return nil, fmt.Errorf("header: its columns: %w: the file is damaged, or is no shard of MDS", err)
	}
	return h, nil
}

func (h *header) check() error {
	c := &h.config
	switch n := len(c.Names); {
	case c.Format != "mds":
		return fmt.Errorf("header: it is of the format %q, not of mds", c.Format)
	case c.Version != 2:
		return fmt.Errorf("header: it is of version %d of MDS; version 2 can be read", c.Version)
	case n == 0 || len(c.Encodings) != n || len(c.Sizes) != n:
		return fmt.Errorf("header: it has %d names, %d encodings and %d sizes of columns: the file is damaged",
			n, len(c.Encodings), len(c.Sizes))
	}
	for i, size := range c.Sizes {
		if size != nil && (*size < 0 || *size > 1<<31-1) {
			return fmt.Errorf("header: column %s has values of %d bytes: the file is damaged", c.Names[i], *size)
		}
	}
	return nil
}

// Shard is a shard whose header was read.
type Shard struct {
	Fields  []Column
	columns format.Columns
	samples int64
	begin   int64 // of the first sample
	sizes   int   // of a sample, that stand in front of its values
}

// Columns are the shard's.
func (s *Shard) Columns() []spec.Column { return s.columns.Schema.Columns }

// Find says how a source is read. Of JSON any sample may have a field that the front does not show.
func (s *Shard) Find(source *pb.Source) (format.Access, error) {
	name := spec.ColumnName(source.GetPath(), source.GetField())
	if field, _ := s.Document(name); field >= 0 && source.Key == nil {
		if source.GetMeaning() != "" {
			return 0, fmt.Errorf("column %s: JSON has no %s", name, source.GetMeaning())
		}
		return format.Plain, nil
	}
	how, _, err := s.columns.Find(source)
	return how, err
}

// Begin is where the first sample begins: behind the header.
func (s *Shard) Begin() int64 { return s.begin }

// Records is how many samples the header says that there are.
func (s *Shard) Records() int64 { return s.samples }

// Size is what it takes in memory.
func (s *Shard) Size() int64 {
	size := int64(256)
	for _, c := range s.Fields {
		size += 256 + int64(len(c.Name)+len(c.Encoding))
	}
	for _, c := range s.columns.Schema.Columns {
		size += 256 + int64(2*len(c.Name))
	}
	return size
}

// Cut measures a sample.
func (s *Shard) Cut(data []byte, _ int64, end bool) (n int, row bool, err error) {
	switch want := s.measure(data); {
	case len(data) < 4*s.sizes && !end:
		return 0, false, nil
	case want == 0:
		return 0, false, errors.New("a sample has no bytes: the file is damaged")
	case want <= int64(len(data)):
		return int(want), true, nil
	case want > 1<<31-1 || end:
		return 0, false, fmt.Errorf("a sample has %d bytes, more than there are: the file is damaged or cut off", want)
	}
	return 0, false, nil
}

// measure adds up a sample, or its sizes, if these are not there.
func (s *Shard) measure(data []byte) int64 {
	want, sizes := int64(4*s.sizes), data
	if want > int64(len(data)) {
		return want
	}
	for i := range s.Fields {
		if size := s.Fields[i].Size; size > 0 {
			want += int64(size)
			continue
		}
		want += int64(binary.LittleEndian.Uint32(sizes))
		sizes = sizes[4:]
	}
	return want
}

// Values calls take with the bytes of each column of a sample.
func (s *Shard) Values(sample []byte, take func(field int, value []byte) error) error {
	sizes, at := sample, 4*s.sizes
	for i := range s.Fields {
		size := s.Fields[i].Size
		if size == 0 {
			size = int(binary.LittleEndian.Uint32(sizes)) // Cut has added them up
			sizes = sizes[4:]
		}
		if err := take(i, sample[at:at+size]); err != nil {
			return fmt.Errorf("byte %d: column %s: %w", at, s.Fields[i].Name, err)
		}
		at += size
	}
	return nil
}

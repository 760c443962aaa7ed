package fitted

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// The columns, in order.
const (
	colOf = iota
	colStatistic
	colName
	colID
	colInt
	colFloat
	colText
	colBytes
	colCount
	columns
)

// Writer writes a file: Begin and Append for each statistic, and Close.
type Writer struct {
	out   *hashed
	file  *file.Writer
	meta  metadata
	entry *Entry
	rows  group
}

// hashed counts and hashes what is written.
type hashed struct {
	io.Writer
	hash hash.Hash
	n    int64
}

func (h *hashed) Write(p []byte) (int, error) {
	n, err := h.Writer.Write(p)
	h.hash.Write(p[:n])
	h.n += int64(n)
	return n, err
}

// group collects the rows of a row group, column by column.
type group struct {
	n      int
	texts  []byte // their memory
	name   textColumn
	id     intColumn
	int    intColumn
	float  floatColumn
	text   textColumn
	binary textColumn
	count  intColumn
}

// Optional columns: levels are 0 where a row has none.
type (
	textColumn struct {
		values []parquet.ByteArray
		levels []int16
	}
	intColumn struct {
		values []int64
		levels []int16
	}
	floatColumn struct {
		values []float64
		levels []int16
	}
)

func (c *textColumn) add(v []byte, ok bool) {
	if c.levels = append(c.levels, level(ok)); ok {
		c.values = append(c.values, parquet.ByteArray(v))
	}
}

func (c *intColumn) add(v int64, ok bool) {
	if c.levels = append(c.levels, level(ok)); ok {
		c.values = append(c.values, v)
	}
}

func (c *floatColumn) add(v float64, ok bool) {
	if c.levels = append(c.levels, level(ok)); ok {
		c.values = append(c.values, v)
	}
}

func level(ok bool) int16 {
	if ok {
		return 1
	}
	return 0
}

func (g *group) reset() {
	g.n, g.texts = 0, g.texts[:0]
	for _, c := range []*textColumn{&g.name, &g.text, &g.binary} {
		c.values, c.levels = c.values[:0], c.levels[:0]
	}
	for _, c := range []*intColumn{&g.id, &g.int, &g.count} {
		c.values, c.levels = c.values[:0], c.levels[:0]
	}
	g.float.values, g.float.levels = g.float.values[:0], g.float.levels[:0]
}

// NewWriter begins a file.
func NewWriter(w io.Writer, info Info) (*Writer, error) {
	root, err := fileSchema()
	if err != nil {
		return nil, fmt.Errorf("write fitted file: %w", err)
	}
	options := []parquet.WriterProperty{
		parquet.WithVersion(parquet.V2_LATEST), parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithCompression(compress.Codecs.Uncompressed), // so that no page is more than it seems
		parquet.WithDictionaryDefault(false), parquet.WithStats(false),
		parquet.WithStatsFor("of", true), parquet.WithStatsFor("statistic", true),
		parquet.WithCreatedBy("penstock fit"),
	}
	for _, name := range []string{"of", "statistic", "name", "count"} {
		options = append(options, parquet.WithDictionaryFor(name, true))
	}
	out := &hashed{Writer: w, hash: sha256.New()}
	return &Writer{
		out:  out,
		file: file.NewParquetWriter(out, root, file.WithWriterProps(parquet.NewWriterProperties(options...))),
		meta: metadata{Version: version, Info: info, Statistics: []Entry{}},
	}, nil
}

func fileSchema() (*schema.GroupNode, error) {
	var fields schema.FieldList
	var errs []error
	add := func(name string, r parquet.Repetition, logical schema.LogicalType, t parquet.Type) {
		n, err := schema.NewPrimitiveNodeLogical(name, r, logical, t, -1, -1)
		fields, errs = append(fields, n), append(errs, err)
	}
	text := schema.StringLogicalType{}
	optional, required := parquet.Repetitions.Optional, parquet.Repetitions.Required
	add("of", required, text, parquet.Types.ByteArray)
	add("statistic", required, text, parquet.Types.ByteArray)
	add("name", optional, text, parquet.Types.ByteArray)
	add("id", optional, schema.NoLogicalType{}, parquet.Types.Int64)
	add("int", optional, schema.NoLogicalType{}, parquet.Types.Int64)
	add("float", optional, schema.NoLogicalType{}, parquet.Types.Double)
	add("text", optional, text, parquet.Types.ByteArray)
	add("bytes", optional, schema.NoLogicalType{}, parquet.Types.ByteArray)
	add("count", optional, schema.NoLogicalType{}, parquet.Types.Int64)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return schema.NewGroupNode("fitted", required, fields, -1)
}

// Begin begins a statistic of a column of some kind. Its values are exact up to a relative error.
func (w *Writer) Begin(s Statistic, kind pb.Kind, relative float64) error {
	if err := w.endStatistic(); err != nil {
		return err
	}
	identity := s.String()
	for _, e := range w.meta.Statistics {
		if e.Identity == identity {
			return fmt.Errorf("write fitted file: %s comes twice", identity)
		}
	}
	w.meta.Statistics = append(w.meta.Statistics, Entry{
		Statistic: s, Identity: identity, Kind: spec.KindName(kind), Error: relative, Group: w.file.NumRowGroups(),
		Groups: []Group{},
	})
	w.entry = &w.meta.Statistics[len(w.meta.Statistics)-1]
	return nil
}

// Append adds a row to the statistic.
func (w *Writer) Append(r Row) error {
	if len(r.Value.Text) > MaxText {
		return fmt.Errorf("write fitted file: %s: a text has %d bytes; at most %d can be written: shorten it first",
			w.entry.Identity, len(r.Value.Text), MaxText)
	}
	g, v := &w.rows, r.Value
	g.n++
	from := len(g.texts)
	g.texts = append(g.texts, v.Text...) // what moves stays where it was, too
	text := g.texts[from:]
	valid := v.Kind == AText && utf8.Valid(v.Text)
	var name []byte
	if r.Name != "" {
		name = []byte(r.Name)
	}
	g.name.add(name, name != nil)
	g.id.add(r.ID, r.ID >= 0)
	g.int.add(v.Int, v.Kind == AnInt)
	g.float.add(v.Float, v.Kind == AFloat)
	g.text.add(text, valid)
	g.binary.add(text, v.Kind == AText && !valid)
	g.count.add(r.Count, r.Count >= 0)
	if g.n == groupRows || len(g.texts) >= groupTexts {
		return w.flush()
	}
	return nil
}

func (w *Writer) endStatistic() error {
	if w.entry == nil || w.rows.n == 0 {
		return nil
	}
	return w.flush()
}

// flush writes the row group.
func (w *Writer) flush() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("arrow's writer panicked: %v", r)
		}
		if err != nil {
			err = fmt.Errorf("write fitted file: %s: %w", w.entry.Identity, err)
		}
	}()
	w.out.hash.Reset()
	at := w.out.n
	rows := w.file.AppendRowGroup()
	for c := range columns {
		column, err := rows.NextColumn()
		if err != nil {
			return err
		}
		if err := w.writeColumn(c, column); err != nil {
			return err
		}
		if err := column.Close(); err != nil {
			return err
		}
	}
	if err := rows.Close(); err != nil {
		return err
	}
	w.entry.Rows += int64(w.rows.n)
	w.entry.Groups = append(w.entry.Groups, Group{
		Offset: at, Bytes: w.out.n - at, Rows: int64(w.rows.n), SHA256: hex.EncodeToString(w.out.hash.Sum(nil)),
	})
	w.rows.reset()
	return nil
}

func (w *Writer) writeColumn(c int, to file.ColumnChunkWriter) error {
	g := &w.rows
	texts := func(s textColumn) error {
		_, err := to.(*file.ByteArrayColumnChunkWriter).WriteBatch(s.values, s.levels, nil)
		return err
	}
	numbers := func(n intColumn) error {
		_, err := to.(*file.Int64ColumnChunkWriter).WriteBatch(n.values, n.levels, nil)
		return err
	}
	switch c {
	case colOf:
		return same(to, w.entry.Of, g.n)
	case colStatistic:
		return same(to, w.entry.Name, g.n)
	case colName:
		return texts(g.name)
	case colID:
		return numbers(g.id)
	case colInt:
		return numbers(g.int)
	case colFloat:
		_, err := to.(*file.Float64ColumnChunkWriter).WriteBatch(g.float.values, g.float.levels, nil)
		return err
	case colText:
		return texts(g.text)
	case colBytes:
		return texts(g.binary)
	}
	return numbers(g.count)
}

// same writes a text n times. Only the first goes through the dictionary.
func same(to file.ColumnChunkWriter, text string, n int) error {
	texts := to.(*file.ByteArrayColumnChunkWriter)
	if _, err := texts.WriteBatch([]parquet.ByteArray{[]byte(text)}, nil, nil); err != nil {
		return err
	}
	again := array.NewInt32Data(array.NewData(arrow.PrimitiveTypes.Int32, n-1,
		[]*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, arrow.Int32SizeBytes*(n-1)))}, nil, 0, 0))
	return to.WriteDictIndices(again, nil, nil)
}

// Close ends the file, but not what it is written to.
func (w *Writer) Close() error {
	if err := w.endStatistic(); err != nil {
		return err
	}
	text, err := json.Marshal(w.meta)
	if err == nil {
		err = w.file.AppendKeyValueMetadata(metadataKey, string(text))
	}
	if err == nil {
		err = w.file.Close()
	}
	if err != nil {
		return fmt.Errorf("write fitted file: %w", err)
	}
	return nil
}

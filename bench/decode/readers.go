package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/vector"
)

// fileBytes is a file in memory, with the columns of it that are to be read.
type fileBytes struct {
	path    string
	data    []byte
	footer  *footer.Footer
	columns []string // in the file's order, at the top level
	leaves  []int    // their leaf columns
	sources []*pb.Source
	left    []string // columns that the readers do not give as the same types
	limit   *limit
	// decoders are those of byColumns. They are kept, so that each round's state lies elsewhere: zstd's library takes twice as long with
	// one in twelve, whose state is on two pages of memory (bench/README.md).
	decoders []*columns.Decoder
}

// errIncomparable says that the readers have no column in common.
var errIncomparable = errors.New("no column that all readers give as the same type")

func open(in input) (*fileBytes, error) {
	data, err := os.ReadFile(in.path)
	if err != nil {
		return nil, err
	}
	f := &fileBytes{path: in.path, data: data}
	if f.footer, err = f.readFooter(); err != nil {
		return nil, err
	}
	r, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read its schema by pqarrow: %w", err)
	}
	schema, err := pqarrow.FromParquet(r.MetaData().Schema, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("read its schema by pqarrow: %w", err)
	}
	wanted := map[string]bool{}
	for _, name := range in.columns {
		wanted[name] = true
	}
	for _, field := range schema.Fields() {
		if len(wanted) == 0 || wanted[field.Name] {
			f.choose(field)
		}
	}
	if len(f.columns) == 0 {
		return nil, fmt.Errorf("%w; left out: %v", errIncomparable, f.left)
	}
	return f, nil
}

func (f *fileBytes) readFooter() (*footer.Footer, error) {
	n := len(f.data)
	if n < 12 {
		return nil, errors.New("too short for a Parquet file")
	}
	size := int(binary.LittleEndian.Uint32(f.data[n-8:]))
	if size > n-12 {
		return nil, fmt.Errorf("footer of %d bytes in a file of %d", size, n)
	}
	return footer.Read(f.data[n-8-size : n-8])
}

// choose takes a field if its values are the same bits for all readers.
func (f *fileBytes) choose(field arrow.Field) {
	i, ok := f.footer.Column(field.Name)
	if !ok || !comparable(field.Type) || f.footer.Schema.Columns[i].Unsupported != "" {
		f.left = append(f.left, field.Name)
		return
	}
	f.columns = append(f.columns, field.Name)
	from, to := f.footer.LeavesOf(i)
	for leaf := from; leaf < to; leaf++ {
		f.leaves = append(f.leaves, leaf)
	}
	names := []string{field.Name}
	if field.Type.ID() == arrow.MAP {
		names = []string{field.Name + ".key", field.Name + ".value"}
	}
	for _, name := range names {
		i, _ := f.footer.Column(name)
		c := &f.footer.Schema.Columns[i]
		f.sources = append(f.sources, &pb.Source{Name: name, Path: c.Path, Type: c.Type.Proto()})
	}
}

func comparable(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.MapType:
		return scalar(t.KeyType()) && scalar(t.ItemType())
	case *arrow.ListType:
		return scalar(t.Elem())
	}
	return scalar(t)
}

func scalar(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.STRING, arrow.BINARY:
		return true
	}
	return false
}

// bytes is how many bytes of the file the columns take.
func (f *fileBytes) bytes() (stored int64) {
	for _, g := range f.footer.RowGroups {
		for _, leaf := range f.leaves {
			stored += g.Chunks[leaf].Length
		}
	}
	return stored
}

// windowRows is about how many rows a worker decodes at a time.
func (f *fileBytes) windowRows(g *footer.RowGroup) int {
	const windowBytes = 4 << 20
	size := int64(1)
	for i := range f.sources {
		size += 4 * g.Chunks[f.leaves[i]].Values // at least; wider ones say more
		size += max(0, g.Chunks[f.leaves[i]].Uncompressed-4*g.Chunks[f.leaves[i]].Values)
	}
	return int(min(g.Rows, 65536, max(256, windowBytes/(size/max(g.Rows, 1)+1))))
}

// byColumns decodes by worker/columns, from the footer on. see, if it is not nil, is shown all vectors.
func (f *fileBytes) byColumns(see func(source string, v *vector.Vector) error) error {
	foot, err := f.readFooter()
	if err != nil {
		return err
	}
	d := columns.NewDecoder(f.sources, 1<<30)
	f.decoders = append(f.decoders, d)
	var chunks [][]byte
	for rg := range foot.RowGroups {
		ranges, err := d.Chunks(foot, rg)
		if err != nil {
			return err
		}
		chunks = chunks[:0]
		for _, r := range ranges {
			chunks = append(chunks, f.data[r.Offset:][:r.Length:r.Length])
		}
		if err := d.Reset(f.path, foot, rg, chunks); err != nil {
			return err
		}
		g := &foot.RowGroups[rg]
		window := f.windowRows(g)
		for left := int(g.Rows); left > 0; left -= window {
			vectors, err := d.Next(min(window, left))
			if err != nil {
				return err
			}
			for i := 0; i < len(vectors) && see != nil; i++ {
				if err := see(f.sources[i].GetName(), vectors[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// byArrow decodes by pqarrow, a row group at a time.
func (f *fileBytes) byArrow(ctx context.Context, see func(source string, a arrow.Array, field int) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pqarrow panicked: %v", p)
		}
	}()
	r, err := file.NewParquetReader(bytes.NewReader(f.data))
	if err != nil {
		return err
	}
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: groupRows}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	for rg := range r.NumRowGroups() {
		// Its ReadTable decodes in goroutines, whose panics nobody could catch.
		records, err := fr.GetRecordReader(ctx, f.leaves, []int{rg})
		if err != nil {
			return err
		}
		rows := int64(0)
		for records.Next() {
			rows += records.Record().NumRows()
			for i := 0; i < len(f.columns) && see != nil; i++ {
				if err := f.seeField(f.columns[i], records.Record().Column(i), see); err != nil {
					return err
				}
			}
		}
		if err := records.Err(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		records.Release()
		if want := f.footer.RowGroups[rg].Rows; rows != want {
			return fmt.Errorf("it gives %d rows of row group %d, which has %d, and no error", rows, rg, want)
		}
	}
	return nil
}

func (f *fileBytes) seeField(name string, a arrow.Array, see func(source string, a arrow.Array, field int) error) error {
	if _, ok := a.(*array.Map); !ok {
		return see(name, a, 0)
	}
	if err := see(name+".key", a, 0); err != nil {
		return err
	}
	return see(name+".value", a, 1)
}

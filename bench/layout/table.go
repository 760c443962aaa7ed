package main

import (
	"errors"
	"math/rand/v2"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// groupRows are the rows of a row group.
const groupRows = 4096

// write writes the table as an Arrow file, with a record for each row group. Values are random, so that they take as
// many bytes as they should: a column of few bytes is floats, some of them null, and one of many is lists of ids.
func (t *trace) write(path string, groups int) error {
	var fields []arrow.Field
	for i, name := range t.names {
		f := arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float32, Nullable: true}
		if t.bytes[i] > 4*groupRows {
			f.Type = arrow.ListOf(arrow.PrimitiveTypes.Int64)
		}
		fields = append(fields, f)
	}
	schema := arrow.NewSchema(fields, nil)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	random := rand.New(rand.NewPCG(7, 7))
	for range groups {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range fields {
			fill(b.Field(i), t.bytes[i], random)
		}
		rec := b.NewRecord()
		err := w.Write(rec)
		rec.Release()
		b.Release()
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Close(), f.Close())
}

// fill appends a row group of about so many bytes.
func fill(to array.Builder, bytes int64, random *rand.Rand) {
	each := float64(bytes) / groupRows // bytes of a row
	for range groupRows {
		switch b := to.(type) {
		case *array.Float32Builder:
			if 4*random.Float64() < each {
				b.Append(random.Float32())
			} else {
				b.AppendNull()
			}
		case *array.ListBuilder:
			b.Append(true)
			for n := each / 8; random.Float64() < n; n-- {
				b.ValueBuilder().(*array.Int64Builder).Append(random.Int64())
			}
		}
	}
}

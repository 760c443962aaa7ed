package parquet

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestInt96AsMicroseconds: tables, whose timestamps are microseconds, have files of Spark's, which are of 96 bits.
func TestInt96AsMicroseconds(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "t", Type: arrow.FixedWidthTypes.Timestamp_ns, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	var want []any
	for _, at := range []string{"1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "2026-02-03T04:05:06.789012Z"} {
		v, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			t.Fatal(err)
		}
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(v.UnixNano()))
		want = append(want, v.UnixMicro())
	}
	b.Field(0).AppendNull()
	want = append(want, nil)
	record := b.NewRecord()
	defer record.Release()
	var file bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &file, parquet.NewWriterProperties(),
		pqarrow.NewArrowWriterProperties(pqarrow.WithDeprecatedInt96Timestamps(true)))
	if err == nil {
		err = w.Write(record)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := readFooter(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	source := &pb.Source{
		Name: "t", Path: []string{"t"}, Type: &pb.Type{Kind: pb.Kind_INT64}, Meaning: "timestamp[us]",
	}
	got, err := decodeAll(NewDecoder([]*pb.Source{source}, testMemory), f, file.Bytes(), 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "t", got[0], want)
	source.Meaning = "timestamp[ms]"
	if _, err := f.Bind([]*pb.Source{source}); err == nil {
		t.Error("they are read as milliseconds")
	}
}

func TestInt96MicrosecondsOfAllYears(t *testing.T) {
	day := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	src := make([]byte, 12)
	src[8], src[9], src[10] = 0x2c, 0xfe, 0x51 // Julian day 5373484
	if got := int96Micros(src); got != day.UnixMicro() {
		t.Errorf("9999-12-31 is %s", time.UnixMicro(got).UTC())
	}
	if got := floorDiv(-1, 1000); got != -1 {
		t.Errorf("-1 of 1000 is %d", got)
	}
	if got := floorDiv(math.MaxInt64, 1000); got != math.MaxInt64/1000 {
		t.Errorf("the most is %d", got)
	}
}

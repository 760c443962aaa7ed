package csv_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// table is one of many records.
func table(records int) []byte {
	var out bytes.Buffer
	out.WriteString("id,price,count,name,note,flag\n")
	for i := range records {
		fmt.Fprintf(&out, "%d,%.4f,%d,\"a, b\",some words of text,%v\n", i, float64(i)/7, i%1000, i%3 == 0)
	}
	return out.Bytes()
}

const benchRecords = 10_000

// BenchmarkDecode decodes all columns.
func BenchmarkDecode(b *testing.B) {
	data := table(benchRecords)
	b.SetBytes(int64(len(data)))
	formattest.DecodeFile(b, formattest.File{Name: "x.csv", Data: data}, benchRecords)
}

// BenchmarkEncodingCSV cuts the same records into fields by the standard library, which makes no values of them.
func BenchmarkEncodingCSV(b *testing.B) {
	data := table(benchRecords)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		r := stdcsv.NewReader(bytes.NewReader(data))
		r.ReuseRecord = true
		for {
			if _, err := r.Read(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchRecords), "ns/row")
}

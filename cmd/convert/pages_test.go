package convert

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// Of a row group that is sorted by what a filter asks for, workers read a page or two, of other columns, too.
func TestPagesArePassedOver(t *testing.T) {
	var text strings.Builder
	text.WriteString("day,id\n")
	for i := range 60_000 {
		fmt.Fprintf(&text, "%d,%d\n", i/1000, i*7919*7919%1_000_003)
	}
	r := run(t, Options{Inputs: []string{write(t, "a.csv", text.String())}})
	data, err := os.ReadFile(r.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := footer.Read(data[len(data)-8-int(binary.LittleEndian.Uint32(data[len(data)-8:])) : len(data)-8])
	if err != nil {
		t.Fatal(err)
	}
	var sources []*pb.Source
	for _, name := range []string{"day", "id"} {
		sources = append(sources, &pb.Source{Name: name, Path: []string{name}, Type: &pb.Type{Kind: pb.Kind_INT64}})
	}
	bound, err := f.Bind(sources)
	if err != nil {
		t.Fatal(err)
	}
	expr, err := filter.Parse("day == 33")
	if err != nil {
		t.Fatal(err)
	}
	by := format.Filter{Expr: expr, Sources: []int{0}}
	var index [][]byte
	for _, r := range bound.Index(0, by) {
		index = append(index, data[r.Offset:r.Offset+r.Length])
	}
	selection, untrusted := bound.Select(0, by, 1000, 0, index)
	if selection == nil || untrusted.Count != 0 {
		t.Fatalf("selection %v, %d indexes that are not trusted", selection, untrusted.Count)
	}
	const id = 1
	read, all := int64(0), bound.Chunk(0, id).Length
	for _, r := range selection.Ranges(id) {
		read += r.Length
	}
	if read == 0 || read > all/2 {
		t.Errorf("%d bytes are read of %d", read, all)
	}
}

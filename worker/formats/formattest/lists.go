package formattest

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
)

// listed reads a file by lists of its records that say something else than it has: by each that is used it has its
// rows, or cannot be read.
func (f File) listed(t *testing.T, of format.File, sources []*pb.Source, want [][]any) {
	t.Helper()
	file, ok := of.(*records.File)
	if !ok || len(file.Lists(f.Name)) == 0 {
		return
	}
	small := *file
	small.Limits.Extent = 1 + int64(len(f.Data))/forgedExtents
	list := recordstest.TFRecordList
	if file.Format() != "TFRecord" {
		list = recordstest.TarList
	}
	st := &filetest.One{URI: "mem://" + f.Name, Data: f.Data}
	in := &format.Input{Storage: st, File: st.File(), How: f.How}
	rapid.Check(t, func(r *rapid.T) {
		changed := change(r, list(f.Data))
		x, err := index.Make(in, &small, func(found func(format.Place) error) error {
			return small.ScanList(t.Context(), in, changed, found)
		})
		if err != nil {
			return
		}
		at, err := x.Open(&small, index.For(in.File, &small, in.How))
		if err != nil {
			r.Fatalf("by\n%s\n%v", changed, err)
		}
		if got, err := whole(at, f.Data, sources); err == nil && !reflect.DeepEqual(got, want) {
			r.Fatalf("by\n%s\nrows are %v\nwant %v", changed, got, want)
		}
	})
}

// change draws a list of which a line is left out, joined to the next, divided, or has another number.
func change(t *rapid.T, list []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(list), []byte("\n"))
	i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
	fields := bytes.Fields(lines[i])
	switch rapid.SampledFrom([]string{"none", "drop", "join", "divide", "number"}).Draw(t, "change") {
	case "drop":
		lines = append(lines[:i:i], lines[i+1:]...)
	case "join":
		if i+1 < len(lines) {
			if len(fields) == 2 { // of TFRecord
				size := number(fields[1]) + number(bytes.Fields(lines[i+1])[1])
				lines[i] = fmt.Appendf(nil, "%s %d", fields[0], size)
			} else {
				lines[i] = bytes.Join([][]byte{lines[i], lines[i+1]}, []byte(" "))
			}
			lines = append(lines[:i+1:i+1], lines[i+2:]...)
		}
	case "divide":
		if at := 4 * rapid.IntRange(0, len(fields)/4).Draw(t, "member"); at > 0 && at < len(fields) {
			rest := bytes.Join(fields[at:], []byte(" "))
			lines[i] = bytes.Join(fields[:at], []byte(" "))
			lines = append(lines[:i+1:i+1], append([][]byte{rest}, lines[i+1:]...)...)
		}
	case "number":
		at := rapid.IntRange(0, len(fields)-1).Draw(t, "field")
		by := rapid.SampledFrom([]int64{-512, -1, 1, 512}).Draw(t, "by")
		fields[at] = strconv.AppendInt(nil, number(fields[at])+by, 10)
		lines[i] = bytes.Join(fields, []byte(" "))
	}
	if bytes.HasPrefix(lines[0], []byte("v1.2 ")) {
		lines[0] = strconv.AppendInt([]byte("v1.2 "), int64(len(lines)-1), 10)
	}
	return append(bytes.Join(lines, []byte("\n")), '\n')
}

func number(field []byte) int64 {
	n, _ := strconv.ParseInt(string(field), 10, 64)
	return n
}

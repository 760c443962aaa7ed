package formats_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// TestSmallFilesAreIndexedWithTheirFront: the index is that of a scan, and nothing is read for it. Files of which not
// all was read, or which may hold much, have none.
func TestSmallFilesAreIndexedWithTheirFront(t *testing.T) {
	lines := strings.Repeat("{\"a\": 1}\n", 1000)
	for name, tc := range map[string]struct {
		data  string
		how   *pb.Format
		small bool
	}{
		"lines":          {data: lines, small: true},
		"gzip":           {data: gzipped(t, lines), small: true},
		"long":           {data: strings.Repeat(lines, 1+format.Head/len(lines))},
		"it holds a lot": {data: gzipped(t, "{\"a\": \""+strings.Repeat("x", 63<<20)+"\"}\n")},
		"any ratio":      {data: gzipped(t, lines), how: anyRatio()},
	} {
		t.Run(name, func(t *testing.T) {
			st := &filetest.One{Data: []byte(tc.data)}
			f := &pb.File{Uri: "file:///a.jsonl", Size: int64(len(tc.data)), Etag: "1"}
			c := formats.NewCache(1 << 20).IndexSmall(1 << 20)
			described, err := c.Load(t.Context(), st, "", f, tc.how, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := c.Small("", f, tc.how)
			if (x != nil) != tc.small {
				t.Fatalf("it has an index: %v", x != nil)
			}
			if !tc.small {
				return
			}
			of, _ := described.(format.Scanned)
			want, err := formats.Scan(t.Context(), &format.Input{Storage: st, File: f}, of)
			if err != nil || !bytes.Equal(x.Bytes(), want.Bytes()) {
				t.Errorf("the index is not that of a scan, or there is none: %v", err)
			}
		})
	}
}

func anyRatio() *pb.Format {
	return &pb.Format{Options: map[string]*pb.Value{"max_ratio": {Kind: &pb.Value_Int{Int: 1 << 30}}}}
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

package offline

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
)

// reading counts the bytes that are read of a file.
type reading struct {
	*filetest.One
	bytes atomic.Int64
}

func (r *reading) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	r.bytes.Add(int64(len(buf)))
	return r.One.ReadAt(ctx, profile, f, buf, offset)
}

// TestShowScansOnce: the rows of a file that is scanned are shown without another scan.
func TestShowScansOnce(t *testing.T) {
	var lines bytes.Buffer
	for i := range 400_000 {
		fmt.Fprintf(&lines, `{"id": %d}`+"\n", i)
	}
	st := &reading{One: &filetest.One{URI: "mem://a.jsonl", Data: lines.Bytes()}}
	d := &shower{st: st, head: 3}
	s, err := d.show(t.Context(), "mem://a.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != 400_000 || len(s.Head) != 3 || s.Head[2][0].value != int64(2) {
		t.Errorf("%d rows, and first %v", s.Rows, s.Head)
	}
	if n := int64(lines.Len()); st.bytes.Load() > n+n/2 {
		t.Errorf("%d bytes were read of a file of %d", st.bytes.Load(), n)
	}
}

package tables

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// vocabulary writes a fitted file with the ids up to n, and returns its bytes and the table that they are.
func vocabulary(t *testing.T, n int64) ([]byte, *pb.Table) {
	t.Helper()
	var out bytes.Buffer
	w, err := fitted.NewWriter(&out, fitted.Info{})
	if err == nil {
		err = w.Begin(fitted.Statistic{Name: fitted.Vocabulary, Of: "user"}, pb.Kind_INT64, 0)
	}
	for id := int64(0); err == nil && id < n; id++ {
		err = w.Append(fitted.Row{ID: id, Value: fitted.Int(id + 1), Count: n - id})
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := fitted.OpenBytes("mem://fitted", out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) *pb.Source {
		return &pb.Source{Name: name, Path: []string{name}, Type: &pb.Type{Kind: pb.Kind_INT64}}
	}
	table := &pb.Table{
		Keys: 1, Columns: []*pb.Source{column("int"), column("id")}, Statistic: file.Entries[0].Identity,
	}
	for i, g := range file.Entries[0].Groups {
		sum, err := hex.DecodeString(g.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		table.Extents = append(table.Extents, uint32(i))
		table.Written = append(table.Written, &pb.Written{Offset: g.Offset, Length: g.Bytes, Sha256: sum})
	}
	return out.Bytes(), table
}

// TestWritten: a table is what was written as it, or is refused, whichever byte differs.
func TestWritten(t *testing.T) {
	r := newRig(t, 64<<20)
	data, table := vocabulary(t, 70_000)
	table.File = r.files.Put("mem://fitted", data)
	h := r.hold(t, table)
	row := make([]int32, 1)
	h.Find(row, []*vector.Vector{{Type: spec.Type{Kind: pb.Kind_INT64}, Rows: 1, I64: []int64{70_000}}})
	if row[0] == lookup.Absent {
		t.Error("the last id is absent")
	}
	h.Release()
	if len(table.GetWritten()) != 2 {
		t.Fatalf("it has %d row groups", len(table.GetWritten()))
	}
	second := table.GetWritten()[1]
	for _, at := range []int64{second.GetOffset(), second.GetOffset() + second.GetLength() - 1} {
		damaged := bytes.Clone(data)
		damaged[at] ^= 1
		table.File = r.files.Put("mem://fitted", damaged)
		_, err := r.Hold(t.Context(), "s", table)
		const want = "table mem://fitted: row group 1: its bytes differ from those that were written of " +
			"vocabulary(\"user\"); write the file again with `penstock fit`"
		if !errors.Is(err, ErrUnusable) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("with another byte %d: %v", at, err)
		}
	}
}

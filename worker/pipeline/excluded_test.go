package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/excluded/excludedtest"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// without is a ticket whose file's table has deleted rows, told in several ways: some rows by two of them.
func without(t *testing.T, rt *rapid.T, store *pipelinetest.Store, ticket *pb.Ticket, rows []int64) *pb.Ticket {
	out := proto.Clone(ticket).(*pb.Ticket)
	told := make([][]int64, 3)
	for _, row := range rows {
		i := rapid.IntRange(0, 2).Draw(rt, "by")
		told[i] = append(told[i], row)
		if j := rapid.IntRange(0, 8).Draw(rt, "and by"); j < 3 {
			told[j] = append(told[j], row)
		}
	}
	inline := excludedtest.Vector(t, told[0]...)
	out.File.Excluded = append(out.File.Excluded, &pb.Excluded{Content: inline, Form: pb.Excluded_DELTA_VECTOR})
	framed := excludedtest.Framed(excludedtest.Vector(t, told[1]...))
	vectors := store.Put("mem://vectors.bin", slices.Concat([]byte{1}, framed, []byte("others")))
	out.File.Excluded = append(out.File.Excluded, &pb.Excluded{
		Uri: vectors.Uri, Etag: vectors.Etag, Size: vectors.Size, Offset: 1, Length: int64(len(framed)),
		Form: pb.Excluded_ICEBERG_VECTOR,
	})
	spelled := "s3a://" + strings.TrimPrefix(ticket.File.Uri, "mem://")
	positions := []excludedtest.Position{{Path: "mem://other.parquet", Row: 0}}
	for _, row := range told[2] {
		positions = append(positions, excludedtest.Position{Path: spelled, Row: row})
	}
	file := store.Put("mem://deletes.parquet", excludedtest.Positions(t, 7, positions...))
	out.File.Excluded = append(out.File.Excluded, &pb.Excluded{
		Uri: file.Uri, Etag: file.Etag, Size: file.Size, Path: spelled, Form: pb.Excluded_ICEBERG_POSITIONS,
	})
	return out
}

// Rows that a table has deleted are as those that a filter does not choose: in streams from any cursor, and counts.
func TestExcludedRowsAreAsFiltered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(1, 90), 1, 4).Draw(rt, "row groups")
		var store pipelinetest.Store
		f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, rapid.Uint64().Draw(rt, "file"), groups...))
		ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 100).Draw(rt, "window"))
		ticket.Epoch = rapid.Uint32Range(0, 2).Draw(rt, "epoch")
		program := anyProgram(rt)
		rule := fmt.Sprintf("hash(row(), %d) %% 10 < %d", rapid.IntRange(0, 99).Draw(rt, "salt"),
			rapid.SampledFrom([]int{0, 1, 5, 9, 10}).Draw(rt, "tenths that stay"))
		filtered := proto.Clone(program).(*pb.Program)
		filtered.Filter = rule
		if program.Filter != "" {
			filtered.Filter += " and (" + program.Filter + ")"
		}
		chosen := pipelinetest.Program()
		chosen.Filter = rule
		stay, _, err := collect(t.Context(), newPipeline(&store, 2000), ticket, chosen, Cursor{})
		if err != nil {
			rt.Fatal(err)
		}
		var rows []int64
		for at := range int64(sum(groups)) {
			if !slices.ContainsFunc(stay, func(r row) bool { return r.source == at }) {
				rows = append(rows, at)
			}
		}
		less := without(t, rt, &store, ticket, rows)
		p := newPipeline(&store, rapid.Int64Range(1, 4000).Draw(rt, "batch"))
		for i := range 6 {
			at := Cursor{}
			if i > 0 {
				at.Window = rapid.Uint32Range(0, 20).Draw(rt, "at window")
			}
			want, _, err := collect(t.Context(), p, ticket, filtered, at)
			if err != nil {
				rt.Fatal(err)
			}
			if len(want) > 0 && rapid.Bool().Draw(rt, "within") {
				at.Window, at.K = want[0].window, uint64(rapid.IntRange(0, int(want[0].k)+1).Draw(rt, "at k"))
				if want, _, err = collect(t.Context(), p, ticket, filtered, at); err != nil {
					rt.Fatal(err)
				}
			}
			got, _, err := collect(t.Context(), p, less, program, at)
			if err != nil || !slices.Equal(got, want) {
				rt.Fatalf("from %v: %d rows, %v; want %d", at, len(got), err, len(want))
			}
		}
		got, err := p.Count(t.Context(), less, program)
		if err != nil {
			rt.Fatal(err)
		}
		want, err := p.Count(t.Context(), ticket, filtered)
		if err != nil || !proto.Equal(got, want) {
			rt.Fatalf("%v are counted, %v; want %v", got, err, want)
		}
		if used := p.MemoryInUse(); used != 0 {
			rt.Fatalf("%d bytes are in use", used)
		}
	})
}

func sum(all []int) (n int) {
	for _, i := range all {
		n += i
	}
	return n
}

// A row that is excluded is no fault, whatever is in it; and no row of a window that has none left is decoded.
func TestExcludedRowsHaveNoFaults(t *testing.T) {
	var store pipelinetest.Store
	data := pipelinetest.Texts(t, 1<<10, func(row int) string { return map[bool]string{true: "x", false: "7"}[row == 3] },
		10, 10)
	f := store.Put("mem://f.parquet", data)
	ticket := pipelinetest.Ticket(t, &store, f, 5)
	program := pipelinetest.Program()
	program.Sources = []*pb.Source{program.Sources[0], program.Sources[6]}
	number := step(program, "cast", map[string]*pb.Value{"to": {Kind: &pb.Value_Text{Text: "int64"}}}, 1)
	program.Outputs = []*pb.Output{
		{Name: "label", Layout: pb.Layout_LABEL, Slots: []uint32{number}, Type: &pb.Type{Kind: pb.Kind_INT64}},
	}
	p := newPipeline(&store, 500)
	if rows, _, err := collect(t.Context(), p, ticket, program, Cursor{}); err == nil {
		t.Fatalf("%d rows, and none fails", len(rows))
	}
	ticket.File.Excluded = []*pb.Excluded{
		{Content: excludedtest.Vector(t, 3, 5, 6, 7, 8, 9), Form: pb.Excluded_DELTA_VECTOR, Rows: 6},
	}
	rows, _, err := collect(t.Context(), p, ticket, program, Cursor{})
	if err != nil || len(rows) != 14 || rows[3].source != 4 || rows[4].source != 10 {
		t.Errorf("%v, %v", rows, err)
	}
}

// What tells of deleted rows may be gone, changed or false.
func TestExcludedRowsThatCannotBeHad(t *testing.T) {
	var store pipelinetest.Store
	f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 50, 50))
	framed := excludedtest.Framed(excludedtest.Vector(t, 1, 99))
	damaged := slices.Clone(framed)
	damaged[20]++
	files := 0
	vector := func(data []byte) *pb.Excluded {
		files++
		v := store.Put(fmt.Sprintf("mem://%d.bin", files), data)
		return &pb.Excluded{Uri: v.Uri, Etag: v.Etag, Size: v.Size, Form: pb.Excluded_DELTA_VECTOR}
	}
	positions := func(data []byte) *pb.Excluded {
		e := vector(data)
		e.Form = pb.Excluded_ICEBERG_POSITIONS
		return e
	}
	gone := vector(framed)
	gone.Uri, gone.Etag = "mem://gone.bin", ""
	counted := vector(framed)
	counted.Rows = 3
	outside := vector(framed)
	outside.Offset, outside.Length = 10, 1<<40
	unknown := vector(framed)
	unknown.Form = 77
	for want, e := range map[string]*pb.Excluded{
		"vacuumed":                       gone,
		"2 rows, and the table says 3":   counted,
		"checksum":                       vector(damaged),
		"row 100, and the file has 100":  vector(excludedtest.Framed(excludedtest.Vector(t, 1, 100))),
		"bytes, and the table says that": outside,
		"not known to this version":      unknown,
		"cut short":                      vector(framed[:5]),
		"row 200, and the file has 100":  positions(excludedtest.Positions(t, 7, excludedtest.Position{Path: f.Uri, Row: 200})),
		"the position is -1":             positions(excludedtest.Positions(t, 7, excludedtest.Position{Path: f.Uri, Row: -1})),
		"no column file_path":            positions(pipelinetest.Parquet(t, 1, 5)),
		"no deletion vector": {
			Content: []byte("not a vector, but a text"), Form: pb.Excluded_DELTA_VECTOR,
		},
	} {
		ticket := pipelinetest.Ticket(t, &store, f, 10)
		ticket.File = proto.Clone(f).(*pb.File)
		ticket.File.Excluded = []*pb.Excluded{e}
		p := newPipeline(&store, 500)
		_, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.Uri) ||
			!strings.Contains(err.Error(), e.GetUri()) {
			t.Errorf("%q: got %v", want, err)
		}
		if used := p.MemoryInUse(); used != 0 {
			t.Errorf("%s: %d bytes are in use", want, used)
		}
	}
}

// A stream that has no memory for excluded rows waits, and many streams of a file read them once.
func TestExcludedRowsAreReadOnce(t *testing.T) {
	var store pipelinetest.Store
	f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 50, 50))
	v := store.Put("mem://v.bin", excludedtest.Framed(excludedtest.Vector(t, 1, 99)))
	ticket := pipelinetest.Ticket(t, &store, f, 10)
	ticket.File.Excluded = []*pb.Excluded{{Uri: v.Uri, Etag: v.Etag, Size: v.Size, Form: pb.Excluded_DELTA_VECTOR}}
	reads, broken := 0, true
	store.Hook = func(_ context.Context, f *pb.File, _, _ int64) error {
		if f.GetUri() != v.Uri {
			return nil
		}
		if reads++; broken {
			return fmt.Errorf("%w: for the moment", fs.ErrPermission)
		}
		return nil
	}
	p := newPipeline(&store, 500)
	if _, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{}); !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
	broken = false
	for range 3 {
		if rows, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{}); err != nil || len(rows) != 98 {
			t.Fatal(len(rows), err)
		}
	}
	if reads != 2 {
		t.Errorf("%d reads", reads)
	}
	if p.excluded.Size() == 0 {
		t.Error("nothing is kept")
	}
	p.excluded.Shrink(1 << 20)
	if rows, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{}); err != nil || len(rows) != 98 ||
		reads != 3 {
		t.Error(len(rows), err, reads)
	}
}

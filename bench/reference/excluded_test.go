package reference

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/worker/excluded"
	"github.com/penstock-ml/penstock/worker/excluded/excludedtest"
)

// anyRoom is as much memory as is asked for.
type anyRoom struct{}

func (anyRoom) Take(int64) error { return nil }
func (anyRoom) Give(int64)       {}

// TestExcludedDifferential tells of random rows in each way, in arrays, bitmaps and runs: the worker and the interpreter
// leave the same ones out.
func TestExcludedDifferential(t *testing.T) {
	const rows = 200_000
	rapid.Check(t, func(r *rapid.T) {
		store := memoryStore{}
		f := &pb.File{Uri: "mem://f.parquet"}
		for i := range rapid.IntRange(1, 3).Draw(r, "files") {
			gone := drawRows(r, rows)
			e := &pb.Excluded{
				Uri: fmt.Sprintf("mem://%d", i), Form: pb.Excluded_DELTA_VECTOR, Rows: int64(len(gone)),
			}
			write := excludedtest.Vector
			if once(r, 2) {
				write = excludedtest.Runs
			}
			switch rapid.IntRange(0, 2).Draw(r, "way") {
			case 0:
				e.Uri, e.Content = "", write(t, gone...)
			case 1:
				data := excludedtest.Framed(write(t, gone...))
				e.Offset, e.Length = 3, int64(len(data))
				store[e.Uri] = slices.Concat([]byte("abc"), data, []byte("others"))
			default:
				e.Form, e.Path = pb.Excluded_ICEBERG_POSITIONS, "as spelled"
				var all []excludedtest.Position
				for j, row := range gone {
					all = append(all, excludedtest.Position{Path: e.Path, Row: row})
					if j%5 == 0 {
						all = append(all, excludedtest.Position{Path: "other", Row: row + 1})
					}
				}
				store[e.Uri] = excludedtest.Positions(t, 10_000, all...)
			}
			e.Size = int64(len(store[e.Uri]))
			f.Excluded = append(f.Excluded, e)
		}
		want, err := (&Interpreter{store: store, spec: &pb.Spec{}}).excluded(t.Context(), f)
		if err != nil {
			r.Fatal(err)
		}
		set, err := excluded.New(formats.NewCache(1<<20), 1<<20).Of(t.Context(), store, "", f, rows, anyRoom{})
		if err != nil {
			r.Fatal(err)
		}
		left := make([]uint64, (rows+63)/64)
		if n := set.Choose(left, 0, rows); n != rows-len(want) || set.Len() != int64(len(want)) {
			r.Fatalf("%d rows are left and %d excluded, want %d", n, set.Len(), rows-len(want))
		}
		for row := range want {
			if left[row/64]>>(row%64)&1 == 1 {
				r.Fatalf("row %d is left", row)
			}
		}
	})
}

// drawRows draws rows: few, runs, and many.
func drawRows(r *rapid.T, rows int64) (out []int64) {
	for at := int64(0); at < rows; {
		gap := oneOf(r, int64(1), 3, 1000, 70_000)
		n := oneOf(r, int64(1), 10, 6_000)
		step := oneOf(r, int64(1), 2, 11)
		for at += gap; n > 0 && at < rows; n, at = n-1, at+step {
			out = append(out, at)
		}
		if once(r, 4) {
			return out
		}
	}
	return out
}

// ofTable is a store whose files are those of a table.
type ofTable struct {
	memoryStore
	tell func(f *pb.File)
}

func (s ofTable) List(ctx context.Context, profile string, uris []string) ([]*pb.File, error) {
	files, err := s.memoryStore.List(ctx, profile, uris)
	for _, f := range files {
		s.tell(f)
	}
	return files, err
}

// TestFilesOfTables: rows that are excluded are none, and constants have their values in all others.
func TestFilesOfTables(t *testing.T) {
	store := ofTable{
		memoryStore{"mem://day=x/a": parquetOf(t, `[{"i": 1}, {"i": 2}, {"i": 3}]`, field("i", arrow.PrimitiveTypes.Int64))},
		func(f *pb.File) {
			f.OfTable = true
			f.Constants = []*pb.Constant{
				{Name: "day", Value: &pb.Value{Kind: &pb.Value_Int{Int: 7}}},
				{Name: "on", Value: &pb.Value{Kind: &pb.Value_Bool{Bool: true}}},
			}
			f.Excluded = []*pb.Excluded{{Content: excludedtest.Vector(t, 1)}}
		},
	}
	in, err := New(t.Context(), &pb.Spec{
		Dataset:  &pb.Dataset{Uri: []string{"mem://"}},
		Filter:   "on == true",
		Features: []*pb.Feature{feature(pb.Layout_LABEL, "i"), feature(pb.Layout_LABEL, "day")},
	}, store)
	if err != nil {
		t.Fatal(err)
	}
	e, err := in.Expected(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := func(i int64) uint64 {
		return rowHash(in.Fields(), func(h *Hasher) {
			for _, f := range in.Fields() {
				h.Int(map[string]int64{"i": i, "day": 7}[f.Name])
			}
		})
	}
	got := e.files[0]
	if !slices.Equal(got.rows, []int64{0, 2}) || !slices.Equal(got.hashes, []uint64{want(1), want(3)}) {
		t.Errorf("rows %v have %v", got.rows, got.hashes)
	}
}

package features_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
)

// tight reads no gaps, and in one request what touches.
var tight = storage.Reading{MaxGap: -1, Part: 1 << 40}

// columnsOf are n columns of so many bytes in each of two row groups.
func columnsOf(n int, bytes int64) *pb.FileColumns {
	out := &pb.FileColumns{Extents: 2}
	for i := range n {
		out.Columns = append(out.Columns, &pb.FileColumn{Name: fmt.Sprint("c", i), Bytes: 2 * bytes})
	}
	return out
}

// Columns that are read together are read in one request once they lie next to each other, and never cost more bytes.
func TestOrder(t *testing.T) {
	const n, size = 12, 1 << 20
	r := features.Load(nil)
	r.Add(features.Of(features.Note{UnixMs: 1, Columns: columnsOf(n, size)}))
	for job, rows := range map[int]int64{0: 10, 1: 30, 2: 20} { // jobs read columns that lie three apart
		note := features.Note{UnixMs: 2, Rows: rows}
		for c := job; c < n-3; c += 3 {
			note.Features = append(note.Features, fmt.Sprintf("c%d.key", c))
		}
		r.Add(features.Of(note))
	}
	l := features.LayoutOf(r.Proto())
	if before, want := l.Cost(nil, tight), (features.Cost{Wanted: 3 * size, Bytes: 3 * size, Requests: 3}); before != want {
		t.Errorf("as it is: %+v, want %+v", before, want)
	}
	order := l.Order()
	if want := []int{1, 4, 7, 2, 5, 8, 0, 3, 6, 9, 10, 11}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if after, want := l.Cost(order, tight), (features.Cost{Wanted: 3 * size, Bytes: 3 * size, Requests: 1}); after != want {
		t.Errorf("ordered: %+v, want %+v", after, want)
	}
	// what workers do: gaps of 256 KiB are read along
	if wide := l.Cost(nil, storage.Reading{MaxGap: 2 * size}); wide.Bytes <= wide.Wanted || wide.Requests >= 3 {
		t.Errorf("with wide gaps: %+v", wide)
	}
	if features.LayoutOf(&pb.DatasetReads{Columns: columnsOf(2, 1)}).Known() {
		t.Error("it foretells without having seen anything read")
	}
}

// An order has all columns, and costs no less than what is wanted.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "columns")
		r := features.Load(nil)
		for range rapid.IntRange(0, 8).Draw(t, "sets") {
			note := features.Note{Rows: rapid.Int64Range(0, 9).Draw(t, "rows"), Columns: columnsOf(n, 100)}
			for _, c := range rapid.SliceOfDistinct(rapid.IntRange(0, n+3), rapid.ID[int]).Draw(t, "set") {
				note.Features = append(note.Features, fmt.Sprint("c", c)) // some are in no file
			}
			r.Add(features.Of(note))
		}
		l := features.LayoutOf(r.Proto())
		order := l.Order()
		cost := l.Cost(order, storage.Reading{MaxGap: 150})
		if before := l.Cost(nil, tight); before.Wanted != cost.Wanted || cost.Bytes < cost.Wanted ||
			cost.Bytes > 2*cost.Wanted {
			t.Fatalf("%+v before, %+v behind", before, cost)
		}
		slices.Sort(order)
		for i, c := range order {
			if i != c {
				t.Fatalf("the order has not each column once: %v", order)
			}
		}
	})
}

// What most rows are read of stays together, however many sets say otherwise.
func TestOrderByRows(t *testing.T) {
	r := features.Load(nil)
	for _, set := range []struct {
		rows     int64
		features []string
	}{{100, []string{"c0", "c3"}}, {1, []string{"c0", "c1"}}, {1, []string{"c0", "c1", "c2"}}, {1, []string{"c0", "c1", "c4"}}} {
		r.Add(features.Of(features.Note{Features: set.features, Rows: set.rows, Columns: columnsOf(5, 1), UnixMs: 1}))
	}
	if order := features.LayoutOf(r.Proto()).Order(); !slices.Contains(order[:2], 0) || !slices.Contains(order[:2], 3) {
		t.Errorf("order %v", order)
	}
}

// What is read most need not lie at an end: what is read with it lies on either side.
func TestOrderTurns(t *testing.T) {
	r := features.Load(nil)
	for _, set := range [][]string{{"c0", "c1"}, {"c0", "c1", "c2"}, {"c2", "c3", "c4"}} {
		r.Add(features.Of(features.Note{Features: set, Rows: 10, Columns: columnsOf(6, 1000), UnixMs: 1}))
	}
	l := features.LayoutOf(r.Proto())
	if cost := l.Cost(l.Order(), tight); cost.Requests != 1 {
		t.Errorf("order %v: %+v", l.Order(), cost)
	}
}

package fit

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fitted"
)

// TestUnsigned: ids are in the order of uint64s where they are as frequent, and numbers are the same int64s as without.
func TestUnsigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Uint64(), 1, 50).Draw(t, "ids")
		quantiles := fitted.Statistic{Name: fitted.Quantiles, Parts: 7}
		all := []fitted.Statistic{quantiles, {Name: fitted.Moments}, {Name: fitted.Vocabulary}, {Name: fitted.MostFrequent}}
		columns := []Column{
			{Name: "ids", Kind: pb.Kind_INT64, Unsigned: true, Statistics: all},
			{Name: "numbers", Kind: pb.Kind_INT64, Statistics: all[:2]},
		}
		f, err := Open(columns, Options{})
		if err != nil {
			t.Fatal(err)
		}
		v := Values{}
		counts := map[uint64]int64{}
		for _, id := range ids {
			v.Int64s = append(v.Int64s, int64(id))
			counts[id]++
		}
		if err := f.Add([][]Values{{v}, {v}}, nil); err != nil {
			t.Fatal(err)
		}
		rows := rowsOf(t, f)
		if !reflect.DeepEqual(rows[0], rows[4]) || !reflect.DeepEqual(rows[1], rows[5]) {
			t.Errorf("quantiles and moments are\n%v\n%v, want\n%v", rows[0], rows[1], rows[4:])
		}
		want := slices.SortedFunc(maps.Keys(counts), func(a, b uint64) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		})
		for i, id := range want {
			if r := rows[2][i]; uint64(r.Value.Int) != id || r.Count != counts[id] {
				t.Errorf("place %d has %d, %d times; want %d", i, uint64(r.Value.Int), r.Count, id)
			}
		}
		if got := uint64(rows[3][0].Value.Int); got != want[0] {
			t.Errorf("the most frequent is %d, want %d", got, want[0])
		}
	})
}

// rowsOf are the rows of each statistic.
func rowsOf(t *rapid.T, f *Fit) (all [][]fitted.Row) {
	var out bytes.Buffer
	w, err := fitted.NewWriter(&out, fitted.Info{})
	if err == nil {
		err = errors.Join(f.Write(t.Context(), w), w.Close(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := fitted.OpenBytes("f", out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Entries {
		rows, err := file.Rows(t.Context(), &file.Entries[i], 1000)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows)
	}
	return all
}

package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An epoch's rows are in exactly one lane each, in order; and lanes are even, as far as whole shards let them be.
func TestLanesAreAPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint64Range(0, 20), 0, 12), 1, 5).Draw(t, "blocks")
		lanes := make([]uint64, rapid.IntRange(1, 9).Draw(t, "lanes"))
		total, largest := uint64(0), uint64(0)
		for i, shards := range blocks {
			last := i == len(blocks)-1
			pieces, after := Lanes(shards, lanes, last)
			at := slices.Clone(lanes)
			rows := make([]uint64, len(shards))
			for j, p := range pieces {
				switch {
				case p.Rows == 0 || p.From != rows[p.Shard] || p.First != at[p.Lane]:
					t.Fatalf("piece %+v; its shard is at row %d, its lane at %d", p, rows[p.Shard], at[p.Lane])
				case !last && p.Rows != shards[p.Shard]:
					t.Fatalf("piece %+v is not the whole shard, of %d rows", p, shards[p.Shard])
				case j > 0 && pieces[j-1].Shard > p.Shard:
					t.Fatalf("piece %+v stands after %+v", p, pieces[j-1])
				}
				rows[p.Shard] += p.Rows
				at[p.Lane] += p.Rows
			}
			if !slices.Equal(rows, shards) || !slices.Equal(at, after) {
				t.Fatalf("shards of %d rows make pieces of %d; lanes %d end at %d, not %d",
					shards, rows, lanes, at, after)
			}
			for _, n := range shards {
				total += n
				largest = max(largest, n)
			}
			if spread := slices.Max(after) - slices.Min(after); spread > largest {
				t.Fatalf("lanes %d, with shards of at most %d rows", after, largest)
			}
			if last && slices.Max(lanes) <= total/uint64(len(lanes)) {
				for lane, n := range after {
					want := total / uint64(len(lanes))
					if uint64(lane) < total%uint64(len(lanes)) {
						want++
					}
					if n != want {
						t.Fatalf("lanes %d; the share of lane %d is %d", after, lane, want)
					}
				}
			}
			if last { // no row could make them more even
				for lane, n := range after {
					if n > lanes[lane] && n > slices.Min(after)+1 {
						t.Fatalf("lanes %d of %d: lane %d got a row that another lacks", after, lanes, lane)
					}
				}
			}
			lanes = after
		}
	})
}

func TestLanes(t *testing.T) {
	for _, tc := range []struct {
		shards, before []uint64
		last           bool
		want           []Piece
	}{
		{[]uint64{4, 0, 3, 2}, []uint64{5, 0, 0}, false, []Piece{{0, 0, 4, 1, 0}, {2, 0, 3, 2, 0}, {3, 0, 2, 2, 3}}},
		{[]uint64{4, 3}, []uint64{0, 0}, true, []Piece{{0, 0, 4, 0, 0}, {1, 0, 3, 1, 0}}},
		{[]uint64{7}, []uint64{0, 0}, true, []Piece{{0, 0, 4, 0, 0}, {0, 4, 3, 1, 0}}},
		{[]uint64{4}, []uint64{10, 0, 0}, true, []Piece{{0, 0, 2, 1, 0}, {0, 2, 2, 2, 0}}},
	} {
		if got, _ := Lanes(tc.shards, tc.before, tc.last); !slices.Equal(got, tc.want) {
			t.Errorf("shards %d, lanes at %d: got %+v, want %+v", tc.shards, tc.before, got, tc.want)
		}
	}
}

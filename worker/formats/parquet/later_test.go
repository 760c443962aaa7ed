package parquet

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestRest: whatever sources come first, and whichever windows Rest is asked for, rows are those of decoding
// everything.
func TestRest(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7))
		data := writeTable(t, randomTable(seed, testSchema(), 900), 500, parquet.WithDataPageSize(300),
			parquet.WithBatchSize(64),
			parquet.WithDataPageVersion([]parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2}[seed%2]),
			parquet.WithStats(false))
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		checkRest(t, r, f, data, withOwn(f))
	}
}

// TestRestOfMaps does so with keys of maps, beside all their keys and values.
func TestRestOfMaps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	for _, of := range mapTypes() {
		data := mapsOf(t, of)
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			checkRest(t, r, f, data, append(sourcesOf(f), mapSources(3, of)...))
		}
	}
}

func checkRest(t *testing.T, r *rand.Rand, f *footer.Footer, data []byte, sources []*pb.Source) {
	t.Helper()
	d := NewDecoder(sources, testMemory)
	first := map[int]bool{}
	var list []int
	for i := range sources {
		if r.IntN(3) == 0 {
			first[i], list = true, append(list, i)
		}
	}
	d.DecodeFirst(list)
	all := NewDecoder(sources, testMemory)
	for rg := range f.RowGroups {
		resetBoth(t, f, rg, data, d, all)
		rows := int(f.RowGroups[rg].Rows)
		for left := rows; left > 0 && rows-left < 1000; {
			n := 1 + r.IntN(min(left, 120))
			left -= n
			got, want := nextOfBoth(t, r, n, d, all)
			if got == nil {
				continue
			}
			for i := range got {
				if (got[i] == nil) == first[i] {
					t.Fatalf("source %d of %v: %v", i, list, got[i])
				}
			}
			if r.IntN(2) == 0 {
				var err error
				if got, err = d.Rest(); err != nil {
					t.Fatal(err)
				}
			}
			for i := range got {
				if got[i] != nil && !reflect.DeepEqual(rowtest.Of(got[i]), rowtest.Of(want[i])) {
					t.Fatalf("row group %d, %d rows left, first %v: source %s differs", rg, left, list, sources[i].GetName())
				}
			}
		}
	}
}

// nextOfBoth returns the next rows of both decoders, or now and then skips them and returns nothing.
func nextOfBoth(t *testing.T, r *rand.Rand, n int, d, all *Decoder) (got, want []*vector.Vector) {
	t.Helper()
	if r.IntN(5) == 0 {
		if err := errors.Join(d.Skip(n), all.Skip(n)); err != nil {
			t.Fatal(err)
		}
		return nil, nil
	}
	got, err := d.Next(n)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = all.Next(n); err != nil {
		t.Fatal(err)
	}
	return got, want
}

func resetBoth(t *testing.T, f *footer.Footer, rg int, data []byte, decoders ...*Decoder) {
	t.Helper()
	for _, d := range decoders {
		chunks, err := chunksOf(d, f, rg, data)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.reset("test.parquet", f, rg, chunks); err != nil {
			t.Fatal(err)
		}
	}
}

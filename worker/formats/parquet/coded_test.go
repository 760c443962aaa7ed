package parquet

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"

	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
	"github.com/penstock-ml/penstock/worker/vector"
)

// showCodes has all sources come first and as codes, where they can.
func showCodes(d *Decoder) {
	all := make([]int, len(d.sources))
	for i := range all {
		all[i] = i
	}
	d.DecodeFirst(all)
	d.AsCodes(nil)
}

// TestCodes: codes and their dictionaries are the values, and so is what Rest makes of them, where pages hold codes,
// values, or first the ones and then the others.
func TestCodes(t *testing.T) {
	var coded, mixed, spelt int
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 11))
		data := writeTable(t, randomTable(seed, testSchema(), 600), 350, parquet.WithDataPageSize(200),
			parquet.WithBatchSize(50),
			parquet.WithDataPageVersion([]parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2}[seed&1]),
			parquet.WithStats(false),
			parquet.WithCompression(oneOf(r, testCodecs[:2]...)),
			parquet.WithDictionaryPageSizeLimit([]int64{200, 1 << 20}[seed>>1&1]))
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		sources := withOwn(f)
		d, all := NewDecoder(sources, testMemory), NewDecoder(sources, testMemory)
		showCodes(d)
		unread := map[int]bool{}
		var list []int
		for i := range sources {
			if r.IntN(3) == 0 {
				unread[i], list = true, append(list, i)
			}
		}
		d.AsCodes(list)
		for rg := range f.RowGroups {
			resetBoth(t, f, rg, data, d, all)
			for left := int(f.RowGroups[rg].Rows); left > 0; {
				n := 1 + r.IntN(min(left, 150))
				left -= n
				got, want := nextOfBoth(t, r, n, d, all)
				if got == nil {
					continue
				}
				where := fmt.Sprintf("seed %d, row group %d, %d rows left", seed, rg, left)
				same(t, where, sources, got, want)
				for _, c := range d.columns {
					switch {
					case c.coded == nil:
					case !c.coded.spelt:
						coded++
					case c.coded.n > 0:
						mixed++
					}
				}
				if r.IntN(2) == 0 {
					continue
				}
				if got, err = d.Rest(); err != nil {
					t.Fatal(err)
				}
				same(t, where, sources, got, want)
				for i, v := range got {
					if v.Dict != nil && !unread[i] {
						t.Fatalf("%s: Rest shows codes of source %s", where, sources[i].GetName())
					}
					if v.Dict == nil && d.columns[d.bound.Bindings[i].Value].coded != nil {
						spelt++
					}
				}
			}
		}
	}
	if coded == 0 || mixed == 0 || spelt == 0 {
		t.Errorf("%d windows of codes, %d of codes and values, %d made values by Rest", coded, mixed, spelt)
	}
	t.Logf("%d windows of codes, %d of codes and values, %d made values by Rest", coded, mixed, spelt)
}

func same[S interface{ GetName() string }](t *testing.T, where string, sources []S, got, want []*vector.Vector) {
	t.Helper()
	for i := range got {
		if !reflect.DeepEqual(rowtest.Of(got[i]), rowtest.Of(want[i])) {
			t.Fatalf("%s: source %s differs", where, sources[i].GetName())
		}
		if len(got[i].Data) > len(want[i].Data) {
			t.Fatalf("%s: source %s has %d bytes where its rows have %d", where, sources[i].GetName(), len(got[i].Data),
				len(want[i].Data))
		}
	}
}

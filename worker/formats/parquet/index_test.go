package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/keys/keystest"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// onlySome is a chunk of which only some ranges are there.
type onlySome struct {
	file   []byte
	at     int64
	ranges []storage.Range
}

func (p *onlySome) Bytes(from, n int) ([]byte, error) {
	for _, r := range p.ranges {
		if at := p.at + int64(from); at >= r.Offset && at+int64(n) <= r.Offset+r.Length {
			return p.file[at : r.Offset+r.Length], nil
		}
	}
	return nil, errors.New("bytes that Ranges did not name were asked for")
}

func pagesOf(t testing.TB, f *footer.Footer, rg, leaf int, data []byte) []footer.Page {
	t.Helper()
	r := f.RowGroups[rg].Chunks[leaf].OffsetIndex()
	if r.Length == 0 {
		t.Fatal("no offset index")
	}
	pages, err := f.Pages(rg, leaf, data[r.Offset:r.Offset+r.Length])
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestPagesByIndex: windows that are decoded from their own pages alone are those of decoding everything.
func TestPagesByIndex(t *testing.T) {
	const window = 60
	dir := keystest.Files(t)
	for _, name := range []string{"plain", "uniform", "columns_plaintext", "ctr", "single"} {
		data := readFile(t, filepath.Join(dir, name+".parquet"))
		f, err := readEncrypted(t, data, ring(t, keys.Config{File: keystest.KeyFile(t)}))
		if err != nil {
			t.Fatal(err)
		}
		sources := sourcesOf(f)
		d, all := NewDecoder(sources, testMemory), NewDecoder(sources, testMemory)
		d.DecodeFirst([]int{0, 2})
		leaves, err := leavesOf(f, d.sources)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(30) {
			r, rg := rand.New(rand.NewPCG(seed, 3)), int(seed)%len(f.RowGroups)
			rows := f.RowGroups[rg].Rows
			want := make([]bool, (rows+window-1)/window)
			for w := range want {
				want[w] = r.IntN(1+int(seed)%6) == 0
			}
			var chunks []decode.Source
			var index [][]footer.Page
			read := int64(0)
			for _, leaf := range leaves {
				c := &f.RowGroups[rg].Chunks[leaf]
				pages := pagesOf(t, f, rg, leaf, data)
				if len(pages) < 2 {
					t.Fatalf("%s: %d pages", name, len(pages))
				}
				p := &onlySome{data, c.Offset, footer.PageRanges(c, pages, rows, window, want)}
				for _, r := range p.ranges {
					read += r.Length
				}
				chunks, index = append(chunks, p), append(index, pages)
			}
			resetBoth(t, f, rg, data, all)
			if err := d.resetSources("test.parquet", f, rg, chunks); err != nil {
				t.Fatal(err)
			}
			if err := d.usePages(index); err != nil {
				t.Fatal(err)
			}
			for w := range want {
				n := int(min(window, rows-int64(w)*window))
				expect, err := all.Next(n)
				if err != nil {
					t.Fatal(err)
				}
				if !want[w] {
					if err := d.Skip(n); err != nil {
						t.Fatal(err)
					}
					continue
				}
				got, err := d.Next(n)
				if err == nil && r.IntN(3) > 0 {
					got, err = d.Rest()
				}
				if err != nil {
					t.Fatalf("%s, seed %d, window %d: %v", name, seed, w, err)
				}
				for i, v := range got {
					if v != nil && !reflect.DeepEqual(rowtest.Of(v), rowtest.Of(expect[i])) {
						t.Fatalf("%s, seed %d, window %d: %s differs", name, seed, w, sources[i].GetName())
					}
				}
			}
		}
	}
}

// TestFalseIndex: an index that does not list the pages as they are ends in an error, or does no harm.
func TestFalseIndex(t *testing.T) {
	data := readFile(t, filepath.Join(keystest.Files(t), "plain.parquet"))
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	for i, source := range sourcesOf(f) {
		pages := pagesOf(t, f, 0, i, data)
		r := rand.New(rand.NewPCG(uint64(i), 9))
		for range 300 {
			changed := append([]footer.Page(nil), pages...)
			if k := 1 + r.IntN(len(changed)-1); r.IntN(2) == 0 {
				changed[k].FirstRow += int64(r.IntN(9) - 4)
			} else {
				changed[k].Offset += int64(r.IntN(200) - 100)
			}
			d := NewDecoder(sourcesOf(f)[i:i+1], testMemory)
			resetBoth(t, f, 0, data, d)
			if err := d.usePages([][]footer.Page{changed}); err != nil {
				t.Fatal(err)
			}
			err := d.Skip(r.IntN(900))
			if err == nil {
				_, err = d.Next(100)
			}
			if err != nil && (strings.Contains(err.Error(), "panicked") ||
				!strings.Contains(err.Error(), "row group 0 column "+source.GetName())) {
				t.Fatal(err)
			}
		}
	}
}

// goLists is a file by parquet-go, which has a page index, of one row group of numbers, lists of them and
// lists of these.
func goLists(t testing.TB, version int) []byte {
	t.Helper()
	type row struct {
		X int64
		N []int64   `parquet:"n,list"`
		L [][]int64 `parquet:"l,list"`
	}
	rows := make([]row, 400)
	for i := range rows {
		list := slices.Repeat([]int64{int64(i)}, i%5)
		rows[i] = row{int64(i), list, slices.Repeat([][]int64{list}, i%3)}
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out, parquet.DataPageVersion(version), parquet.PageBufferSize(400),
		parquet.DataPageStatistics(false))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// usePages has a column be decoded by an index.
func usePages(t testing.TB, d *Decoder, pages []footer.Page) {
	t.Helper()
	if err := d.usePages([][]footer.Page{pages}); err != nil {
		t.Fatal(err)
	}
}

// TestFalseIndexOfLists: an index by which a page of lists has other rows than it has ends in an error before any of
// these is shown.
func TestFalseIndexOfLists(t *testing.T) {
	for _, version := range []int{1, 2} {
		data := goLists(t, version)
		for _, column := range []int{1, 2} {
			checkFalseIndex(t, fmt.Sprintf("version %d, column %d", version, column), data, column)
		}
	}
}

func checkFalseIndex(t *testing.T, what string, data []byte, column int) {
	t.Helper()
	d := columnOf(t, data, column, bytes.Clone)
	pages := pagesOf(t, d.bound.Footer, 0, column, data)
	if len(pages) < 5 {
		t.Fatalf("%d pages", len(pages))
	}
	want, err := skipAndRead(d, 0, 400)
	if err != nil {
		t.Fatal(err)
	}
	for k, page := range pages {
		skip := int(page.FirstRow) + 3
		for _, by := range []int64{0, -1, 1} {
			changed := slices.Clone(pages)
			for i := k + 1; i < len(changed); i++ { // as if page k had other rows, and all the others theirs
				changed[i].FirstRow += by
			}
			d := columnOf(t, data, column, bytes.Clone)
			usePages(t, d, changed)
			got, err := skipAndRead(d, skip, 7)
			if by == 0 || k == len(pages)-1 {
				if err != nil {
					t.Fatal(err)
				}
				compare(t, what, got, want[skip:])
			} else if len(got) > 0 || err == nil ||
				!strings.Contains(err.Error(), "rows begin in it where the page index says") {
				t.Errorf("%s, page %d with %+d rows: %d rows are shown, %v", what, k, by, len(got), err)
			}
		}
	}
}

// listed is what an index has of a column's pages, if their headers tell their rows.
func listed(t testing.TB, d *Decoder) (pages []footer.Page) {
	t.Helper()
	row := int64(0)
	eachPage(t, *d.columns[0].source.(*decode.Whole), func(at int, h *header) {
		if h.kind == dataPageV2 {
			pages = append(pages, footer.Page{Offset: d.columns[0].chunkAt + int64(at), FirstRow: row})
			row += int64(h.rows)
		}
	})
	return pages
}

// TestIndexOfSplitLists: pages of an index that begin in the middle of a list are refused.
func TestIndexOfSplitLists(t *testing.T) {
	data := listsFile(t, 600, 90)
	pages := listed(t, columnOf(t, data, 0, bytes.Clone))
	for skip := 0; skip < 600; skip += 37 {
		d := columnOf(t, data, 0, bytes.Clone)
		usePages(t, d, pages)
		if _, err := skipAndRead(d, skip, 7); err == nil ||
			!strings.Contains(err.Error(), "it begins in the middle of a row") {
			t.Errorf("behind %d rows: %v", skip, err)
		}
	}
}

// TestHeadersAgainstIndex: where there is an index, pages are not passed over by what their headers say.
func TestHeadersAgainstIndex(t *testing.T) {
	data := goLists(t, 2)
	for name, test := range map[string]struct {
		column       int
		rows, values int // that headers claim; -1: those that there are
		err          string
	}{
		"numbers":                 {0, 2, 2, "it has 2 rows where the page index says"},
		"numbers, none":           {0, 0, 0, "it has 0 rows where the page index says"},
		"lists":                   {1, 2, -1, ""},
		"lists, as many as there": {1, 1 << 20, -1, ""},
		"lists, none":             {1, 0, 0, "0 rows begin in it where the page index says"},
	} {
		d := columnOf(t, data, test.column, bytes.Clone)
		pages := pagesOf(t, d.bound.Footer, 0, test.column, data)
		skip := int(pages[2].FirstRow) + 10
		want, err := skipAndRead(d, skip, 7)
		if err != nil {
			t.Fatal(err)
		}
		d = columnOf(t, data, test.column, func(chunk []byte) []byte {
			return rewritten(t, chunk, func(h *header) {
				if h.rows = test.rows; test.values >= 0 {
					h.values = test.values
				}
			})
		})
		for i, page := range listed(t, d) {
			pages[i].Offset = page.Offset
		}
		usePages(t, d, pages)
		got, err := skipAndRead(d, skip, 7)
		if test.err == "" && err == nil {
			compare(t, name, got, want)
		} else if test.err == "" || err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChecksumsOfOthers: pyarrow's page checksums are checked for dictionaries and for data pages of both versions.
func TestChecksumsOfOthers(t *testing.T) {
	dir := t.TempDir()
	const script = `
import sys, pyarrow as pa, pyarrow.parquet as pq
table = pa.table({"x": pa.array([None if i % 9 == 0 else i % 40 for i in range(2000)], pa.int64())})
for version in ("1.0", "2.0"):
    pq.write_table(table, f"{sys.argv[1]}/{version}.parquet", compression="none", data_page_version=version, write_page_checksum=True, data_page_size=200, write_batch_size=100)
`
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", script, dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("pyarrow: %v\n%s", err, out)
		}
		t.Skip("needs python3 with pyarrow")
	}
	for _, version := range []string{"1.0", "2.0"} {
		data := readFile(t, filepath.Join(dir, version+".parquet"))
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeAll(NewDecoder(sourcesOf(f), testMemory), f, data, 100, 0); err != nil {
			t.Fatal(err)
		}
		p := &pages{}
		c := &f.RowGroups[0].Chunks[0]
		chunk := decode.Whole(data[c.Offset : c.Offset+c.Length])
		p.reset(c, &chunk)
		kinds := map[int32]int{}
		for {
			ok, err := p.peekHeader()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if !p.header.hasCRC {
				t.Fatalf("page at %d has no checksum", p.nextAt)
			}
			kinds[p.header.kind]++
			body := c.Offset + int64(p.nextAt+p.header.size)
			for at := int64(0); at < int64(p.header.stored); at += 1 + int64(p.header.stored)/7 {
				data[body+at] ^= 4
				_, err := decodeAll(NewDecoder(sourcesOf(f), testMemory), f, data, 100, 0)
				data[body+at] ^= 4
				if err == nil || !strings.Contains(err.Error(), "column x: page at byte") ||
					!strings.Contains(err.Error(), "checksum") {
					t.Fatalf("version %s, byte %d: %v", version, body+at, err)
				}
			}
			p.drop()
		}
		data2 := map[string]int32{"1.0": dataPage, "2.0": dataPageV2}[version]
		if kinds[dictionaryPage] != 1 || kinds[data2] < 2 {
			t.Errorf("version %s has pages %v", version, kinds)
		}
	}
}

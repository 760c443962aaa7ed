package parquet

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// Statistics of a chunk that cannot be are not believed in anything.
func TestStatsThatContradictThemselves(t *testing.T) {
	number := Leaf{Physical: Int64, Kind: pb.Kind_INT64, MaxDef: 1}
	required := Leaf{Physical: Int64, Kind: pb.Kind_INT64}
	list := Leaf{Physical: Int64, Kind: pb.Kind_INT64, MaxDef: 2, MaxRep: 1}
	small := Leaf{Physical: Int32, Kind: pb.Kind_INT32, Logical: Logical{Small: pb.Kind_UINT8}}
	known := func(change func(*rawStats)) rawStats {
		s := rawStats{min: i64(3), max: i64(9), nulls: 2, distinct: 5}
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		leaf Leaf
		raw  rawStats
		good bool
	}{
		"good":                       {number, known(func(*rawStats) {}), true},
		"good, old ones too":         {number, known(func(s *rawStats) { s.oldMin, s.oldMax = i64(3), i64(9) }), true},
		"good, levels":               {number, known(func(s *rawStats) { s.levels = []int64{2, 8} }), true},
		"good, nothing but nulls":    {number, rawStats{nulls: 10, distinct: -1}, true},
		"good, empty bounds":         {number, rawStats{min: []byte{}, max: []byte{}, nulls: 10, distinct: -1}, true},
		"good, lists":                {list, known(func(s *rawStats) { s.distinct = 9 }), true},
		"more nulls than values":     {number, known(func(s *rawStats) { s.nulls = 11 }), false},
		"more nulls, of lists":       {list, known(func(s *rawStats) { s.nulls = 11 }), false},
		"less than no nulls":         {number, known(func(s *rawStats) { s.nulls = -5 }), false},
		"nulls where none may be":    {required, known(func(*rawStats) {}), false},
		"nulls only, and bounds":     {number, known(func(s *rawStats) { s.nulls, s.distinct = 10, -1 }), false},
		"nulls only, and a bound":    {number, rawStats{max: i64(3), nulls: 10, distinct: -1}, false},
		"bounds the wrong way round": {number, known(func(s *rawStats) { s.min, s.max = s.max, s.min }), false},
		"bounds of another type":     {number, known(func(s *rawStats) { s.min = i32(3) }), false},
		"bounds of small integers":   {small, rawStats{min: i32(0), max: i32(255), nulls: -1, distinct: -1}, true},
		"bounds beyond small ones":   {small, rawStats{min: i32(0), max: i32(256), nulls: -1, distinct: -1}, false},
		"bounds below small ones":    {small, rawStats{min: i32(-1), max: i32(9), nulls: -1, distinct: -1}, false},
		"old bounds beyond small ones": {
			small, rawStats{oldMin: i32(-1), oldMax: i32(9), nulls: -1, distinct: -1}, false,
		},
		"other old bounds": {
			number, known(func(s *rawStats) { s.oldMin, s.oldMax = i64(3), i64(8) }),
			false,
		},
		"more distinct than values":   {number, known(func(s *rawStats) { s.distinct = 9 }), false},
		"distinct ones but no values": {number, rawStats{nulls: 10, distinct: 1}, false},
		"too few levels":              {number, known(func(s *rawStats) { s.levels = []int64{10} }), false},
		"levels of other nulls":       {number, known(func(s *rawStats) { s.levels = []int64{3, 7} }), false},
		"levels of other values":      {number, known(func(s *rawStats) { s.levels = []int64{2, 9} }), false},
		"levels of nulls, and bounds": {
			number, rawStats{min: i64(3), max: i64(9), nulls: -1, distinct: -1, levels: []int64{10, 0}}, false,
		},
		"nulls only, and old bounds": {
			number, rawStats{oldMin: i64(3), oldMax: i64(9), nulls: 10, distinct: -1}, false,
		},
		"old bounds the wrong way round": {
			number, rawStats{oldMin: i64(9), oldMax: i64(3), nulls: -1, distinct: -1}, false,
		},
		"levels that wrap around": {number, known(func(s *rawStats) { s.levels = []int64{-2, 8} }), false},
	} {
		got := statsOf(&tc.leaf, 10, tc.raw, &arena{})
		if good := got.Contradiction == ""; good != tc.good {
			t.Errorf("%s: contradiction %q", name, got.Contradiction)
		} else if !good && (got.Min != nil || got.Max != nil || got.Nulls != -1) {
			t.Errorf("%s: %v is believed", name, got)
		}
	}
}

// pagesOfRows is a column chunk, and what is true of it.
type pagesOfRows struct {
	leaf  Leaf
	rows  [][]int64 // of each page; null is a null
	pages []Page
	chunk Stats
	index columnIndex
}

const null = -1

func (p *pagesOfRows) total() (n int64) {
	for _, page := range p.rows {
		n += int64(len(page))
	}
	return n
}

// bound writes a value as the column has it: numbers, or texts of one byte.
func (p *pagesOfRows) bound(v int64) []byte {
	if p.leaf.Kind == pb.Kind_BINARY {
		return []byte{byte('a' + v)}
	}
	return i64(v)
}

// anyPages draws a chunk of several pages, of which the first has values and the last has nulls and values.
func anyPages(t *rapid.T) *pagesOfRows {
	p := &pagesOfRows{leaf: Leaf{Physical: Int64, Kind: pb.Kind_INT64, MaxDef: 1}}
	if rapid.Bool().Draw(t, "text") {
		p.leaf.Physical, p.leaf.Kind = ByteArray, pb.Kind_BINARY
	}
	value := rapid.Int64Range(null, 20)
	p.rows = [][]int64{{3, 9}}
	for range rapid.IntRange(0, 4).Draw(t, "pages") {
		p.rows = append(p.rows, rapid.SliceOfN(value, 1, 5).Draw(t, "page"))
	}
	p.rows = append(p.rows, []int64{null, null, 5, 25})
	if rapid.Bool().Draw(t, "sorted") {
		for _, rows := range p.rows {
			slices.Sort(rows)
		}
		slices.SortFunc(p.rows, func(a, b []int64) int { return slices.Compare(a, b) })
	}
	p.measure()
	if rapid.Bool().Draw(t, "without nulls") {
		p.index.nulls = nil
	}
	return p
}

// measure sets all that is derived from the rows.
func (p *pagesOfRows) measure() {
	var all []int64
	x := &p.index
	for i, rows := range p.rows {
		p.pages = append(p.pages, Page{Offset: int64(100 * i), FirstRow: int64(len(all))})
		all = append(all, rows...)
		values := slices.DeleteFunc(slices.Clone(rows), func(v int64) bool { return v == null })
		x.empty = append(x.empty, len(values) == 0)
		x.nulls = append(x.nulls, int64(len(rows)-len(values)))
		x.levels = append(x.levels, int64(len(rows)-len(values)), int64(len(values)))
		var low, high []byte
		if len(values) > 0 {
			low, high = p.bound(slices.Min(values)), p.bound(slices.Max(values))
		}
		x.mins, x.maxs = append(x.mins, low), append(x.maxs, high)
	}
	values := slices.DeleteFunc(slices.Clone(all), func(v int64) bool { return v == null })
	p.chunk = Stats{
		Min: p.bound(slices.Min(values)), Max: p.bound(slices.Max(values)),
		Nulls: int64(len(all) - len(values)),
	}
	for _, order := range []pageOrder{ascending, descending} {
		if h := newHull(&p.leaf, &p.chunk); !slices.ContainsFunc(p.pages, func(page Page) bool {
			i := slices.Index(p.pages, page)
			return h.add(&Stats{Min: x.mins[i], Max: x.maxs[i]}, x.empty[i], order) != ""
		}) {
			x.order = order
		}
	}
}

func (p *pagesOfRows) remeasure() {
	p.pages, p.index = nil, columnIndex{}
	p.measure()
}

func (p *pagesOfRows) stats() ([]Stats, error) {
	return p.index.stats(&p.leaf, p.pages, p.total(), &p.chunk)
}

// TestTruePageIndex: a true index is used whole.
func TestTruePageIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPages(t)
		got, err := p.stats()
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range got {
			want := int64(-1)
			if p.index.nulls != nil {
				want = p.index.nulls[i]
			} else if p.index.empty[i] {
				want = int64(len(p.rows[i]))
			}
			if s.Nulls != want || !bytes.Equal(s.Min, p.index.mins[i]) || !bytes.Equal(s.Max, p.index.maxs[i]) {
				t.Fatalf("page %d of %v has %v", i, p.rows, s)
			}
		}
	})
}

// TestPageIndexThatContradicts: one lie, of whatever kind, and nothing of the index is used.
func TestPageIndexThatContradicts(t *testing.T) {
	for name, lie := range map[string]func(p *pagesOfRows){
		"nothing but nulls": func(p *pagesOfRows) { p.index.empty[0] = true },
		"nothing but nulls, without their number and bounds": func(p *pagesOfRows) {
			p.index.empty[0], p.index.nulls, p.index.levels, p.index.mins[0], p.index.maxs[0] = true, nil, nil, nil, nil
			p.chunk.Nulls = 1
		},
		"values in a page of nulls": func(p *pagesOfRows) {
			p.rows[0] = []int64{null, null}
			p.remeasure()
			p.index.empty[0] = false
		},
		"bounds of a page of nulls": func(p *pagesOfRows) {
			p.rows[0] = []int64{null, null}
			p.remeasure()
			p.index.mins[0], p.index.maxs[0] = p.chunk.Min, p.chunk.Max
		},
		"more nulls than rows": func(p *pagesOfRows) {
			p.index.nulls = []int64{
				9, 9, 9, 9, 9,
				9,
			}[:len(p.rows)]
		},
		"nulls that the chunk has not": func(p *pagesOfRows) { p.index.nulls = make([]int64, len(p.rows)) },
		"nulls of the chunk": func(p *pagesOfRows) {
			p.remeasure()
			p.chunk.Nulls = 1
		},
		"nothing but nulls in any page, and a chunk with bounds": func(p *pagesOfRows) {
			n := len(p.rows)
			p.index = columnIndex{empty: slices.Repeat([]bool{true}, n), mins: make([][]byte, n), maxs: make([][]byte, n)}
			p.chunk.Nulls = -1
		},
		"a chunk of nulls": func(p *pagesOfRows) { p.chunk.Nulls, p.index.nulls = p.total(), nil },
		"levels of other nulls": func(p *pagesOfRows) {
			n := len(p.index.levels)
			p.index.nulls = nil
			p.index.levels[n-1]++
		},
		"levels of fewer pages": func(p *pagesOfRows) { p.index.levels = p.index.levels[2:] },
		"bounds the wrong way round": func(p *pagesOfRows) {
			p.index.mins[0], p.index.maxs[0] = p.bound(9), p.bound(3)
		},
		"bounds above the chunk's": func(p *pagesOfRows) {
			p.index.mins[0], p.index.maxs[0] = p.bound(26),
				p.bound(26)
		},
		"bounds below the chunk's":      func(p *pagesOfRows) { p.chunk.Min, p.chunk.Max = p.bound(24), p.bound(25) },
		"fewer pages":                   func(p *pagesOfRows) { p.index.empty = p.index.empty[1:] },
		"fewer minimums":                func(p *pagesOfRows) { p.index.mins = p.index.mins[1:] },
		"more maximums":                 func(p *pagesOfRows) { p.index.maxs = append(p.index.maxs, p.bound(1)) },
		"no numbers of nulls for pages": func(p *pagesOfRows) { p.index.nulls = []int64{} },
		"the other order": func(p *pagesOfRows) {
			if p.index.order = ascending; p.index.maxs[0][0] < p.index.maxs[len(p.rows)-1][0] {
				p.index.order = descending
			}
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := anyPages(t)
				if p.index.empty[0] || slices.Equal(p.rows[0], p.rows[len(p.rows)-1]) {
					t.Skip("its first page is of nulls")
				}
				lie(p)
				if got, err := p.stats(); err == nil {
					t.Fatalf("%v is believed of %v", got, p.rows)
				}
			})
		})
	}
}

// TestShrunkBounds: bounds of numbers that leave out the least or the greatest value of the chunk are not used.
func TestShrunkBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPages(t)
		if p.leaf.Kind == pb.Kind_BINARY {
			t.Skip("bounds of bytes may be cut")
		}
		for i, high := range p.index.maxs {
			if bytes.Equal(high, p.chunk.Max) {
				p.index.maxs[i] = p.index.mins[i]
			}
		}
		if got, err := p.stats(); err == nil {
			t.Fatalf("%v is believed of %v", got, p.rows)
		}
	})
}

// cut is a bound as writers cut it to so many characters or fewer: one that is not above the value, or one that is not
// below it.
func cut(value string, to int, upper bool) []byte {
	chars := []rune(value)
	if len(chars) <= to {
		return []byte(value)
	}
	if chars = chars[:to]; upper {
		chars[to-1]++
	}
	return []byte(string(chars))
}

// TestBoundsOfTexts: pages and their chunk may have bounds cut to other lengths. They are believed, unless pages leave
// out what the chunk says that there is.
func TestBoundsOfTexts(t *testing.T) {
	leaf := Leaf{Physical: ByteArray, Kind: pb.Kind_BINARY, MaxDef: 1}
	text := rapid.StringOfN(rapid.SampledFrom([]rune("abyzé€\U0001f600")), 1, 9, -1)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SliceOfN(text, 1, 3), 1, 4).Draw(t, "pages")
		all := slices.Concat(values...)
		chunkTo, pageTo := rapid.IntRange(1, 9).Draw(t, "chunk"), rapid.IntRange(1, 9).Draw(t, "page")
		chunk := Stats{
			Min: cut(slices.Min(all), chunkTo, false), Max: cut(slices.Max(all), chunkTo, true), Nulls: -1,
		}
		x, pages, rows := columnIndex{}, []Page(nil), int64(0)
		for i, page := range values {
			x.empty = append(x.empty, false)
			x.mins = append(x.mins, cut(slices.Min(page), pageTo, false))
			x.maxs = append(x.maxs, cut(slices.Max(page), pageTo, true))
			pages = append(pages, Page{Offset: int64(100 * i), FirstRow: rows})
			rows += int64(len(page))
		}
		if _, err := x.stats(&leaf, pages, rows, &chunk); err != nil {
			t.Fatalf("%q cut to %d and %d: %v", values, chunkTo, pageTo, err)
		}
	})
	for _, of := range []struct{ low, high string }{{"b", "zebra"}, {"apples", "y"}, {"az", "zebra"}} {
		x := columnIndex{empty: []bool{false}, mins: [][]byte{[]byte(of.low)}, maxs: [][]byte{[]byte(of.high)}}
		_, err := x.stats(&leaf, []Page{{}}, 9, &Stats{Min: []byte("apple"), Max: []byte("zebra"), Nulls: -1})
		if err == nil || !strings.Contains(err.Error(), "do not reach") {
			t.Errorf("%+v of apple to zebra: %v", of, err)
		}
	}
}

package features_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
)

// drawReads draws what was read of columns, of structs' fields and keys of maps among them, and of what is no column.
func drawReads(t *rapid.T, columns int) *features.Reads {
	r := features.Load(nil)
	for range rapid.IntRange(1, 6).Draw(t, "sets") {
		note := features.Note{Rows: rapid.Int64Range(1, 9).Draw(t, "rows"), Sessions: 1, UnixMs: 1}
		for _, c := range rapid.SliceOfNDistinct(rapid.IntRange(0, columns), 1, -1, rapid.ID[int]).Draw(t, "set") {
			note.Features = append(note.Features, fmt.Sprintf("c%d%s", c, rapid.SampledFrom([]string{"", ".x", ".y"}).Draw(t, "of")))
		}
		r.Add(features.Of(note))
	}
	return r
}

// An order has each column once, those that nobody reads last and as they were; and what it saves is what its files
// would show.
func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "columns")
		r := drawReads(t, n)
		var columns []string
		chunks := &pb.FileColumns{Extents: 2}
		for c := range n {
			columns = append(columns, fmt.Sprint("c", c))
			for _, field := range []string{".x", ".y"} {
				chunks.Columns = append(chunks.Columns, &pb.FileColumn{
					Name: columns[c] + field, Bytes: 2 * rapid.Int64Range(0, 1<<19).Draw(t, "bytes"),
				})
			}
		}
		a := features.Arrange(r.Proto(), columns, chunks)
		read := map[string]bool{}
		unknown := 0
		for _, f := range r.Proto().GetFeatures() {
			name, _, _ := strings.Cut(f.GetName(), ".")
			if slices.Contains(columns, name) {
				read[name] = true
			} else {
				unknown++
			}
		}
		made := &pb.FileColumns{Extents: chunks.GetExtents()}
		for i, c := range a.Order {
			if (i < a.Read) != read[columns[c]] || i > a.Read && a.Order[i-1] > c {
				t.Fatalf("column %d of %v, of which %d are read", i, a.Order, a.Read)
			}
			made.Columns = append(made.Columns, chunks.GetColumns()[2*c:2*c+2]...)
		}
		sorted := slices.Sorted(slices.Values(a.Order))
		if len(slices.Compact(sorted)) != n || a.Read != len(read) || a.Unknown != unknown {
			t.Fatalf("%+v of %v", a, r.Proto())
		}
		if a.Read == 0 {
			return
		}
		r.Proto().Columns = made
		if got := features.LayoutOf(r.Proto()).Cost(nil, storage.Reading{}); got != a.Costs.Ordered {
			t.Fatalf("foretold %+v, and it is %+v", a.Costs.Ordered, got)
		}
	})
}

// Names that are listed come first, in their order; fields stand for their columns.
func TestArrangeByName(t *testing.T) {
	a := features.ArrangeByName([]string{"s.y", "b", "s.x", "gone", "m.1"}, []string{"a", "b", "m", "m.1", "s"})
	if want := []int{4, 1, 3, 0, 2}; !slices.Equal(a.Order, want) || a.Read != 3 || a.Unknown != 1 || a.Costs != nil {
		t.Errorf("%+v, want %v", a, want)
	}
}

// What is printed as JSON is read again with all that an order needs.
func TestReadReport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReads(t, 9)
		text, err := json.MarshalIndent(features.ReportOf(r.Proto(), true), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got, names, err := features.Read(text)
		if err != nil || names != nil {
			t.Fatal(names, err)
		}
		setsOf := func(m *pb.DatasetReads) (out []string) {
			for _, s := range m.GetSets() {
				var set []string
				for i := range features.Members(s) {
					set = append(set, m.GetFeatures()[i].GetName())
				}
				out = append(out, fmt.Sprint(set, s.GetRows()))
			}
			return slices.Sorted(slices.Values(out))
		}
		if a, b := setsOf(r.Proto()), setsOf(got); !slices.Equal(a, b) || got.GetSessions() != r.Proto().GetSessions() {
			t.Fatalf("read %v of %v", b, a)
		}
	})
}

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"a\r\n\nb.1\nc d":                   "a,b.1,c d",
		"":                                  "1: no names",
		"\n\n":                              "1: no names",
		"a\nb\n\na\n":                       "4: a is on line 1 already",
		"a\nPAR1\x00":                       "2: no text",
		"a\n\xff":                           "2: no text",
		"a\n" + strings.Repeat("b", 600):    "2: a name of 600 bytes",
		"{\n\"features\": [\n}":             "3: not what",
		"{\n\"sessions\": \"x\"}":           "2: not what",
		`{"prefix": "p", "sessions": 1}`:    "1: it has no features",
		`{"features": []} {"features": []}`: "1: it has no features",
		`{"features": [{"name": "a"}], "sets": [{"features": [1]}]}`:              "1: sets[0] has feature 1 of 1",
		`{"features": [{"name": "a"}], "sets": [{"features": [0], "rows": -1}]}`:  "1: sets[0] has -1 rows",
		`{"features": [], "sets": [` + strings.Repeat("{},", 1000) + `{}]}`:       "0 features and 1001 sets",
		`{"features": [{"name": "a"}], "sets": [{"features": [-1], "rows": 10}]}`: "1: sets[0] has feature -1 of 1",
	} {
		_, names, err := features.Read([]byte(text))
		got := strings.Join(names, ",")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) && !strings.Contains(got, "1: "+want) {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"features": [{"name": "a", "rows": 1}], "sets": [{"features": [0], "rows": 1}], "sessions": 1}`))
	f.Add([]byte("a\nb\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, names, err := features.Read(text)
		if err != nil {
			return
		}
		columns := []string{"a", "b.c"}
		a := features.ArrangeByName(names, columns)
		if m != nil {
			a = features.Arrange(m, columns, columnsOf(2, 10))
		}
		if slices.Sort(a.Order); !slices.Equal(a.Order, []int{0, 1}) {
			t.Errorf("order %v", a.Order)
		}
	})
}

package features_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/features"
)

// sums are what a Reads says, by name.
type sums struct {
	Sessions, Rows, Bytes int64
	Features              map[string][4]int64
	Sets                  map[string][4]int64
}

func sumsOf(m *pb.DatasetReads) sums {
	s := sums{m.GetSessions(), m.GetRows(), m.GetBytes(), map[string][4]int64{}, map[string][4]int64{}}
	for _, f := range m.GetFeatures() {
		s.Features[f.GetName()] = [4]int64{f.GetSessions(), f.GetRows(), f.GetBytes(), f.GetReadUnixMs()}
	}
	for _, set := range m.GetSets() {
		s.Sets[nameOf(m, set)] = [4]int64{set.GetSessions(), set.GetRows(), set.GetBytes(), set.GetReadUnixMs()}
	}
	return s
}

// nameOf names a set by its features.
func nameOf(m *pb.DatasetReads, set *pb.FeatureSet) string {
	var names []string
	for i := range features.Members(set) {
		names = append(names, m.GetFeatures()[i].GetName())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// counted adds up notes one by one, in maps.
func counted(notes []features.Note) sums {
	s := sums{Features: map[string][4]int64{}, Sets: map[string][4]int64{}}
	add := func(to map[string][4]int64, name string, n features.Note, bytes int64) {
		had := to[name]
		to[name] = [4]int64{had[0] + n.Sessions, had[1] + n.Rows, had[2] + bytes, max(had[3], n.UnixMs)}
	}
	for _, n := range notes {
		s.Sessions, s.Rows, s.Bytes = s.Sessions+n.Sessions, s.Rows+n.Rows, s.Bytes+n.Bytes
		for i, f := range n.Features {
			add(s.Features, f, n, n.BytesOf[i])
		}
		if len(n.Features) > 0 {
			add(s.Sets, strings.Join(slices.Sorted(slices.Values(n.Features)), " "), n, n.Bytes)
		}
	}
	return s
}

// However notes are grouped, kept and read again on the way, they add up to the same.
func TestNotesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		note := rapid.Custom(func(t *rapid.T) features.Note {
			names := rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 0, 12, rapid.ID[int]).Draw(t, "features")
			n := features.Note{
				Sessions: rapid.Int64Range(0, 1).Draw(t, "sessions"), Rows: rapid.Int64Range(0, 99).Draw(t, "rows"),
				Bytes: rapid.Int64Range(0, 999).Draw(t, "bytes"), UnixMs: rapid.Int64Range(1, 50).Draw(t, "at"),
				BytesOf: make([]int64, len(names)),
			}
			for i, name := range names {
				n.Features, n.BytesOf[i] = append(n.Features, fmt.Sprint("f", name)), int64(name)
			}
			return n
		})
		var all []features.Note
		sum := features.Load(nil)
		for _, group := range rapid.SliceOfN(rapid.SliceOfN(note, 1, 5), 1, 5).Draw(t, "groups") {
			part := features.Load(nil)
			for _, n := range group {
				part.Add(features.Of(n))
			}
			all = append(all, group...)
			sum.Add(part)
			sum = features.Load(proto.CloneOf(sum.Proto()))
		}
		if got, want := sumsOf(sum.Proto()), counted(all); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		first := slices.MinFunc(all, func(a, b features.Note) int { return cmp.Compare(a.UnixMs, b.UnixMs) })
		if since := sum.Proto().GetSinceUnixMs(); since != first.UnixMs {
			t.Fatalf("it counts since %d, want %d", since, first.UnixMs)
		}
	})
}

// What was read last is kept, and what is dropped is counted.
func TestBounds(t *testing.T) {
	r := features.Load(nil)
	note := func(at int64, more int) {
		n := features.Note{Features: []string{"all"}, Sessions: 1, UnixMs: at}
		for i := range more {
			n.Features = append(n.Features, fmt.Sprint(at, ".", i))
		}
		r.Add(features.Of(n))
	}
	const sets = features.MaxSets + 4
	for at := range int64(sets) {
		note(at, 9)
	}
	note(sets, 1500)
	m := r.Proto()
	if len(m.GetFeatures()) != features.MaxFeatures || m.GetDroppedFeatures() != 9*sets+1501-features.MaxFeatures ||
		len(m.GetSets()) >= features.MaxSets || len(m.GetSets())+int(m.GetDroppedSets()) != sets+1 {
		t.Fatalf("%d features and %d sets are kept, %d and %d dropped", len(m.GetFeatures()), len(m.GetSets()),
			m.GetDroppedFeatures(), m.GetDroppedSets())
	}
	got := sumsOf(m)
	if got.Sessions != sets+1 || got.Features["all"][0] != sets+1 || got.Features[fmt.Sprint(sets, ".0")][0] != 1 ||
		got.Features["0.0"][0] != 0 {
		t.Error("something else is kept than what was read last")
	}
	for name := range got.Sets {
		if n := len(strings.Split(name, " ")); n != 10 && n != 1501 {
			t.Fatalf("a set has lost features: %d are left of it", n)
		}
	}
	for range 3 {
		before := len(r.Proto().GetSets())
		if !r.Shrink() || len(r.Proto().GetSets()) >= before || !reflect.DeepEqual(sumsOf(features.Load(m).Proto()), sumsOf(m)) {
			t.Fatal("what was shrunk is not read as it was")
		}
	}
	for r.Shrink() {
	}
	if len(m.GetFeatures()) > 0 || len(m.GetSets()) > 0 {
		t.Errorf("%d features and %d sets are left", len(m.GetFeatures()), len(m.GetSets()))
	}
}

func TestNever(t *testing.T) {
	m := &pb.DatasetReads{Columns: &pb.FileColumns{}}
	for _, name := range []string{"x", "xy", "scores", "user.age", "user.name"} {
		m.Columns.Columns = append(m.Columns.Columns, &pb.FileColumn{Name: name})
	}
	for _, name := range []string{"x", "scores.a.b", "user.age"} {
		m.Features = append(m.Features, &pb.FeatureReads{Name: name})
	}
	var got []string
	for _, c := range features.Never(m) {
		got = append(got, c.GetName())
	}
	if want := []string{"xy", "user.name"}; !slices.Equal(got, want) {
		t.Errorf("never read: %q, want %q", got, want)
	}
}

// A damaged value costs counts, and nothing else.
func TestLoadsWhatIsDamaged(t *testing.T) {
	m := features.Load(&pb.DatasetReads{
		Features: []*pb.FeatureReads{{Name: "x"}},
		Sets:     []*pb.FeatureSet{{Features: []byte{2}}, {Features: []byte{1, 0}}, {Features: []byte{0}}, {}},
	})
	m.Add(features.Of(features.Note{Features: []string{"x"}, Sessions: 1}))
	if got := sumsOf(m.Proto()).Sets; len(got) != 1 || got["x"][0] != 1 {
		t.Errorf("sets %v", got)
	}
}

func TestPrefixes(t *testing.T) {
	for uri, want := range map[string]string{
		"s3://b/t/":                         "s3://b/t/",
		"s3://b/t":                          "s3://b/t/",
		"s3://b/t/*.parquet":                "s3://b/t/",
		"s3://b/t/day=*/x.parquet":          "s3://b/t/",
		"s3://b/t/day=1/hour=2/":            "s3://b/t/",
		"s3://b/":                           "s3://b/",
		"s3://a=b/t/":                       "s3://a=b/t/",
		"file:///":                          "file:///",
		"file:///data/a.parquet":            "file:///data/",
		"file:///day=1/a.parquet":           "file:///",
		"file:///data/?/a.parquet":          "file:///data/",
		"s3://b/other/" + long + "/":        "",
		"file:///data/year=1/year=2/[ab].p": "file:///data/",
	} {
		files := []*pb.File{{Uri: "file:///data/a.parquet"}, {Uri: "file:///day=1/a.parquet"}}
		got := strings.Join(features.Prefixes([]string{uri}, files), " ")
		if got != want {
			t.Errorf("%.40s is noted under %q, want %q", uri, got, want)
		}
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("s3://b/%02d/", i), fmt.Sprintf("s3://b/%02d/below/", i))
	}
	if got := features.Prefixes(many, nil); len(got) != features.MaxPrefixes || got[1] != "s3://b/01/" {
		t.Errorf("many directories are noted under %q", got)
	}
}

var long = strings.Repeat("x", 1024)

package iceberg

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// TestVersions finds versions by their names. Branches and the newest are read by the newest schema.
func TestVersions(t *testing.T) {
	schemas := []any{}
	for id := range 2 {
		schemas = append(schemas, obj{"schema-id": id, "fields": []any{field(1, "id", "long")}})
	}
	f := tableOf(t, with(t, obj{"schemas": schemas, "current-schema-id": 1}, []obj{entryOf(nil)}, nil))
	for named, want := range map[string]string{
		"": "2-1", "main": "2-1", "old": "1", "1": "1", "2": "2", "2-1": "2-1", "1-1": "1-1",
		"1970-01-01T00:00:01.999Z": "1", "1970-01-01T00:00:02Z": "2", "2026-11-01": "2",
	} {
		if s, err := open(t.Context(), f.table(named)); err != nil || s.Version != want {
			t.Errorf("@%s: got %v, %v; want %s", named, s, err, want)
		}
	}
}

// TestNewest chooses among metadata files as those choose that wrote them.
func TestNewest(t *testing.T) {
	for want, c := range map[string]struct {
		hint  string
		names []string
	}{
		"v10.metadata.json":            {"", []string{"v9.metadata.json", "v10.metadata.json", "v1.metadata.json"}},
		"v3.metadata.json":             {"2", []string{"v2.metadata.json", "v3.metadata.json"}},
		"v2.gz.metadata.json":          {"2", []string{"v1.gz.metadata.json", "v2.gz.metadata.json", "00009-x.metadata.json"}},
		"v2.metadata.json.gz":          {"v2", []string{"v2.metadata.json.gz"}},
		"00010-a.metadata.json":        {"", []string{"00010-a.metadata.json", "00009-b.metadata.json"}},
		"00001-b.metadata.json":        {"00001-b", []string{"00001-a.metadata.json", "00001-b.metadata.json"}},
		"any.metadata.json":            {"any.metadata.json", []string{"any.metadata.json", "v7.metadata.json"}},
		"00002-a-b-c.gz.metadata.json": {"", []string{"00002-a-b-c.gz.metadata.json"}},
	} {
		if got, err := newest(c.names, c.hint); err != nil || got != want {
			t.Errorf("%q, hint %q: got %q, %v; want %q", c.names, c.hint, got, err, want)
		}
	}
}

// TestPaths are ways to write the one of a file, in a table that may have been copied.
func TestPaths(t *testing.T) {
	for _, c := range []struct{ root, location, path string }{
		{"s3://b/t", "s3://b/t", "s3://b/t/x"},
		{"s3://b/t", "s3a://b/t/", "s3a://b/t/x"},
		{"s3://b/t", "s3a://b/t", "s3n://b/t/x"},
		{"s3://b/t", "hdfs://n/t", "hdfs://n/t/x"},
		{"s3://b/t", "hdfs://n/t", "s3://b/t/x"},
		{"file:///t", "/t", "file:/t/x"},
		{"file:///t", "file:/t", "/t/x"},
		{"file:///t", "file:///t", "file:///t//x"},
		{"gs://b/a%20b", "gs://b/a%20b", "gs://b/a%20b/x"},
	} {
		in, err := newRoot(c.root, c.location)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := in.resolve(c.path); got != c.root+"/x" || err != nil {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

// TestInherited: what is added has its manifest's sequence number, unless it says another.
func TestInherited(t *testing.T) {
	data := entryOf(nil) // 5, by the list
	later := entryOf(obj{"file_path": "s3://elsewhere/t/data/b.parquet"})
	later["sequence_number"] = int64(7)
	removed := entryOf(obj{"file_path": "s3://elsewhere/t/data/c.parquet"})
	removed["status"] = 2
	deletes := entryOf(obj{"content": 1, "file_path": "s3://elsewhere/t/data/d.parquet"}) // 6
	s, err := open(t.Context(), tableOf(t, with(t, nil, []obj{data, later, removed}, []obj{deletes})).table(""))
	if err != nil || len(s.Files) != 2 || len(s.Files[0].Excluded) != 1 || len(s.Files[1].Excluded) != 0 {
		t.Fatalf("got %v, %v", s, err)
	}
	if path := s.Files[0].Excluded[0].Path; path != "s3://elsewhere/t/data/a.parquet" {
		t.Errorf("the file is spelled %s", path)
	}
	later["status"] = 0
	delete(later, "sequence_number")
	s, err = open(t.Context(), tableOf(t, with(t, nil, []obj{later}, nil)).table(""))
	says(t, s, err, "b.parquet has no sequence number")
}

// TestDeletes compares the files of deleted rows that are found of each data file with what the specification says.
func TestDeletes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in, err := newRoot("s3://b/t", "s3://b/t")
		if err != nil {
			rt.Fatal(err)
		}
		number := func(what string, most int) int { return rapid.IntRange(0, most).Draw(rt, what) }
		path := func(i int) string { return fmt.Sprintf("s3://b/t/%d", i) }
		all := &files{}
		for i := range number("data", 8) {
			all.data = append(all.data, &dataFile{
				Path: path(i), uri: path(i), sequence: int64(number("sequence", 3)), place: fmt.Sprint(number("place", 1)), Rows: 9,
			})
		}
		offset, length := int64(4), int64(1)
		for i := range number("deletes", 8) {
			d := &dataFile{
				Path: fmt.Sprintf("s3://b/t/d%d", i), Content: positions, Format: "PARQUET", Size: 9,
				sequence: int64(number("sequence", 3)), place: fmt.Sprint(number("place", 1)), Offset: &offset, Length: &length,
			}
			d.uri = d.Path
			switch number("how", 3) {
			case 0:
				to := path(number("to", 9))
				d.Referenced = &to
			case 1: // bounds, of which the upper may be cut off
				low, high := path(number("low", 9)), path(number("high", 9))
				d.Lower = []extreme{{pathID, []byte(low)}}
				d.Upper = []extreme{{pathID, []byte(high)[:len(high)-number("cut", 1)]}}
			case 2:
				to := path(i) // each file has one at most
				d.Referenced, d.Format, d.sequence = &to, "puffin", 3
			}
			all.deletes = append(all.deletes, d)
		}
		r := &reader{loader: &loader{table: &table.Table{}}, root: in}
		found, err := r.excluded(all)
		if err != nil {
			rt.Fatal(err)
		}
		for _, of := range all.data {
			var got []string
			for _, e := range found[of] {
				got = append(got, fmt.Sprint(e.Uri, e.Form))
			}
			if want := specified(of, all.deletes); !slices.Equal(got, want) {
				rt.Errorf("%+v: got %q, want %q", of, got, want)
			}
		}
	})
}

// specified are the files of deleted rows that apply to a data file, and may have rows of it.
func specified(of *dataFile, deletes []*dataFile) (all []string) {
	for _, vectors := range []bool{true, false} {
		for _, d := range deletes {
			form := pb.Excluded_ICEBERG_POSITIONS
			if d.isVector() {
				form = pb.Excluded_ICEBERG_VECTOR
			}
			low, hasLow := find(d.Lower, pathID)
			high, hasHigh := find(d.Upper, pathID)
			cut := high[:min(len(high), len(of.Path))]
			if d.isVector() == vectors && d.place == of.place && of.sequence <= d.sequence &&
				(d.Referenced == nil || *d.Referenced == of.Path) && (!hasLow || string(low) <= of.Path) &&
				(!hasHigh || of.Path[:len(cut)] <= string(cut)) {
				all = append(all, fmt.Sprint(d.Path, form))
			}
		}
		if len(all) > 0 {
			break // positions do not count beside a vector
		}
	}
	return all
}

// TestEquality refuses deletes by equality where they are of older rows of the same partition, or of all.
func TestEquality(t *testing.T) {
	one, none := &partitionSpec{Fields: []partitionField{{Transform: "day"}}}, &partitionSpec{}
	data := []*dataFile{{sequence: 3, place: "a"}, {sequence: 5, place: "b"}}
	for _, c := range []struct {
		delete  dataFile
		applies bool
	}{
		{dataFile{sequence: 4, place: "a", spec: one}, true},
		{dataFile{sequence: 3, place: "a", spec: one}, false},
		{dataFile{sequence: 5, place: "b", spec: one}, false},
		{dataFile{sequence: 9, place: "c", spec: one}, false},
		{dataFile{sequence: 4, place: "c", spec: none}, true},
		{dataFile{sequence: 3, place: "c", spec: none}, false},
	} {
		if got := newIndex(data, root{}).equality(&c.delete) != nil; got != c.applies {
			t.Errorf("%+v: got %v", c.delete, got)
		}
	}
}

// TestBounds: values come back as they were serialised, decimals between bounds.
func TestBounds(t *testing.T) {
	little := binary.LittleEndian
	same := func(t *rapid.T, data []byte, typ primitive, want expr.Value) {
		for _, upper := range []bool{false, true} {
			if got, ok := bound(data, typ, upper); !ok || !cmp.Equal(got, want) {
				t.Errorf("%s %x: got %v, %v; want %v", typ, data, got, ok, want)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		i, f := rapid.Int64().Draw(t, "i"), rapid.Float64().Draw(t, "f")
		for _, typ := range []primitive{"long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"} {
			same(t, little.AppendUint64(nil, uint64(i)), typ, expr.Int(i))
		}
		for _, typ := range []primitive{"int", "long", "date"} { // of a long that was an int, too
			same(t, little.AppendUint32(nil, uint32(i)), typ, expr.Int(int64(int32(i))))
		}
		same(t, little.AppendUint64(nil, math.Float64bits(f)), "double", expr.Float64(f))
		narrow := little.AppendUint32(nil, math.Float32bits(float32(f)))
		same(t, narrow, "float", expr.Float32(float32(f)))
		same(t, narrow, "double", expr.Float64(float64(float32(f))))
		text := rapid.String().Draw(t, "text")
		same(t, []byte(text), "string", expr.Text(text))
		same(t, []byte{byte(i & 1)}, "boolean", expr.Bool(i&1 == 1))

		scale := rapid.IntRange(0, 18).Draw(t, "scale")
		typ := primitive(fmt.Sprintf("decimal(38,%d)", scale))
		data := binary.BigEndian.AppendUint64(nil, uint64(i))
		for len(data) > 1 && (data[0] == 0 && data[1] < 0x80 || data[0] == 0xff && data[1] >= 0x80) {
			data = data[1:]
		}
		low, okLow := bound(data, typ, false)
		high, okHigh := bound(data, typ, true)
		exact, _ := new(big.Rat).SetFrac(big.NewInt(i), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).Float64()
		if v, ok := constant(data, typ); !okLow || !okHigh || !ok || low.Float > exact || high.Float < exact ||
			v.GetFloat() < low.Float || v.GetFloat() > high.Float {
			t.Errorf("%s %d: %v, %v to %v", typ, i, v, low, high)
		}
	})
	nan := little.AppendUint64(nil, math.Float64bits(math.NaN()))
	for _, c := range []struct {
		data []byte
		typ  primitive
	}{{nan, "double"}, {nil, "long"}, {nan, "int"}, {[]byte{0xff}, "string"}, {nan, "binary"}, {nil, "decimal(9,2)"}, {make([]byte, 17), "decimal(9,2)"}} {
		if v, ok := bound(c.data, c.typ, true); ok {
			t.Errorf("%s %x: got %v", c.typ, c.data, v)
		}
	}
}

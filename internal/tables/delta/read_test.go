package delta

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/tables/table"
)

// TestVectors are the examples of the protocol: of the inline one, whose text there is of an older form, the vector.
func TestVectors(t *testing.T) {
	in := root{uri: "s3://mytable", scheme: "s3", authority: "mytable"}
	four := int64(4)
	for name, c := range map[string]struct {
		v    vector
		want string
		id   string
	}{
		"relative": {
			vector{"u", "ab^-aqEH.-t@S}K{vb[*k^", &four, 40, 6},
			"s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin 4 48 6 ",
			"uab^-aqEH.-t@S}K{vb[*k^@4",
		},
		"absolute": {
			vector{"p", "s3a://mytable/a%20b.bin", nil, 40, 6},
			"s3://mytable/a b.bin 0 48 6 ",
			"ps3a://mytable/a%20b.bin",
		},
		"inline": {
			vector{"i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", nil, 44, 6},
			" 0 0 6 d1d339640100000000000000000000003a30000001000000" + "00000500100000000300040007000b0012001d00",
			"i^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
		},
	} {
		e, err := c.v.excluded(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := fmt.Sprintf("%s %d %d %d %s", e.Uri, e.Offset, e.Length, e.Rows, hex.EncodeToString(e.Content))
		if got != c.want || c.v.id() != c.id {
			t.Errorf("%s: got %s of %s, want %s of %s", name, got, c.v.id(), c.want, c.id)
		}
	}
}

// TestPaths are ways to write one file's.
func TestPaths(t *testing.T) {
	for root, paths := range map[string][]string{
		"file:///t/a b": {"x%20y", "file:/t/a%20b/x%20y", "file:///t/a%20b/x%20y", "/t/a%20b/x%20y", "x y"},
		"s3://b/a b":    {"x%20y", "s3://b/a%20b/x%20y", "s3a://b/a%20b/x%20y", "S3n://b/a b/x y", "/a%20b/x%20y"},
	} {
		in, err := newRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if got, err := in.resolve(path); got != root+"/x y" || err != nil {
				t.Errorf("%s in %s: got %q, %v", path, root, got, err)
			}
		}
	}
}

// TestTimes finds versions of times, of commits whose clocks went back.
func TestTimes(t *testing.T) {
	files := map[string]string{}
	for version, ms := range []int{1000, 3000, 2000, 9000} {
		line := fmt.Sprintf(`{"commitInfo":{"timestamp":%d}}`, ms)
		if version == 3 {
			line = `{"commitInfo":{"timestamp":1,"inCommitTimestamp":9000}}`
		}
		if files[commitName(version)] = line; version == 0 {
			files[commitName(0)] = begun(line)
		}
	}
	f := logOf(t, files)
	for at, want := range map[string]string{
		"1970-01-01T00:00:01Z": "v0", "1970-01-01T00:00:02Z": "v0", "1970-01-01T00:00:03Z": "v1",
		"1970-01-01T00:00:03.001Z": "v2", "1970-01-01T01:00:09+01:00": "v3", "2026-11-01T00:00Z": "v3", "2026-11-01": "v3",
		"": "v3", "v2": "v2", "1": "v1",
	} {
		if s, err := open(t.Context(), f.table(at)); err != nil || s.Version != want {
			t.Errorf("@%s: got %v, %v; want %s", at, s, err, want)
		}
	}
}

// TestOddRoot opens a table whose folder has characters of globs in its name.
func TestOddRoot(t *testing.T) {
	f := newFolder(t, t.TempDir()+"/a*[b]{c}")
	f.put(commitName(0), begun(addLine("x")))
	if s, err := open(t.Context(), f.table("")); err != nil || s.Files[0].Uri != "file://"+f.dir+"/x" {
		t.Errorf("got %v, %v", s, err)
	}
}

// TestSchema reads column mapping on all levels, and leaves out what cannot be read.
func TestSchema(t *testing.T) {
	mapped := func(name, typ string, id int) string {
		return fmt.Sprintf(`{"name":%q,"type":%s,"nullable":true,"metadata":{"delta.columnMapping.id":%d,
			"delta.columnMapping.physicalName":"p%d"}}`, name, typ, id, id)
	}
	text := `{"type":"struct","fields":[` + strings.Join([]string{
		mapped("a", `"decimal(20,2)"`, 1),
		mapped("s", `{"type":"struct","fields":[`+mapped("x", `"timestamp"`, 3)+`,`+mapped("v", `"void"`, 4)+`]}`, 2),
		mapped("l", `{"type":"array","elementType":{"type":"struct","fields":[`+mapped("y", `"byte"`, 6)+`]},"containsNull":true}`, 5),
		mapped("w", `"variant"`, 7),
	}, ",") + `]}`
	for mode, id := range map[string]string{"name": "", "id": "6"} {
		s, err := parseSchema(text, mode)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.columns) != 3 || len(s.notes) != 2 || !strings.Contains(s.notes[0], "column s.v is left out") {
			t.Errorf("got the columns %v and notes %q", s.columns, s.notes)
		}
		inner := s.columns[2].Type.(*arrow.ListType).Elem().(*arrow.StructType).Field(0)
		stored, _ := inner.Metadata.GetValue(table.StoredName)
		if got, _ := inner.Metadata.GetValue(table.FieldID); stored != "p6" || got != id {
			t.Errorf("mode %s: the field in a list is stored as %s, with the id %q", mode, stored, got)
		}
		if leaf := s.leaves["s.x"]; leaf == nil || strings.Join(leaf.path, ".") != "p2.p3" {
			t.Errorf("the leaf s.x is %v", leaf)
		}
	}
}

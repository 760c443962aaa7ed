package iceberg

import (
	"testing"
)

// TestRefused opens tables that must not be read, or cannot be.
func TestRefused(t *testing.T) {
	meta := func(changes obj) map[string][]byte { return metadataOnly(t, changes) }
	columns := func(fields ...any) map[string][]byte {
		return meta(obj{"schemas": []any{obj{"schema-id": 0, "fields": fields}}})
	}
	data := func(changes obj) map[string][]byte { return with(t, nil, []obj{entryOf(changes)}, nil) }
	deletes := func(changes obj) map[string][]byte {
		return with(t, nil, []obj{entryOf(nil)}, []obj{entryOf(changes)})
	}
	path := func(path string) map[string][]byte { return data(obj{"file_path": path}) }
	vector := func(offset, length, rows int) map[string][]byte {
		return deletes(obj{
			"content": 1, "file_path": "s3://elsewhere/t/data/v.puffin", "file_format": "puffin", "record_count": int64(rows),
			"file_size_in_bytes": int64(100), "referenced_data_file": "s3://elsewhere/t/data/a.parquet",
			"content_offset": int64(offset), "content_size_in_bytes": int64(length),
		})
	}
	named := func(names ...string) map[string][]byte {
		files := map[string][]byte{}
		for _, name := range names {
			files[name] = meta(nil)["v1.metadata.json"]
		}
		return files
	}
	hinted := func(hint string, files map[string][]byte) map[string][]byte {
		files["version-hint.text"] = []byte(hint)
		return files
	}
	broken := with(t, nil, []obj{entryOf(nil)}, nil)
	broken["manifest-0.avro"] = broken["manifest-0.avro"][:len(broken["manifest-0.avro"])-20]
	for name, c := range map[string]struct {
		files   map[string][]byte
		version string
		want    string
	}{
		"no metadata":        {nil, "", "no metadata lies in metadata/"},
		"no number":          {named("x.metadata.json"), "", "no metadata file whose name says its number"},
		"two newest":         {named("00002-a.metadata.json", "00002-b.metadata.json"), "", "such as …/metadata/00002-a.metadata.json, in place of the folder"},
		"hint of a number":   {hinted("7", named("v1.metadata.json")), "", "says that the version is 7"},
		"hint of a name":     {hinted("00007-x", named("v1.metadata.json")), "", `names the metadata file "00007-x"`},
		"no JSON":            {map[string][]byte{"v1.metadata.json": []byte(`{"format`)}, "", "v1.metadata.json: unexpected end"},
		"cut gzip":           {map[string][]byte{"v1.gz.metadata.json": {0x1f, 0x8b, 8}}, "", "v1.gz.metadata.json: "},
		"no format":          {map[string][]byte{"v1.metadata.json": []byte(`{}`)}, "", "no format-version"},
		"newer format":       {meta(obj{"format-version": 4}), "", "format's version 4; versions 1 to 3"},
		"no location":        {meta(obj{"location": ""}), "", "no location"},
		"nothing written":    {meta(obj{"current-snapshot-id": -1}), "", "no current snapshot: write rows to it"},
		"expired":            {meta(obj{"current-snapshot-id": 9}), "", "the snapshot 9 has expired"},
		"no such version":    {meta(nil), "nope", "@nope is no version: there are @2 of 1970-01-01T00:00:02Z, @1 of"},
		"no such snapshot":   {meta(nil), "123", "@123 is no version"},
		"too old":            {meta(nil), "1969-12-31", "no snapshot is as old as 1969-12-31T00:00:00Z: that of 1970-01-01T00:00:01Z, 1,"},
		"no log":             {meta(obj{"snapshot-log": nil}), "2026-01-01", "does not say which snapshot"},
		"of the log, gone":   {meta(obj{"snapshots": nil}), "2026-01-01", "the snapshot 2 has expired"},
		"no schema":          {meta(obj{"current-schema-id": 3}), "", "lacks the schema 3"},
		"pinned schema":      {meta(nil), "1-7", "lacks the schema 7"},
		"twice a name":       {columns(field(1, "a", "long"), field(2, "a", "long")), "", `"a" is there twice`},
		"twice an id":        {columns(field(1, "a", "long"), field(1, "b", "long")), "", "column b: its id is 1"},
		"no id":              {columns(field(0, "a", "long")), "", "column a: its id is 0"},
		"deep":               {columns(field(1, "a", nested(90))), "", "nests deeper than 64 levels"},
		"nothing to read":    {columns(field(1, "a", "variant")), "", "no columns that can be read"},
		"bad name mapping":   {meta(obj{"properties": obj{nameMapping: "{"}}), "", nameMapping},
		"no list":            {meta(nil), "", "/metadata/list, which is gone: its snapshot has expired"},
		"no Avro":            {map[string][]byte{"v1.metadata.json": meta(nil)["v1.metadata.json"], "list": []byte("x")}, "", "/metadata/list: "},
		"cut manifest":       {broken, "", "manifest-0.avro: "},
		"no spec":            {with(t, obj{"partition-specs": []any{obj{"spec-id": 3}}}, []obj{entryOf(nil)}, nil), "", "lacks the partition spec 0"},
		"encrypted":          {data(obj{"key_metadata": []byte("k")}), "", "a.parquet is encrypted"},
		"ORC":                {data(obj{"file_format": "orc"}), "", "a.parquet is a file of ORC, and Parquet alone"},
		"no path":            {path(""), "", "a file has no path"},
		"outside":            {path("s3://other/a.parquet"), "", "lies outside the table's folder"},
		"beside":             {path("s3://elsewhere/t2/a.parquet"), "", "lies outside the table's folder"},
		"above":              {path("s3://elsewhere/t/data/../../x.parquet"), "", "none of a file below the table's folder"},
		"absolute":           {path("/etc/passwd"), "", "lies outside the table's folder"},
		"no rows":            {data(obj{"record_count": int64(-1)}), "", "-1 rows"},
		"twice":              {with(t, nil, []obj{entryOf(nil), entryOf(nil)}, nil), "", "a.parquet twice"},
		"deletes among data": {data(obj{"content": 1}), "", "the content 1 in a manifest of content 0"},
		"equality":           {deletes(obj{"content": 2}), "", "deleted by equality"},
		"vector's place":     {vector(90, 20, 1), "", "v.puffin: it has 20 bytes at 90 of 100"},
		"vector overflows":   {vector(1<<62, 1<<62, 1), "", "v.puffin: it has"},
		"vector's rows":      {vector(4, 20, 4), "", "4 of the 3 rows"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t.Context(), tableOf(t, c.files).table(c.version))
			says(t, s, err, c.want)
		})
	}
}

// TestMayLackAColumn refuses what may have been written by another engine, which leaves columns of partitions out.
func TestMayLackAColumn(t *testing.T) {
	changes := partitioned("identity")
	changes["properties"] = obj{nameMapping: `[{"field-id":1,"names":["id"]},{"field-id":2,"names":["day"]}]`}
	files := with(t, changes, []obj{entryOf(obj{"partition": obj{"p": 1}})}, nil)
	s, err := open(t.Context(), tableOf(t, files).table(""))
	if err != nil || len(s.Partitions) != 1 || s.Files[0].Constants[0].Value.GetInt() != 1 {
		t.Fatalf("got %v, %v", s, err)
	}
	changes["schemas"] = []any{obj{"schema-id": 0, "fields": []any{field(1, "id", "long"), field(2, "day", "uuid")}}}
	files = with(t, changes, []obj{entryOf(obj{"partition": obj{"p": 1}})}, nil)
	s, err = open(t.Context(), tableOf(t, files).table(""))
	says(t, s, err, "it may lack the column day")
}

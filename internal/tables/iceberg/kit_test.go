package iceberg

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// obj is an object of JSON, or a record of Avro.
type obj = map[string]any

// plainMetadata is that of a table with one column, the snapshot 1 and the snapshot 2.
func plainMetadata(changes obj) obj {
	m := obj{
		"format-version": 2, "location": "s3://elsewhere/t", "current-schema-id": 0, "current-snapshot-id": 2,
		"schemas":         []any{obj{"schema-id": 0, "type": "struct", "fields": []any{field(1, "id", "long")}}},
		"partition-specs": []any{obj{"spec-id": 0, "fields": []any{}}},
		"snapshots": []any{
			obj{"snapshot-id": 1, "timestamp-ms": 1000, "schema-id": 0, "manifest-list": "s3://elsewhere/t/metadata/list"},
			obj{"snapshot-id": 2, "timestamp-ms": 2000, "schema-id": 0, "manifest-list": "s3://elsewhere/t/metadata/list"},
		},
		"snapshot-log": []any{obj{"snapshot-id": 1, "timestamp-ms": 1000}, obj{"snapshot-id": 2, "timestamp-ms": 2000}},
		"refs":         obj{"main": obj{"snapshot-id": 2, "type": "branch"}, "old": obj{"snapshot-id": 1, "type": "tag"}},
	}
	maps.Copy(m, changes)
	return m
}

func field(id int, name string, typ any) obj {
	return obj{"id": id, "name": name, "required": false, "type": typ}
}

// A manifest list and a manifest, as the specification has them, of a table that is partitioned by p.
const (
	listSchema = `{"type":"record","name":"manifest_file","fields":[
		{"name":"manifest_path","type":"string","field-id":500},{"name":"manifest_length","type":"long","field-id":501},
		{"name":"partition_spec_id","type":"int","field-id":502},{"name":"content","type":"int","field-id":517},
		{"name":"sequence_number","type":"long","field-id":515}]}`
	entrySchema = `{"type":"record","name":"manifest_entry","fields":[
		{"name":"status","type":"int","field-id":0},
		{"name":"sequence_number","type":["null","long"],"default":null,"field-id":3},
		{"name":"data_file","field-id":2,"type":{"type":"record","name":"r2","fields":[
			{"name":"content","type":"int","field-id":134},{"name":"file_path","type":"string","field-id":100},
			{"name":"file_format","type":"string","field-id":101},
			{"name":"partition","field-id":102,"type":{"type":"record","name":"r102","fields":[
				{"name":"p","type":["null",{"type":"int","logicalType":"date"}],"default":null,"field-id":1000}]}},
			{"name":"record_count","type":"long","field-id":103},
			{"name":"file_size_in_bytes","type":"long","field-id":104},
			{"name":"lower_bounds","field-id":125,"default":null,"type":["null",{"type":"array","logicalType":"map","items":
				{"type":"record","name":"k126_v127","fields":[{"name":"key","type":"int"},{"name":"value","type":"bytes"}]}}]},
			{"name":"referenced_data_file","type":["null","string"],"default":null,"field-id":143},
			{"name":"content_offset","type":["null","long"],"default":null,"field-id":144},
			{"name":"content_size_in_bytes","type":["null","long"],"default":null,"field-id":145},
			{"name":"key_metadata","type":["null","bytes"],"default":null,"field-id":131}]}}]}`
)

// avroOf is a file of records.
func avroOf(t testing.TB, schema string, records ...obj) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := ocf.NewWriter(&out, avro.MustParse(schema), ocf.WithSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// entryOf is that of a data file, with changes.
func entryOf(changes obj) obj {
	file := obj{
		"content": 0, "file_path": "s3://elsewhere/t/data/a.parquet", "file_format": "PARQUET", "partition": obj{"p": nil},
		"record_count": int64(3), "file_size_in_bytes": int64(1),
	}
	maps.Copy(file, changes)
	return obj{"status": 1, "data_file": file}
}

// folder is a table in a directory, whose location is another.
type folder struct {
	dir     string
	storage *storage.Store
}

// tableOf is a table whose metadata/ has some files.
func tableOf(t testing.TB, files map[string][]byte) folder {
	t.Helper()
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	f := folder{t.TempDir(), st}
	if err := os.Mkdir(filepath.Join(f.dir, "metadata"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(f.dir, "metadata", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f folder) table(version string) *table.Table {
	return &table.Table{Storage: f.storage, Root: "file://" + f.dir, Version: version}
}

// metadataOnly is a table of which all but the metadata file may be missing.
func metadataOnly(t testing.TB, changes obj) map[string][]byte {
	t.Helper()
	content, err := json.Marshal(plainMetadata(changes))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"v1.metadata.json": content}
}

// with is a table of which a manifest of data files, and one of deletes, have some entries.
func with(t testing.TB, changes obj, data, deletes []obj) map[string][]byte {
	t.Helper()
	files := metadataOnly(t, changes)
	var list []obj
	for content, entries := range [][]obj{data, deletes} {
		name := fmt.Sprintf("manifest-%d.avro", content)
		files[name] = avroOf(t, entrySchema, entries...)
		list = append(list, obj{
			"manifest_path": "s3a://elsewhere/t/metadata/" + name, "manifest_length": int64(len(files[name])),
			"partition_spec_id": 0, "content": content, "sequence_number": int64(5 + content),
		})
	}
	files["list"] = avroOf(t, listSchema, list...)
	return files
}

func partitioned(transform string) obj {
	return obj{
		"schemas": []any{obj{"schema-id": 0, "type": "struct", "fields": []any{field(1, "id", "long"), field(2, "day", "date")}}},
		"partition-specs": []any{obj{"spec-id": 0, "fields": []any{
			obj{"field-id": 1000, "source-id": 2, "name": "p", "transform": transform},
		}}},
	}
}

// nested is a type in so many lists.
func nested(levels int) any {
	var t any = "long"
	for i := range levels {
		t = obj{"type": "list", "element-id": 100 + i, "element": t}
	}
	return t
}

func says(t *testing.T, s *table.Snapshot, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, %v; want an error that says %q", s, err, want)
	}
}

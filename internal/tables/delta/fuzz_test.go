package delta

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// FuzzCommit replays commits of any bytes: what is found lies below the table.
func FuzzCommit(f *testing.F) {
	for _, name := range []string{"partitioned", "spark-dv-with-columnmapping", "evolved", "spark-log-replay-dv-key-cases"} {
		all, err := filepath.Glob("testdata/tables/" + name + logDir + "*.json")
		if err != nil || len(all) == 0 {
			f.Fatal(name, err)
		}
		for _, file := range all {
			content, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		actions, err := parseLines(content)
		if err != nil {
			return
		}
		checkSnapshot(t, actions)
	})
}

// checkSnapshot replays actions, after a first commit.
func checkSnapshot(t *testing.T, actions []action) {
	first, err := parseLines([]byte(begun()))
	if err != nil {
		t.Fatal(err)
	}
	in, err := newRoot("s3://bucket/table")
	if err != nil {
		t.Fatal(err)
	}
	r := newReplay(in, func(int64) error { return nil })
	for _, commit := range [][]action{actions, first} {
		if backwards(commit, 0, r.apply) != nil {
			return
		}
	}
	s, err := r.snapshot(0)
	if err != nil {
		return
	}
	for _, file := range s.Files {
		uris := []string{file.Uri}
		for _, e := range file.Excluded {
			if e.Uri != "" {
				uris = append(uris, e.Uri)
			}
		}
		for _, uri := range uris {
			if !strings.HasPrefix(uri, "s3://bucket/table/") || strings.Contains(uri+"/", "/../") {
				t.Errorf("%s is read", uri)
			}
		}
		if len(file.Constants) != len(s.Partitions) {
			t.Errorf("%s has the constants %v of %v", file.Uri, file.Constants, s.Partitions)
		}
		for _, column := range s.Schema.Fields() {
			if stats, ok := file.Stats(column.Name); ok && (stats.Nulls > stats.Rows || stats.Rows < 0) {
				t.Errorf("%s: %+v", column.Name, stats)
			}
		}
	}
}

// FuzzCheckpoint reads Parquet files of any bytes.
func FuzzCheckpoint(f *testing.F) {
	f.Add(parquetOf(f, []rowOf{
		{Protocol: &protocolRow{3, []string{"deletionVectors"}}},
		{Remove: &removeRow{"x"}},
		{Add: &addRow{"a", map[string]string{"p": "1"}, 1, &vectorRow{"i", "00000", nil, 4, 1}}},
	}))
	all, err := filepath.Glob("testdata/tables/*" + logDir + "*.checkpoint*.parquet")
	if err != nil || len(all) == 0 {
		f.Fatal(err)
	}
	for _, file := range all {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		l := &loader{table: &table.Table{Storage: storage.InMemory(content), Root: "s3://bucket/table"}}
		file := &pb.File{Uri: "s3://bucket/table/_delta_log/x.parquet", Size: int64(len(content))}
		var actions []action
		err := l.parquet(context.Background(), file, func(a *action) error {
			actions = append(actions, *a)
			return nil
		})
		if err == nil {
			checkSnapshot(t, actions)
		}
	})
}

// FuzzSchema reads schemas of any bytes.
func FuzzSchema(f *testing.F) {
	f.Add(partitionSchema, "")
	f.Add(`{"type":"struct","fields":[{"name":"a","type":{"type":"map","keyType":"string","valueType":"decimal(3,1)"},`+
		`"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"b"}}]}`, "id")
	f.Fuzz(func(t *testing.T, text, mapping string) {
		s, err := parseSchema(text, mapping)
		if err != nil {
			return
		}
		for _, c := range s.columns {
			_ = c.Type.String()
		}
	})
}

// FuzzMember compares finding a name in JSON with decoding it.
func FuzzMember(f *testing.F) {
	f.Add(`{"a":{"b":"}\\","c":[1,{"a":2}]}, "\u0061" : 3 ,"":null}`, "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		var want map[string]json.RawMessage
		if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
			return
		}
		err := json.Unmarshal([]byte(text), &want)
		var raw json.RawMessage
		_ = json.Unmarshal([]byte(text), &raw) // without what surrounds it
		if got := member(raw, name); string(got) != string(want[name]) || err != nil && got != nil {
			t.Errorf("got %s, want %s", got, want[name])
		}
	})
}

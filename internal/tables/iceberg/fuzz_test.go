package iceberg

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/tables/table"
)

// FuzzMetadata reads metadata files: whatever they say, what is found is consistent, or there is an error.
func FuzzMetadata(f *testing.F) {
	for _, path := range golden(f, "*.metadata.json") {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, "main")
	}
	f.Add(metadataOnly(f, nil)["v1.metadata.json"], "1970-01-01T00:00:02Z")
	f.Fuzz(func(t *testing.T, content []byte, named string) {
		content, err := plain(content)
		if err != nil {
			return
		}
		m, err := parseMetadata(content)
		if err != nil {
			return
		}
		for _, name := range []string{"", named} {
			v, err := m.version(name)
			if err != nil {
				continue
			}
			again, err := m.version(v.String())
			if err == nil && (again.ID != v.ID || again.schema != v.schema) {
				t.Errorf("@%s is %s, and that %s", name, v, again)
			}
			names, err := parseMapping(m.Properties[nameMapping])
			if err != nil {
				continue
			}
			if of, err := m.schema(v.schema); err == nil {
				_, _ = newSchema(of, names)
			}
		}
	})
}

// FuzzManifest reads manifest lists and manifests, and what follows of them.
func FuzzManifest(f *testing.F) {
	for _, path := range golden(f, "*.avro") {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, 1)
	}
	for _, content := range with(f, partitioned("identity"), []obj{entryOf(obj{"partition": obj{"p": 7}})}, nil) {
		f.Add(content, 0)
	}
	in, err := newRoot("s3://b/t", "file:///tmp/golden")
	if err != nil {
		f.Fatal(err)
	}
	meta, err := parseMetadata(metadataOnly(f, partitioned("identity"))["v1.metadata.json"])
	if err != nil {
		f.Fatal(err)
	}
	keep := func(int64) error { return nil }
	f.Fuzz(func(t *testing.T, content []byte, kind int) {
		_, _ = parseList(content, keep)
		r := &reader{loader: &loader{table: &table.Table{}}, metadata: meta, root: in}
		m := &manifest{manifestFile: &manifestFile{Content: kind & 1, Sequence: 1}, reader: r}
		if m.parse(content) != nil {
			return
		}
		all := &files{data: m.found}
		if kind&1 == ofDeletes {
			all = &files{deletes: m.found, data: []*dataFile{{place: "0", spec: &meta.Specs[0], Path: "x", uri: in.uri + "/x"}}}
		}
		s, err := newSchema(&meta.Schemas[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		st := &state{reader: r, schema: s}
		if st.deleted, err = r.excluded(all); err != nil {
			return
		}
		st.partitions(all.data)
		out, err := st.files(all.data)
		for _, of := range out {
			if err == nil && !strings.HasPrefix(of.Uri, in.uri+"/") {
				t.Errorf("the file %s", of.Uri)
			}
			for _, column := range []string{"id", "day", "none"} {
				of.Stats(column)
			}
		}
	})
}

// FuzzOpen opens a table whose files of metadata are anything.
func FuzzOpen(f *testing.F) {
	files := with(f, nil, []obj{entryOf(nil)}, nil)
	f.Add(files["v1.metadata.json"], files["list"], files["manifest-0.avro"])
	f.Fuzz(func(t *testing.T, meta, list, manifest []byte) {
		at := tableOf(t, map[string][]byte{"v1.metadata.json": meta, "list": list, "manifest-0.avro": manifest})
		s, err := open(context.Background(), at.table(""))
		if (s == nil) == (err == nil) {
			t.Errorf("got %v, %v", s, err)
		}
	})
}

// golden are files of tables that others wrote.
func golden(f *testing.F, pattern string) []string {
	f.Helper()
	all, err := filepath.Glob(filepath.Join("testdata/tables/*/metadata", pattern))
	if err != nil || len(all) == 0 {
		f.Fatal(all, err)
	}
	return all
}

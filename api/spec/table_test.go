package spec

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestTableURIs(t *testing.T) {
	for uri, want := range map[string]TableURI{
		"delta+s3://bucket/table":             {"delta", "s3://bucket/table", ""},
		"delta+s3://bucket/table@v12":         {"delta", "s3://bucket/table", "v12"},
		"delta+data/table@2026-11-01T00:00Z":  {"delta", "data/table", "2026-11-01T00:00Z"},
		"iceberg+gs://b/t@main":               {"iceberg", "gs://b/t", "main"},
		"delta+s3://b/a@b@":                   {"delta", "s3://b/a@b", ""},
		"delta+abfss://c@a.dfs.x.net/t":       {"delta", "abfss://c@a.dfs.x.net/t", ""},
		"delta+hf://datasets/o/n@main/t":      {"delta", "hf://datasets/o/n@main/t", ""},
		"delta+abfss://c@a.dfs.x.net/t/@v1":   {"delta", "abfss://c@a.dfs.x.net/t/", "v1"},
		"delta+abfss://c@a.dfs.x.net/t/@v1/x": {"delta", "abfss://c@a.dfs.x.net/t/@v1/x", ""},
	} {
		got, ok := ParseTable(uri)
		if !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", uri, got, ok, want)
		}
		if again, _ := ParseTable(got.String()); again != got {
			t.Errorf("%s: written as %s, which is %+v", uri, got, again)
		}
	}
	for _, uri := range []string{"", "s3://bucket/delta+x", "deltas+s3://b/t", "data/delta+t", "delta"} {
		if got, ok := ParseTable(uri); ok {
			t.Errorf("%s is taken for a table, %+v", uri, got)
		}
	}
}

func TestPathsOfTables(t *testing.T) {
	s := &pb.Spec{Dataset: &pb.Dataset{Uri: []string{"delta+data/t@v1", "delta+/data/t", "delta+s3://b/t", "data/t"}}}
	ResolvePaths(s, "/home/me")
	want := []string{"delta+/home/me/data/t@v1", "delta+/data/t", "delta+s3://b/t", "/home/me/data/t"}
	for i, uri := range s.GetDataset().GetUri() {
		if uri != want[i] || IsRelative(uri) {
			t.Errorf("%s, want %s", uri, want[i])
		}
	}
}

func TestAtVersion(t *testing.T) {
	for _, tc := range []struct{ uri, of, want string }{
		{"delta+/t", "delta+/t@v3", "delta+/t@v3"},
		{"delta+/t@v2", "delta+/t@v3", "delta+/t@v2"},
		{"delta+/other", "delta+/t@v3", "delta+/other"},
		{"iceberg+/t", "delta+/t@v3", "iceberg+/t"},
		{"delta+/t", "", "delta+/t"},
		{"/t", "delta+/t@v3", "/t"},
	} {
		s := &pb.Spec{Dataset: &pb.Dataset{Uri: []string{tc.uri}}}
		if got := AtVersion(s, tc.of).GetDataset().GetUri()[0]; got != tc.want {
			t.Errorf("%s like %s: %s, want %s", tc.uri, tc.of, got, tc.want)
		}
		if s.GetDataset().GetUri()[0] != tc.uri {
			t.Errorf("the spec that was given is another one")
		}
	}
}

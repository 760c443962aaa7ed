package spec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestTableURIs(t *testing.T) {
	for uri, want := range map[string]TableURI{
		"delta+s3://bucket/table":             {Prefix: "delta", Root: "s3://bucket/table", Version: ""},
		"delta+s3://bucket/table@v12":         {Prefix: "delta", Root: "s3://bucket/table", Version: "v12"},
		"delta+data/table@2026-11-01T00:00Z":  {Prefix: "delta", Root: "data/table", Version: "2026-11-01T00:00Z"},
		"iceberg+gs://b/t@main":               {Prefix: "iceberg", Root: "gs://b/t", Version: "main"},
		"delta+s3://b/a@b@":                   {Prefix: "delta", Root: "s3://b/a@b", Version: ""},
		"delta+abfss://c@a.dfs.x.net/t":       {Prefix: "delta", Root: "abfss://c@a.dfs.x.net/t", Version: ""},
		"delta+hf://datasets/o/n@main/t":      {Prefix: "delta", Root: "hf://datasets/o/n@main/t", Version: ""},
		"delta+abfss://c@a.dfs.x.net/t/@v1":   {Prefix: "delta", Root: "abfss://c@a.dfs.x.net/t/", Version: "v1"},
		"delta+abfss://c@a.dfs.x.net/t/@v1/x": {Prefix: "delta", Root: "abfss://c@a.dfs.x.net/t/@v1/x", Version: ""},
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

// TestTablesStayAtTheirVersion: what found a version names it from then on, however the table's folder is spelled, and
// nothing else does.
func TestTablesStayAtTheirVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folder := rapid.SampledFrom([]string{"/data/t", "/data/a@b", "s3://bucket/t", "s3://bucket/day=3"}).Draw(t, "folder")
		spell := func(label string) string {
			root := folder
			if strings.HasPrefix(root, "/") && rapid.Bool().Draw(t, label+" has a scheme") {
				root = "file://" + root
			}
			return root + rapid.SampledFrom([]string{"", "/"}).Draw(t, label+" ends")
		}
		asked := rapid.SampledFrom([]string{"", "2026-11-01T00:00Z", "main", "v3", "3"}).Draw(t, "asked")
		first := TableURI{Prefix: "delta", Root: spell("first"), Version: asked}
		found := first.At("v3")
		if again, ok := ParseTable(found.String()); !ok || again != found || again.At("v3") != found {
			t.Fatalf("%s becomes %s, which is read as %+v", first, found, again)
		}
		second := TableURI{Prefix: "delta", Root: spell("second"), Version: asked}
		s := &pb.Spec{Dataset: &pb.Dataset{Uri: []string{second.String()}}}
		if got := TableOf(AtVersion(s, found.String())); asked != "v3" && got != found.String() {
			t.Errorf("%s is read as %s, not as %s", second, got, found)
		}
		other := rapid.SampledFrom([]TableURI{
			{Prefix: "iceberg", Root: folder, Version: asked},
			{Prefix: "delta", Root: folder + "2", Version: asked},
			{Prefix: "delta", Root: folder, Version: "v4"},
			{Prefix: "delta", Root: folder, Version: "2026-11-02"},
			{Prefix: "delta", Root: folder, Version: "v4", Asked: "main"},
		}).Draw(t, "other")
		s.Dataset.Uri = []string{other.String()}
		if got := AtVersion(s, found.String()); got != s {
			t.Errorf("%s is read as %s", other, TableOf(got))
		}
	})
}

package spec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

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

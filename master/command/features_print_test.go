package command

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestPrintFeatures(t *testing.T) {
	now := time.Now().UnixMilli()
	d := &pb.DatasetReads{
		Prefix: "s3://b/t/", Prefixes: 2, SinceUnixMs: now, ReadUnixMs: now, Sessions: 4, Rows: 3000, Bytes: 1 << 20,
		DroppedSets: 7,
		Columns: &pb.FileColumns{Files: 3, Extents: 1, More: 9, Columns: []*pb.FileColumn{
			{Name: "a", Bytes: 1 << 20},
			{Name: "g\x1b[8m\n", Bytes: 1 << 20},
			{Name: "b", Bytes: 1 << 20},
			{Name: "tree", Bytes: 1 << 10, Unsupported: "a list of lists"},
		}},
		Features: []*pb.FeatureReads{
			{Name: "b", Rows: 1000, Sessions: 1, ReadUnixMs: now}, {Name: "a", Rows: 3000, Sessions: 4, ReadUnixMs: now},
		},
		Sets: []*pb.FeatureSet{
			{Features: []byte{3}, Rows: 1000, Sessions: 1, ReadUnixMs: now},
			{Features: []byte{2}, Rows: 2000, Sessions: 3, ReadUnixMs: now},
		},
	}
	var out strings.Builder
	if err := (&readFeatures{limit: 1}).print(&out, d); err != nil {
		t.Fatal(err)
	}
	want := `dataset      s3://b/t/, of which 2 directories were read
read         by 4 sessions since TIME, last now: 3,000 rows, 1.0 MiB
columns      2 of 4 were read, of 3 files looked at; the others are 1.0 MiB of the 3.0 MiB stored there
             9 columns more are not looked at
left out     0 features and 7 sets that were read longest ago
a row group  sessions want 1.3 MiB of it, and read 1.3 MiB in 1.3 requests; with the columns as --order prints them, 1.3 MiB in 1.0

FEATURE  SESSIONS  ROWS   BYTES  LAST READ
a        4         3,000  0 B    now
and 1 more; --limit 0 prints all

TOGETHER  SESSIONS  ROWS   BYTES  LAST READ
a         3         2,000  0 B    now
and 1 more; --limit 0 prints all

NEVER READ    STORED   NOTE
"g\x1b[8m\n"  1.0 MiB  
and 1 more; --limit 0 prints all
`
	got := strings.Replace(out.String(), time.UnixMilli(now).Format(time.DateTime), "TIME", 1)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	if err := printOrder(&out, d); err != nil || out.String() != "a\nb\n\"g\\x1b[8m\\n\"\ntree\n" {
		t.Errorf("order %q, %v", out.String(), err)
	}
	if err := printOrder(&out, &pb.DatasetReads{}); err == nil {
		t.Error("an order of nothing")
	}
}

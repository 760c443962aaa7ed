package convert

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// TestBuckets converts what lies in S3: folders, globs, text longer than what is read at once, and Parquet.
func TestBuckets(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	m.MakeBucket(t, "inputs")
	m.Put(t, "inputs", "text/day/1.csv", []byte("x,s\n1,"+strings.Repeat("v", aheadBytes)+"\n2,w\n"))
	m.Put(t, "inputs", "text/day/2.csv.gz", nil)
	m.Put(t, "inputs", "text/more.tsv", []byte("x\ts\n3\tu\n"))
	m.Put(t, "inputs", "text/notes.md", []byte("#"))
	m.PutFile(t, "inputs", "parquet/a.parquet",
		parquetFile(t, `[{"x": 1}, {"x": null}, {"x": 3}]`, nullable("x", arrow.PrimitiveTypes.Int64)))
	store := newStore(t)

	r := run(t, Options{Store: store, Inputs: []string{"s3://inputs/text/"}})
	rows := table(t, r.Files...)
	if len(rows) != 4 || rows[2] != "2|w" || rows[3] != "3|u" || len(rows[1]) != len("1|")+aheadBytes {
		t.Errorf("%d rows", len(rows)-1)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "s3://inputs/text/notes.md") {
		t.Errorf("notes %q", r.Notes)
	}
	r = run(t, Options{Store: store, Inputs: []string{"s3://inputs/text/m*.tsv", "s3://inputs/text/m*.tsv"}})
	expect(t, table(t, r.Files...), "x int64, s utf8", "3|u", "3|u")
	r = run(t, Options{Store: store, Inputs: []string{"s3://inputs/parquet"}})
	expect(t, table(t, r.Files...), "x int64", "1", "(null)", "3")
}

// TestTableInBucket converts a table whose files, and deletion vectors, get their ETags from the store.
func TestTableInBucket(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	m.MakeBucket(t, "lake")
	local := filepath.Join(deltaTables, "spark-log-replay-dv-key-cases")
	err := fs.WalkDir(os.DirFS(local), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			m.PutFile(t, "lake", "t/"+name, filepath.Join(local, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{Store: newStore(t), Inputs: []string{"delta+s3://lake/t"}})
	expectEqual(t, Options{Inputs: r.Files}, Options{Inputs: []string{"delta+" + local}})
}

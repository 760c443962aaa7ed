package delta_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
	"github.com/penstock-ml/penstock/internal/tables/delta"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// TestS3 opens tables where listings are flat and names are keys.
func TestS3(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	m.MakeBucket(t, "lake")
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	names := []string{"partitioned", "spark-v2-checkpoint-json", "spark-multi-part-checkpoint"}
	for _, name := range names {
		dir := os.DirFS(filepath.Join("testdata/tables", name))
		err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := fs.ReadFile(dir, path)
			m.Put(t, "lake", name+"/"+path, content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		open := func(root string) string {
			s, err := delta.Kind().Open(t.Context(), &table.Table{Storage: st, Root: root})
			if err != nil {
				t.Fatal(err)
			}
			var uris []string
			for _, f := range s.Files {
				uris = append(uris, strings.TrimPrefix(f.GetUri(), root))
				if found, err := st.List(t.Context(), "", []string{storage.Quote(f.GetUri())}); err != nil {
					t.Errorf("%v, %v", found, err)
				}
			}
			return strings.Join(uris, "\n")
		}
		local, err := filepath.Abs(filepath.Join("testdata/tables", name))
		if err != nil {
			t.Fatal(err)
		}
		if want, got := open("file://"+local), open("s3://lake/"+name); got != want || got == "" {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

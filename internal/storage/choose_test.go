package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/splits"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// folderOf makes a folder with files, each of which holds its name.
func folderOf(t *testing.T, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSplitOfAFolder(t *testing.T) {
	s := storagetest.New(t, storage.Config{})
	dir := folderOf(t, "en/train.csv", "en/test.csv", "en/notes.md", "fr/a.parquet", "fr/dataset_info.json", "LICENSE")
	const readme = "---\nconfigs:\n- {config_name: en, data_dir: en, default: true}\n" +
		"- {config_name: fr, data_files: 'fr/*'}\n---\n"
	for _, of := range []struct{ readme, split, subset, want string }{
		{"", "train", "", "en/train.csv"},
		{"", "all", "default", "en/test.csv en/train.csv"},
		{"", "", "default", "dataset.split: there are the splits train and test"},
		{"", "dev", "", `no split "dev"`},
		{"", "train", "en", `no subset "en"`},
		{readme, "train", "", "en/train.csv"},
		{readme, "", "fr", "fr/a.parquet"},
		{readme, "test", "fr", `no split "test"`},
		{readme, "", "de", `no subset "de"`},
		{"---\nconfigs: [\n---\n", "train", "", "README.md: the YAML at its beginning is damaged"},
		{"---\nconfigs:\n- {config_name: x, data_files: [en/train.csv, en/notes.md]}\n---\n", "train", "", "the file en/notes.md"},
		{"---\nconfigs:\n- {config_name: x, data_files: [en/train.csv, fr/a.parquet]}\n---\n", "train", "", "several formats"},
		{"---\nconfigs:\n- {config_name: x, data_files: 'en/*.md'}\n---\n", "train", "", "no files of a format"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(of.readme), 0o644); err != nil {
			t.Fatal(err)
		}
		files, _, err := storage.Tell(t.Context(), s, &pb.Dataset{Uri: []string{dir}, Split: of.split, Subset: of.subset})
		var names []string
		for i, f := range files {
			names = append(names, strings.TrimPrefix(f.GetUri(), "file://"+dir+"/"))
			if int(f.GetIndex()) != i {
				t.Errorf("%+v: file %d has index %d", of, i, f.GetIndex())
			}
		}
		if got := strings.Join(names, " "); got != of.want && (err == nil || !strings.Contains(err.Error(), of.want)) {
			t.Errorf("%+v: %q, %v", of, got, err)
		}
	}
}

// TestSplitOfWhatIsNoFolder: a split is one of a single folder.
func TestSplitOfWhatIsNoFolder(t *testing.T) {
	s := storagetest.New(t, storage.Config{})
	dir := folderOf(t, "train.csv", "test.csv")
	for want, uris := range map[string][]string{
		"name one URI": {dir, dir}, "no wildcards": {dir + "/*"}, "name the folder": {dir + "/train.csv"},
	} {
		_, _, err := storage.Tell(t.Context(), s, &pb.Dataset{Uri: uris, Split: "train"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", uris, err, want)
		}
	}
	files, left, err := storage.Tell(t.Context(), s, &pb.Dataset{Uri: []string{dir}})
	if err != nil || len(files) != 2 || left.Splits.String() != "test, train" {
		t.Errorf("without a split: %v, %v, %v", files, left, err)
	}
	var of *splits.Error
	_, _, err = storage.Tell(t.Context(), s, &pb.Dataset{Uri: []string{dir}, Split: "x"})
	if !errors.As(err, &of) || of.Field != "split" {
		t.Error(err)
	}
}

package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage"
)

// isParquet tells Parquet files by their name.
func isParquet(name string) bool {
	return slices.Contains([]string{".parquet", ".parq", ".pq"}, path.Ext(strings.ToLower(name)))
}

// expand replaces folders by the files below them, in the order of their names, and tells what it left out.
func expand(inputs []string) (files, notes []string, err error) {
	for _, in := range inputs {
		if strings.Contains(in, "://") {
			return nil, nil, fmt.Errorf("%s: convert reads files of this machine; copy them here first", in)
		}
		info, err := os.Stat(in)
		if err != nil {
			return nil, nil, err
		}
		if info.Mode().IsRegular() {
			files = append(files, in)
			continue
		}
		if !info.IsDir() {
			return nil, nil, fmt.Errorf(
				"%s is no regular file, and inputs are read more than once: write it to one first", in)
		}
		f := folder{root: in}
		if err := filepath.WalkDir(in+"/", f.visit); err != nil {
			return nil, nil, err
		}
		if len(f.files) == 0 {
			return nil, nil, fmt.Errorf(
				"folder %s has no file that ends in .csv, .tsv, .tab, .txt, .parquet, .parq or .pq%s", in, f.others())
		}
		files = append(files, f.files...)
		if f.left > 0 {
			notes = append(notes, "left out of "+in+f.others())
		}
	}
	return files, notes, nil
}

// folder is what was found below one.
type folder struct {
	root, example string
	files         []string
	left          int // files that are not for converting; one is the example
}

// others tells of the files left out.
func (f *folder) others() string {
	switch f.left {
	case 0:
		return ""
	case 1:
		return ": " + f.example
	}
	return fmt.Sprintf(": %d files, such as %s", f.left, f.example)
}

func (f *folder) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	base := d.Name()
	hidden := strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
	switch {
	case filepath.Clean(name) == filepath.Clean(f.root):
		return nil
	case d.IsDir() && hidden:
		f.leave(name)
		return fs.SkipDir
	case d.IsDir() && strings.Contains(base, "="):
		return fmt.Errorf(
			"folder %s stands for a column that its files lack, which would be lost; convert each such folder to "+
				"one of the same name", name)
	case d.IsDir():
		return nil
	case hidden || !isParquet(base) && !storage.IsText(base):
		f.leave(name)
		return nil
	}
	info, err := os.Stat(name) // of what a link leads to
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		f.leave(name)
		return nil
	}
	f.files = append(f.files, name)
	return err
}

func (f *folder) leave(name string) {
	f.left++
	f.example = name
}

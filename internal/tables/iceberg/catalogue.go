package iceberg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

const (
	metadataDir = "/metadata/"
	hintName    = "version-hint.text"
)

// Names of metadata files: those of tables in a plain folder, and those that catalogues have written.
var (
	isVersioned = regexp.MustCompile(`^v(\d{1,18})(?:\.gz)?\.metadata\.json(?:\.gz)?$`)
	isNumbered  = regexp.MustCompile(`^(\d{1,18})-.+?(?:\.gz)?\.metadata\.json(?:\.gz)?$`)
)

// isMetadata reports whether a name is one of a metadata file.
func isMetadata(name string) bool {
	return strings.HasSuffix(name, ".metadata.json") || strings.HasSuffix(name, ".metadata.json.gz")
}

// inFolder finds the newest metadata file of a table that no other catalogue has: the URI is its own, or that of the
// table's folder.
func (l *loader) inFolder(ctx context.Context) (located, error) {
	uri := l.table.Root
	if dir, name := path.Split(uri); isMetadata(name) {
		root, ok := strings.CutSuffix(dir, metadataDir)
		if !ok {
			return located{}, fmt.Errorf("it lies in %s, and not in metadata/ of the table's folder", dir)
		}
		return located{uri, root}, nil
	}
	dir := uri + metadataDir
	ours := func(name string) bool { return isMetadata(name) || name == hintName }
	found, err := l.find(ctx, dir, "metadata.json", ours)
	switch {
	case errors.Is(err, object.ErrNoFolders):
		return located{}, errors.New("web servers do not list folders: name the newest metadata file, " +
			".../metadata/….metadata.json")
	case errors.Is(err, fs.ErrNotExist):
		return located{}, fmt.Errorf("no metadata lies in metadata/: name the folder that has it%s (%w)",
			hintOfAt(uri), err)
	case err != nil:
		return located{}, err
	}
	hint, err := l.hint(ctx, dir, found)
	if err != nil {
		return located{}, err
	}
	name, err := newest(names(found, dir), hint)
	return located{dir + name, uri}, err
}

// hintOfAt says why the folder may have another name than was meant: behind its last "@" stands no version.
func hintOfAt(uri string) string {
	if !strings.Contains(uri, "@") {
		return ""
	}
	return "; of a branch or tag with an \"@\", \"=\" or \"/\" in its name, name the snapshot by its id"
}

func names(files []*pb.File, dir string) (all []string) {
	for _, f := range files {
		all = append(all, strings.TrimPrefix(f.GetUri(), dir))
	}
	return all
}

// hint reads what version-hint.text says; "": nothing does.
func (l *loader) hint(ctx context.Context, dir string, found []*pb.File) (string, error) {
	i := slices.IndexFunc(found, func(f *pb.File) bool { return f.GetUri() == dir+hintName })
	if i < 0 {
		return "", nil
	}
	content, err := l.content(ctx, found[i], 1)
	return strings.TrimSpace(string(content)), err
}

// newest chooses among the names of metadata files. A hint is a number, which may be behind, or a file's name.
func newest(all []string, hint string) (string, error) {
	number, err := strconv.ParseInt(strings.TrimPrefix(hint, "v"), 10, 64)
	if hint != "" && err != nil {
		for _, name := range []string{hint, hint + ".metadata.json", hint + ".metadata.json.gz"} {
			if isMetadata(name) && slices.Contains(all, name) {
				return name, nil
			}
		}
		return "", fmt.Errorf("metadata/%s names the metadata file %.200q, which is not there: restore it, or name a "+
			"metadata file by its URI", hintName, hint)
	}
	of := isNumbered
	if hint != "" || slices.ContainsFunc(all, isVersioned.MatchString) {
		of = isVersioned
	}
	type candidate struct {
		name   string
		number int64
	}
	var candidates []candidate
	for _, name := range all {
		if m := of.FindStringSubmatch(name); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64) // at most 18 digits
			candidates = append(candidates, candidate{name, n})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
	})
	switch {
	case hint != "" && (len(candidates) == 0 || candidates[0].number < number):
		return "", fmt.Errorf("metadata/%s says that the version is %d, and metadata/v%d.metadata.json is not there: "+
			"restore it, or name a metadata file by its URI", hintName, number, number)
	case len(candidates) == 0:
		return "", errors.New("metadata/ has no metadata file whose name says its number: name one by its URI")
	case len(candidates) > 1 && candidates[0].number == candidates[1].number:
		return "", fmt.Errorf("%s and %s in metadata/ may both be the newest, and only the table's catalogue knows: "+
			"name the one that it says, such as …/metadata/%[1]s, in place of the folder",
			candidates[0].name, candidates[1].name)
	}
	return candidates[0].name, nil
}

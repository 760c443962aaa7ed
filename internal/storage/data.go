package storage

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// named is a format, and the endings of names that tell it.
type named struct {
	format  string
	endings []string
	packed  bool // files may be compressed as a whole, which a further ending says
}

// formats are those that names tell.
func formats() []named {
	return []named{
		{"Parquet", []string{".parquet", ".parq", ".pq"}, false},
		{"Arrow", []string{".arrow", ".feather", ".ipc"}, false},
		{"JSON lines", []string{".jsonl", ".ndjson"}, true},
		{"CSV", []string{".csv"}, true},
		{"TSV", []string{".tsv", ".tab"}, true},
		{"WebDataset", []string{".tar", ".tgz"}, true},
		{"TFRecord", []string{".tfrecord", ".tfrecords", ".tfrec"}, true},
		{"MDS", []string{".mds"}, true},
		{"tokens", []string{".ds"}, false},
	}
}

// DataEndings are the endings of files that a directory's listing takes, in words.
func DataEndings() string {
	var all []string
	for _, f := range formats() {
		all = append(all, f.endings...)
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// FormatOf is the name of the format that a file's name tells; "" if it tells none.
func FormatOf(uri string) string {
	whole, unpacked := strings.ToLower(path.Ext(uri)), path.Ext(Uncompressed(uri))
	for _, f := range formats() {
		if slices.Contains(f.endings, whole) || f.packed && slices.Contains(f.endings, unpacked) {
			return f.format
		}
	}
	return ""
}

// isBare reports whether a name has no ending, as Hive's 000000_0, or one of digits, as Impala's data.0: such a file
// may be of any format.
func isBare(uri string) bool { return strings.Trim(path.Ext(uri), ".0123456789") == "" }

// oneFormat refuses files of several formats that a directory has: they might be the same rows twice. What a name does
// not tell is not known yet.
func oneFormat(dir string, files []*pb.File) error {
	first := ""
	for _, f := range files {
		other := f.GetUri()
		switch {
		case f.GetUnknown(), first != "" && FormatOf(other) == FormatOf(first):
			continue
		case first == "":
			first = other
			continue
		}
		return fmt.Errorf(
			"there are files of several formats, %s (%s) and %s (%s): say which to read, such as %s**/*%s",
			first, FormatOf(first), other, FormatOf(other), dir, path.Ext(first))
	}
	return nil
}

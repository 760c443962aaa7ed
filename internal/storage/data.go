package storage

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
)

// named is a format, and the endings of names that tell it.
type named struct {
	format  string // its names, as specs have them, without regard to case; the first is the one in messages
	others  []string
	endings []string
	packed  bool // files may be compressed as a whole, which a further ending says
}

// formats are those that names tell.
func formats() []named {
	return []named{
		{"Parquet", nil, []string{".parquet", ".parq", ".pq"}, false},
		{"Arrow", nil, []string{".arrow", ".feather", ".ipc"}, false},
		{"JSON lines", []string{"jsonl", "ndjson", "json"}, []string{".jsonl", ".ndjson"}, true},
		{"CSV", nil, []string{".csv"}, true},
		{"TSV", nil, []string{".tsv", ".tab"}, true},
		{"WebDataset", []string{"tar"}, []string{".tar", ".tgz"}, true},
		{"TFRecord", nil, []string{".tfrecord", ".tfrecords", ".tfrec"}, true},
		{"MDS", nil, []string{".mds"}, true},
		{"tokens", nil, []string{".ds"}, false},
	}
}

// DataEndings are the endings of files that a directory's listing takes, in words.
func DataEndings() string { return dataEndings(func(string) bool { return true }) }

// NamesOf are all names of a format that FormatOf returns, as specs have them, without regard to case.
func NamesOf(format string) []string {
	for _, f := range formats() {
		if f.format == format {
			return append([]string{f.format}, f.others...)
		}
	}
	return nil
}

// isNamed reports whether a spec's name of a format is that of one which FormatOf returns.
func isNamed(name, format string) bool {
	return slices.ContainsFunc(NamesOf(format), func(n string) bool { return strings.EqualFold(n, name) })
}

// dataEndings are those of some formats, in words.
func dataEndings(of func(format string) bool) string {
	var all []string
	for _, f := range formats() {
		if of(f.format) {
			all = append(all, f.endings...)
		}
	}
	return english.WordSeries(all, "or")
}

// dataAs is the kind of a dataset's files that says how they are read: those whose endings are the format's, and of
// those without an ending which show by what they hold that they are of it. Of a directory without any such ending, all
// are that are of no other format.
func dataAs(how *pb.Format) Kind {
	is := func(format string) bool { return isNamed(how.GetName(), format) }
	if !slices.ContainsFunc(formats(), func(f named) bool { return is(f.format) }) {
		all := data()
		if how.GetName() != "" {
			all.Together = nil // what reads the files says that there is no such format
		}
		return all
	}
	return Kind{
		Ends: dataEndings(is) + " or in that of no format",
		Has:  func(uri string) bool { return is(FormatOf(uri)) },
		Spare: func(uri string) bool {
			return FormatOf(uri) == "" && !isBeside(uri, how)
		},
		Beside: func(uri string) bool { return isBeside(uri, how) },
		Bare:   true, NotEmpty: true,
	}
}

// isBeside reports whether a file says where records of others are: it is an index, or the one that options name of
// files of tokens.
func isBeside(uri string, how *pb.Format) bool {
	if documents, ok := strings.CutPrefix(how.GetOptions()["documents"].GetText(), "*"); ok && documents != "" &&
		strings.HasSuffix(uri, documents) {
		return true
	}
	return slices.Contains([]string{".idx", ".index", ".tfindex"}, strings.ToLower(path.Ext(uri))) ||
		path.Base(uri) == shardIndex
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

// oneFormat refuses files of several formats that a directory has: they might be the same rows twice, and to read those
// of which there are most would be a guess. What a name does not tell is not known yet.
func oneFormat(dir string, files []*pb.File) error {
	first, count := map[string]string{}, map[string]int{}
	for _, f := range files {
		if f.GetUnknown() {
			continue
		}
		of := FormatOf(f.GetUri())
		if count[of]++; count[of] == 1 {
			first[of] = f.GetUri()
		}
	}
	if len(count) < 2 {
		return nil
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	var kinds []string
	for _, of := range all {
		kinds = append(kinds, fmt.Sprintf("%d of %s, such as %s", count[of], of, first[of]))
	}
	names := NamesOf(all[0])
	name := strings.ToLower(names[min(1, len(names)-1)])
	return fmt.Errorf("there are files of several formats, which may hold the same rows twice: %s: to read %s alone, "+
		"write dataset.format: %s (in Python file_format=%q), or name the files as %s**/*%s",
		strings.Join(kinds, ", and "), all[0], name, name, dir, endingOf(first[all[0]]))
}

// endingOf is the part of a name that tells the format, with that of the compression.
func endingOf(uri string) string {
	bare := Uncompressed(uri)
	return uri[len(uri)-len(path.Ext(bare))-len(strings.ToLower(uri))+len(bare):]
}

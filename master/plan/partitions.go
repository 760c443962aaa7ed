package plan

import (
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

// nullPartition is how Hive writes that a partition key is null.
const nullPartition = "__HIVE_DEFAULT_PARTITION__"

// Partitions returns the hive partition keys in a file's path (".../day=2026-01-02/part-0.parquet"), unescaped.
// Keys whose value is null are not among them; of a key that appears twice the last one counts.
func Partitions(uri string) map[string]string {
	parts := make(map[string]string)
	for key, value := range hiveKeys(uri) {
		if value == nullPartition {
			delete(parts, key)
		} else {
			parts[key] = unescape(value)
		}
	}
	return parts
}

// keyLevels is the part of a file's URI that may have keys which are columns: below what the dataset's URI fixes.
func keyLevels(f *pb.File) string { return f.GetUri()[min(int(f.GetKeysAt()), len(f.GetUri())):] }

// hiveKeys yields the key=value directories of a path, the values still escaped. A key that is not UTF-8 is none.
func hiveKeys(uri string) iter.Seq2[string, string] {
	path := uri
	if scheme, rest, ok := strings.Cut(uri, "://"); ok && !strings.Contains(scheme, "/") {
		path = rest
	}
	return func(yield func(string, string) bool) {
		for {
			dir, rest, more := strings.Cut(path, "/")
			if !more {
				return
			}
			if key, value, ok := strings.Cut(dir, "="); ok && key != "" {
				key = unescape(key)
				if utf8.ValidString(key) && !yield(key, value) {
					return
				}
			}
			path = rest
		}
	}
}

// unescape undoes each percent escape; what is none stands for itself.
func unescape(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+3 <= len(s) {
			if b, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				out = append(out, b[0])
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// Known are the files whose names tell their format, numbered anew.
func Known(files []*pb.File) []*pb.File {
	var known []*pb.File
	for _, f := range files {
		if !f.GetUnknown() {
			known = append(known, numbered(f, len(known)))
		}
	}
	return known
}

// numbered is a file at another place of a listing. Constants are those of a table.
func numbered(f *pb.File, index int) *pb.File {
	return &pb.File{
		Uri: f.GetUri(), Size: f.GetSize(), Etag: f.GetEtag(), Unknown: f.GetUnknown(), Index: uint32(index),
		KeysAt: f.GetKeysAt(), OfTable: f.GetOfTable(), Constants: f.GetConstants(), Excluded: f.GetExcluded(),
	}
}

// FilterFiles returns the files whose hive partition keys satisfy a predicate, numbered anew; "" is satisfied by
// all. A key that a path lacks is null; that no path has a key which the predicate names is an error.
func FilterFiles(files []*pb.File, predicate string) ([]*pb.File, error) {
	if predicate == "" || len(files) == 0 {
		return files, nil
	}
	chosen, err := filter.ParsePartitions(predicate)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	var kept []*pb.File
	for _, f := range files {
		parts := Partitions(f.GetUri())
		truth, err := chosen.Eval(func(key string) (expr.Value, bool) {
			v, ok := parts[key]
			return expr.Text(v), ok
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.GetUri(), err)
		}
		if truth == filter.True {
			kept = append(kept, numbered(f, len(kept)))
		}
		for key := range hiveKeys(f.GetUri()) {
			seen[key] = true
		}
	}
	for _, key := range chosen.Columns() {
		if seen[key] {
			continue
		}
		near := natural.Nearest(key, maps.Keys(seen))
		if near == "" {
			return nil, fmt.Errorf("no file has a partition key %q in its path; the first is %s",
				key, files[0].GetUri())
		}
		return nil, fmt.Errorf("no file has a partition key %q in its path; nearest: %s", key, near)
	}
	return kept, nil
}

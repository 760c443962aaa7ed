package reference

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// keysOf are the hive partition keys in a file's path, below what the dataset's URI fixes, with their values; "\x00"
// stands for null.
func keysOf(f *pb.File) map[string]string {
	if f.GetOfTable() {
		return nil
	}
	return keysIn(f.GetUri()[f.GetKeysAt():])
}

// keyOf is a key's value for a file: below what the dataset's URI fixes, or else above, where its kind fits.
func keyOf(f *pb.File, name string, kind pb.Kind) (value string, ok bool) {
	if value, ok = keysOf(f)[name]; ok {
		return value, true
	}
	if f.GetOfTable() {
		return "", false
	}
	if value, ok = keysIn(f.GetUri()[:f.GetKeysAt()])[name]; ok {
		_, err := keyCell(value, kind)
		ok = err == nil
	}
	return value, ok
}

func keysIn(path string) map[string]string {
	parts := strings.Split(path, "/")
	keys := map[string]string{} // the last directory counts
	for _, dir := range parts[:len(parts)-1] {
		k, v, ok := strings.Cut(dir, "=")
		switch {
		case !ok || k == "" || !utf8.ValidString(unescaped(k)):
		case v == "__HIVE_DEFAULT_PARTITION__":
			keys[unescaped(k)] = "\x00"
		default:
			keys[unescaped(k)] = unescaped(v)
		}
	}
	return keys
}

var (
	integers = regexp.MustCompile(`^-?[0-9]+$`)                   //nolint:gochecknoglobals // a constant
	days     = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`) //nolint:gochecknoglobals // a constant
)

// addKeys adds the partition keys that no file has as a column: int64 if all values are such, days if all are, else
// text.
func addKeys(columns map[string]column, files []*pb.File) {
	for _, f := range files {
		_, types := constants(f)
		for name, t := range types {
			columns[name] = column{name: name, typ: t, key: true}
		}
	}
	values := map[string][]string{}
	for _, f := range files {
		for k, v := range keysOf(f) {
			values[k] = append(values[k], v)
		}
	}
	for k, all := range values {
		taken := false
		for name := range columns {
			taken = taken || name == k || strings.HasPrefix(name, k+".")
		}
		if taken {
			continue
		}
		kind := pb.Kind_BINARY
		for _, try := range []pb.Kind{pb.Kind_INT32, pb.Kind_INT64} {
			fits, some := true, false
			for _, v := range all {
				if v != "\x00" {
					_, err := keyCell(v, try)
					fits, some = fits && err == nil, true
				}
			}
			if fits && some {
				kind = try
			}
		}
		columns[k] = column{name: k, typ: spec.Type{Kind: kind}, key: true}
	}
}

// keyCell is a key's value as a kind, INT32 of days.
func keyCell(v string, kind pb.Kind) (*cell, error) {
	switch {
	case v == "\x00":
		return &cell{null: true}, nil
	case kind == pb.Kind_INT64 && integers.MatchString(v):
		n, err := strconv.ParseInt(v, 10, 64)
		return &cell{ints: []int64{n}}, err
	case kind == pb.Kind_INT32 && days.MatchString(v):
		day, err := time.Parse("2006-01-02", v)
		return &cell{ints: []int64{int64(day.Sub(time.Unix(0, 0)).Hours()) / 24}}, err
	case kind == pb.Kind_BINARY:
		return &cell{texts: [][]byte{[]byte(v)}}, nil
	}
	return nil, fmt.Errorf("%q is not %v", v, kind)
}

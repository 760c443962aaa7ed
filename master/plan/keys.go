package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/times"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Key is a key of hive partitions, as a column: of int64 if all values of a listing are integers, of dates if they are
// such, else of text.
type Key struct {
	spec.Column
	File string // the first that has it
}

// Keys are those of a listing, by name. Paths of tables have none.
func Keys(files []*pb.File) []Key {
	found := map[string]*values{}
	before := ""
	for _, f := range files {
		if f.GetOfTable() {
			continue
		}
		dir := keyLevels(f)
		dir = dir[:strings.LastIndexByte(dir, '/')+1]
		if dir == before {
			continue
		}
		before = dir
		for key, value := range lastKeys(dir) {
			if found[key] == nil {
				found[key] = &values{file: f.GetUri(), integers: true, dates: true}
			}
			found[key].add(value)
		}
	}
	var keys []Key
	for _, name := range slices.Sorted(maps.Keys(found)) {
		v := found[name]
		c := spec.Column{
			Name: name, Path: []string{name}, Type: spec.Type{Kind: pb.Kind_BINARY}, Text: true, Partition: true,
		}
		switch {
		case !v.any:
		case v.integers:
			c.Type.Kind, c.Text = pb.Kind_INT64, false
		case v.dates:
			c.Type.Kind, c.Text, c.Date = pb.Kind_INT32, false, true
		}
		keys = append(keys, Key{c, v.file})
	}
	return keys
}

// values are what is known of a key's.
type values struct {
	file                 string
	any, integers, dates bool
}

func (v *values) add(value *string) {
	if value == nil {
		return
	}
	v.any = true
	if v.integers {
		_, v.integers = integer(*value)
	}
	if v.dates {
		_, v.dates = date(*value)
	}
}

// lastKeys are the keys in a path with their values, nil for null. Of a key that appears twice the last one counts.
func lastKeys(path string) map[string]*string {
	keys := map[string]*string{}
	for key, value := range hiveKeys(path) {
		keys[key] = nil
		if value != nullPartition {
			text := unescape(value)
			keys[key] = &text
		}
	}
	return keys
}

// integer reads an int64, which may have zeros before it.
func integer(text string) (int64, bool) {
	i, err := strconv.ParseInt(text, 10, 64)
	return i, err == nil && text[0] != '+'
}

// date reads a day as days since 1970.
func date(text string) (int64, bool) {
	at, err := times.Parse(text)
	if err != nil || len(text) != len("2006-01-02") {
		return 0, false
	}
	days, err := times.Days.Of(at)
	return days, err == nil
}

// Constants returns a file with the values that keys of partitions have in its path, of the sources that are such; one
// of a table has those that the table says. A key that is missing below what the dataset's URI fixes is looked for
// above, where sessions may have it that an earlier release opened.
func Constants(f *pb.File, sources []*pb.Source) (*pb.File, error) {
	isKey := (*pb.Source).GetPartition
	if f.GetOfTable() || !slices.ContainsFunc(sources, isKey) {
		return f, nil
	}
	keys, above := lastKeys(keyLevels(f)), lastKeys(f.GetUri()[:len(f.GetUri())-len(keyLevels(f))])
	out := numbered(f, int(f.GetIndex()))
	out.Constants = nil
	for _, s := range sources {
		if !isKey(s) {
			continue
		}
		text, below := keys[s.GetName()]
		if !below {
			var ok bool
			if text, ok = above[s.GetName()]; !ok {
				continue
			}
		}
		c := &pb.Constant{Name: s.GetName()}
		if text != nil {
			c.Value = valueOf(*text, s.GetType().GetKind())
			switch {
			case c.Value != nil:
			case !below: // another type: it is not the key that the session has
				continue
			default:
				return nil, fmt.Errorf("plan: %s: the partition key %s is %q, which is not %s", f.GetUri(), s.GetName(),
					*text, spec.TypeFromProto(s.GetType()))
			}
		}
		out.Constants = append(out.Constants, c)
	}
	return out, nil
}

// valueOf reads a key's value as the kind that Keys gave it; nil: it is none.
func valueOf(text string, kind pb.Kind) *pb.Value {
	switch kind {
	case pb.Kind_INT64:
		if i, ok := integer(text); ok {
			return &pb.Value{Kind: &pb.Value_Int{Int: i}}
		}
	case pb.Kind_INT32:
		if day, ok := date(text); ok {
			return &pb.Value{Kind: &pb.Value_Int{Int: day}}
		}
	case pb.Kind_BINARY:
		if utf8.ValidString(text) {
			return &pb.Value{Kind: &pb.Value_Text{Text: text}}
		}
	}
	return nil
}

// Prune gives files the constants that a program reads, and leaves out those of which the filter excludes all rows by
// these.
func Prune(program *pb.Program, files []*pb.File) (kept []*pb.File, pruned int, err error) {
	if !slices.ContainsFunc(program.GetSources(), (*pb.Source).GetPartition) {
		return files, 0, nil
	}
	filter, err := newExtentFilter(program)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range files {
		of, err := Constants(f, program.GetSources())
		if err != nil {
			return nil, 0, err
		}
		if !filter.excludesFile(of) {
			kept = append(kept, of)
		}
	}
	return kept, len(files) - len(kept), nil
}

func (f *extentFilter) excludesFile(file *pb.File) bool {
	if f.expr == nil || len(file.GetConstants()) == 0 {
		return false
	}
	sources, err := format.Constants(file, f.sources)
	return err == nil && !f.expr.MayMatch(func(column string) (filter.Stats, bool) {
		i, ok := f.byName[column]
		is := func(c *pb.Constant) bool { return c.GetName() == column }
		if !ok || !slices.ContainsFunc(file.GetConstants(), is) {
			return filter.Stats{}, false
		}
		return format.AbsentStats(format.Absent, sources[i], 1)
	})
}

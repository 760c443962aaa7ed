package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/master/plan"
)

func listed(paths ...string) []*pb.File {
	var files []*pb.File
	for i, path := range paths {
		files = append(files, &pb.File{Uri: "s3://b/" + path + "/p", Index: uint32(i)})
	}
	return files
}

func TestKeys(t *testing.T) {
	keys := plan.Keys(listed("day=2026-01-02/hour=05/l=de/z=__HIVE_DEFAULT_PARTITION__", "day=2026-01-03/hour=-7/l=1",
		"day=__HIVE_DEFAULT_PARTITION__/hour=9223372036854775808", "x=1/x=a"))
	got := ""
	for _, k := range keys {
		got += fmt.Sprintf("%s %v date %v text %v in %s\n", k.Name, k.Type, k.Date, k.Text, k.File[len("s3://b/"):])
	}
	const first = "day=2026-01-02/hour=05/l=de/z=__HIVE_DEFAULT_PARTITION__/p\n"
	want := "day int32 date true text false in " + first + "hour binary date false text true in " + first +
		"l binary date false text true in " + first + "x binary date false text true in x=1/x=a/p\n" +
		"z binary date false text true in " + first
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestKeysBelowTheDataset: levels that the dataset's URI fixes are no keys, and neither are names that are not UTF-8.
func TestKeysBelowTheDataset(t *testing.T) {
	f := &pb.File{Uri: "s3://b/env=prod/data/day=1/%FF=2/p", KeysAt: uint32(len("s3://b/env=prod/data/"))}
	keys := plan.Keys([]*pb.File{f})
	if len(keys) != 1 || keys[0].Name != "day" {
		t.Errorf("got %v, want day alone", keys)
	}
	inFile := makeFile(t, "file:///key=1/a", 1, schema(), uniform(10, 80))
	inFile.KeysAt = uint32(len("file:///key=1/"))
	absent := source("key", pb.Kind_INT64, false)
	_, _, err := plan.Shards(plan.Config{}, program(absent), []plan.File{inFile}, 0)
	check(t, err)
}

// TestConstantsAbove: a key that a program reads is found above what the dataset's URI fixes, unless it is below, or of
// another type there.
func TestConstantsAbove(t *testing.T) {
	key := source("env", pb.Kind_INT64, false)
	key.Partition = true
	column := source("day", pb.Kind_INT64, false)
	for _, c := range []struct{ fixed, below, want string }{
		{"env=7/day=1/", "p", "7"},
		{"env=7/", "env=8/p", "8"},
		{"env=7/", "env=__HIVE_DEFAULT_PARTITION__/p", "null"},
		{"env=__HIVE_DEFAULT_PARTITION__/", "p", "null"},
		{"env=prod/", "p", ""},
		{"x/", "p", ""},
	} {
		f := &pb.File{Uri: "s3://b/" + c.fixed + c.below, KeysAt: uint32(len("s3://b/" + c.fixed))}
		f, err := plan.Constants(f, []*pb.Source{key, column})
		check(t, err)
		got := ""
		for _, c := range f.GetConstants() {
			if got += "null"; c.GetValue() != nil {
				got = fmt.Sprint(c.GetValue().GetInt())
			}
		}
		if got != c.want {
			t.Errorf("%s: env is %q, want %q", f.GetUri(), got, c.want)
		}
	}
}

// TestPrune: files get what a program reads of their keys, and those that its filter excludes are left out.
func TestPrune(t *testing.T) {
	files := listed("day=2026-01-02/n=05", "day=2026-01-03/n=6", "day=__HIVE_DEFAULT_PARTITION__/n=7", "n=8")
	program := func(filter string) *pb.Program {
		p := &pb.Program{Filter: filter}
		for _, k := range plan.Keys(files) {
			p.Sources = append(p.Sources, &pb.Source{
				Name: k.Name, Path: k.Path, Type: k.Type.Proto(), Partition: true,
			})
		}
		p.Sources = append(p.Sources, &pb.Source{
			Name: "x", Path: []string{"x"}, Type: spec.Type{Kind: pb.Kind_INT64}.Proto(),
		})
		return p
	}
	for filter, want := range map[string]string{
		"":                        "0 day 20455 n 5; 1 day 20456 n 6; 2 day null n 7; 3 n 8",
		"day >= 20456":            "1 day 20456 n 6; 3 n 8", // which may have a default
		"day is null":             "2 day null n 7; 3 n 8",
		"n > 6 or x == 1":         "0 day 20455 n 5; 1 day 20456 n 6; 2 day null n 7; 3 n 8",
		"n > 6 and x == 1":        "2 day null n 7; 3 n 8",
		"n in (5, 6) and day > 0": "0 day 20455 n 5; 1 day 20456 n 6",
	} {
		kept, pruned, err := plan.Prune(program(filter), files)
		check(t, err)
		var got []string
		for _, f := range kept {
			one := fmt.Sprint(f.GetIndex())
			for _, c := range f.GetConstants() {
				if one += " " + c.GetName(); c.GetValue() == nil {
					one += " null"
				} else {
					one += fmt.Sprint(" ", c.GetValue().GetInt())
				}
			}
			got = append(got, one)
		}
		if said := strings.Join(got, "; "); said != want || pruned != len(files)-len(kept) {
			t.Errorf("%q: %s and %d pruned, want %s", filter, said, pruned, want)
		}
	}
	p := program("")
	if _, _, err := plan.Prune(p, listed("n=x")); err == nil || !strings.Contains(err.Error(), `s3://b/n=x/p: the `+
		`partition key n is "x", which is not int64`) {
		t.Errorf("of another type: %v", err)
	}
}

// TestKeysThatAreColumns: a session takes a key from the files or from their paths, and tells which file has it
// otherwise.
func TestKeysThatAreColumns(t *testing.T) {
	id := source("id", pb.Kind_INT64, false)
	inFile := makeFile(t, "file:///id=1/a", 1, schema(), uniform(10, 80))
	id.Partition = true
	_, _, err := plan.Shards(plan.Config{}, program(id), []plan.File{inFile}, 0)
	if err == nil || !strings.Contains(err.Error(), "file:///id=1/a: feature id: it is a column of this file") {
		t.Errorf("a column where others have a key: %v", err)
	}
	absent := source("key", pb.Kind_INT64, false)
	lacks := makeFile(t, "file:///key=1/a", 1, schema(), uniform(10, 80))
	_, _, err = plan.Shards(plan.Config{}, program(absent), []plan.File{lacks}, 0)
	if err == nil || !strings.Contains(err.Error(), "file:///key=1/a: it lacks the column key, which is a partition") {
		t.Errorf("a key where others have a column: %v", err)
	}
	absent.Default = &pb.Value{Kind: &pb.Value_Int{Int: 3}}
	_, _, err = plan.Shards(plan.Config{}, program(absent), []plan.File{lacks}, 0)
	check(t, err)
}

// TestFilesOfTables have what their table says, whatever their path or the file itself does.
func TestFilesOfTables(t *testing.T) {
	flag, day := source("label", pb.Kind_BOOL, false), source("day", pb.Kind_INT32, false)
	flag.Partition, day.Partition = true, true
	var files []*pb.File
	for i, value := range []*pb.Value{{Kind: &pb.Value_Bool{Bool: true}}, {Kind: &pb.Value_Bool{}}, nil} {
		files = append(files, &pb.File{
			Uri: fmt.Sprintf("s3://b/day=x/label=7/%d", i), Index: uint32(i), OfTable: true,
			Constants: []*pb.Constant{{Name: "label", Value: value}, {Name: "day"}},
			Excluded:  []*pb.Excluded{{Rows: 4}, {Rows: 2}, {}},
		})
	}
	if keys := plan.Keys(files); len(keys) > 0 {
		t.Errorf("paths have the keys %v", keys)
	}
	chosen, err := plan.FilterFiles(files, "day == 'x'")
	check(t, err)
	p := program(flag, day, source("price", pb.Kind_FLOAT32, false))
	p.Filter = "label == true"
	kept, pruned, err := plan.Prune(p, chosen)
	if err != nil || pruned != 2 || len(kept) != 1 || !proto.Equal(kept[0], files[0]) {
		t.Fatalf("%d are pruned, and %v are kept, %v", pruned, kept, err)
	}
	of := makeFile(t, "file:///0", 1, schema(), uniform(10, 80)) // which has a column "label"
	of.File = files[0]
	p.Filter = ""
	shards, counts, err := plan.Shards(plan.Config{}, p, []plan.File{of}, 0)
	if err != nil || counts.Rows != 4 || counts.ExcludedRows != 6 || len(shards[0].GetFile().GetExcluded()) != 3 {
		t.Errorf("%d rows, and %d are deleted, %v", counts.Rows, counts.ExcludedRows, err)
	}
}

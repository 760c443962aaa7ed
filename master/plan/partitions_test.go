package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/plan"
)

func TestPartitions(t *testing.T) {
	tests := []struct {
		uri  string
		want map[string]string
	}{
		{"s3://bucket/a/day=2026-01-02/hour=05/part-0.parquet", map[string]string{"day": "2026-01-02", "hour": "05"}},
		{"file:///d/country=c%C3%B4te%20d%27ivoire/x=1=2/p", map[string]string{"country": "côte d'ivoire", "x": "1=2"}},
		{"s3://b/day=__HIVE_DEFAULT_PARTITION__/p", nil},
		{"s3://b/day=1/day=2/p", map[string]string{"day": "2"}},
		{"s3://b/day=1/day=__HIVE_DEFAULT_PARTITION__/p", nil},
		{"s3://b/=1/p/part=0.parquet", nil},
		{"s3://b/empty=/p", map[string]string{"empty": ""}},
		{"s3://b/bad=%zz/p", map[string]string{"bad": "%zz"}},
		{"s3://b/rate=5%%2F10%/p", map[string]string{"rate": "5%/10%"}},
		{"s3://b/%64ay%=1%2/p", map[string]string{"day%": "1%2"}},
		{"day=1/p", map[string]string{"day": "1"}},
		{"", nil},
	}
	for _, test := range tests {
		if got := plan.Partitions(test.uri); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.uri, got, test.want)
		}
	}
}

func TestFilterFiles(t *testing.T) {
	var files []*pb.File
	for i, dir := range []string{
		"day=01/lang=de", "day=02/lang=fr", "day=03/lang=__HIVE_DEFAULT_PARTITION__",
		"day=04",
	} {
		files = append(files, &pb.File{Uri: "s3://b/" + dir + "/p", Size: 9, Etag: "e", Index: uint32(i)})
	}
	tests := []struct {
		predicate string
		want      []string // days
		err       string
	}{
		{"", []string{"01", "02", "03", "04"}, ""},
		{"day >= 3", []string{"03", "04"}, ""},
		{"day == '01' or lang == 'fr'", []string{"01", "02"}, ""},
		{"lang is null", []string{"03", "04"}, ""},
		{"lang != 'de'", []string{"02"}, ""},
		{"hour == 1", nil, `partition key "hour" in its path; the first is s3://b/day=01/`},
		{"dya == 1 or day == 1", nil, `partition key "dya" in its path; nearest: day`},
		{"lang > 3", nil, "s3://b/day=01/lang=de/p"},
		{"day ==", nil, "column"},
	}
	for _, test := range tests {
		got, err := plan.FilterFiles(files, test.predicate)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.predicate, err, test.err)
			}
			continue
		}
		check(t, err)
		var days []string
		for i, f := range got {
			days = append(days, plan.Partitions(f.GetUri())["day"])
			if f.GetIndex() != uint32(i) || f.GetSize() != 9 || f.GetEtag() != "e" {
				t.Errorf("%s: file %d is %v", test.predicate, i, f)
			}
		}
		if !slices.Equal(days, test.want) {
			t.Errorf("%s: days %v, want %v", test.predicate, days, test.want)
		}
	}
}

func FuzzPartitions(f *testing.F) {
	f.Add("s3://b/day=2026-01-02/p")
	f.Add("/a=%2/=/%3d=%3d/p=")
	f.Fuzz(func(t *testing.T, uri string) {
		for key, value := range plan.Partitions(uri) {
			if key == "" || value == "__HIVE_DEFAULT_PARTITION__" && !strings.Contains(uri, "%") {
				t.Errorf("%q: %q=%q", uri, key, value)
			}
		}
	})
}

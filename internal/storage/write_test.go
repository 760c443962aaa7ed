package storage

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage/s3"
)

// Other stores than disks are written to where their profiles say so, and nowhere else.
func TestWritable(t *testing.T) {
	s, err := New(Config{Profiles: map[string]Profile{
		"one": &s3.Profile{Write: []string{"s3://bucket/derived", "s3://scratch"}}, "none": &s3.Profile{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		profile, uri, want string // part of the error; "" is none
	}{
		{"one", "s3://bucket/derived/a", ""},
		{"one", "s3://bucket/derived", ""},
		{"one", "s3://scratch/a/b", ""},
		{"none", "file:///anywhere", ""},
		{"one", "s3://bucket/derived2/a", "below s3://bucket/derived, s3://scratch"},
		{"one", "s3://bucket/derived/../a", "does not let"},
		{"one", "s3://bucket", "does not let"},
		{"none", "s3://bucket/a", "lets nothing be written: list s3://bucket/a"},
		{"default", "s3://bucket/a", "profile default lets nothing"},
	} {
		err := s.Writable(c.profile, c.uri)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %s: %v; want %q", c.profile, c.uri, err, c.want)
		}
	}
	if _, err := New(Config{Profiles: map[string]Profile{"x": &s3.Profile{Write: []string{"/a"}}}}); err == nil {
		t.Error("a prefix that is none was taken")
	}
}

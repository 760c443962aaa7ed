package storage

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestAlike(t *testing.T) {
	for _, test := range []struct {
		uri, etag, before string
		alike             bool
	}{
		{"s3://b/x", "9-a", "9-a", true},
		{"s3://b/x", "9-a", "9-b", false},
		{"file:///x", "10-5f-a1", "10-5f-b2", true}, // a copy that keeps the time
		{"file:///x", "10-5f-a1", "10-60-a1", false},
		{"file:///x", "10-5f-a1", "11-5f-a1", false},
		{"file:///x", "10-5f-a1", "", false},
	} {
		if got := Alike(&pb.File{Uri: test.uri, Etag: test.etag}, test.before); got != test.alike {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

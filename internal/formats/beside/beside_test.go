package beside_test

import (
	"bytes"
	"testing"

	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// TestInABucket: what is written beside data in a bucket is found, and in no listing of the data. Only a profile that
// lists the place may write, and the same pack may be written twice.
func TestInABucket(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	m.MakeBucket(t, "data")
	m.Put(t, "data", "logs/a.jsonl", []byte("{\"label\": 1}\n"))
	st, err := storage.New(storage.Config{Profiles: map[string]storage.Profile{
		"writes": &s3.Profile{Write: []string{"s3://data/logs/"}}, "reads": &s3.Profile{},
	}})
	check(t, err)
	t.Cleanup(st.Close)
	files, err := st.List(t.Context(), "reads", []string{"s3://data/logs/"})
	check(t, err)
	of := index.Of{Format: "lines", Version: 1, Size: files[0].GetSize(), ETag: files[0].GetEtag()}
	x, err := index.NewBuilder(of).Index()
	check(t, err)
	find := func(want index.Of) *index.Index {
		t.Helper()
		found, err := beside.New().Find(t.Context(), st, "reads", files[0], want)
		if found == nil && err != nil && want == of {
			t.Fatal(err)
		}
		return found
	}
	if find(of) != nil {
		t.Error("an index is found before there is one")
	}
	pack := index.Pack([]index.Packed{{Name: "a.jsonl", Index: x.Bytes()}})
	if err := beside.Write(t.Context(), st, "reads", "s3://data/logs/", pack); err == nil {
		t.Error("a profile writes that may not")
	}
	for range 2 {
		check(t, beside.Write(t.Context(), st, "writes", "s3://data/logs/", pack))
	}
	if found := find(of); found == nil || !bytes.Equal(found.Bytes(), x.Bytes()) {
		t.Error("the index is not found")
	}
	other := of
	other.ETag = "of a later version"
	if find(other) != nil {
		t.Error("the index is found for another version of the file")
	}
	if again, err := st.List(t.Context(), "reads", []string{"s3://data/logs/"}); err != nil || len(again) != 1 {
		t.Errorf("the data are %v: %v", again, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

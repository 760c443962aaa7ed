package beside_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// TestInABucket: what is written beside data in a bucket is found, and in no listing of the data. Only a profile that
// lists the place may write, and the same pack may be written twice; it replaces a damaged one.
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
	x := made(t, of)
	find := func(want index.Of) *index.Index {
		t.Helper()
		found, err := beside.New(free).Find(t.Context(), st, "reads", files[0], want)
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
	for _, damaged := range [][]byte{{}, append(bytes.Clone(pack[:len(pack)-1]), pack[len(pack)-1]^1)} {
		m.Put(t, "data", "logs/"+beside.Folder+index.PackName(pack), damaged)
		check(t, beside.Write(t.Context(), st, "writes", "s3://data/logs/", pack))
		if find(of) == nil {
			t.Errorf("a pack of %d damaged bytes is not replaced", len(damaged))
		}
	}
	if again, err := st.List(t.Context(), "reads", []string{"s3://data/logs/"}); err != nil || len(again) != 1 {
		t.Errorf("the data are %v: %v", again, err)
	}
}

// made is an index of a file of one extent.
func made(t *testing.T, of index.Of) *index.Index {
	t.Helper()
	b := index.NewBuilder(of)
	check(t, b.Add(format.Place{
		Extent: format.Extent{Rows: 1}, Stored: storage.Range{Length: of.Size}, Bytes: of.Size,
	}))
	x, err := b.Index()
	check(t, err)
	return x
}

// free is where there is memory for any pack.
func free(context.Context) (take func(int64) error, leave func()) {
	return func(int64) error { return nil }, func() {}
}

// TestAmongPacks: of a folder whose name looks like a pattern, with packs of earlier versions of files and one that is
// damaged, each index is found, by one that reads packs and by one that remembers where indexes lie. One without extents
// is not believed. What is not there is an error that names the damaged pack.
func TestAmongPacks(t *testing.T) {
	dir := "file://" + t.TempDir() + "/run[1]/"
	st, err := storage.New(storage.Config{})
	check(t, err)
	t.Cleanup(st.Close)
	of := func(name, etag string) (*pb.File, index.Of) {
		return &pb.File{Uri: dir + name, Size: 9, Etag: etag}, index.Of{Format: "lines", Version: 1, Size: 9, ETag: etag}
	}
	for _, etag := range []string{"old", "new"} {
		var all []index.Packed
		for _, name := range []string{"a", "b"} {
			_, want := of(name, etag)
			all = append(all, index.Packed{Name: name, Index: made(t, want).Bytes()})
		}
		_, none := of("none", etag)
		empty, err := index.NewBuilder(none).Index()
		check(t, err)
		pack := index.Pack(append(all, index.Packed{Name: "none", Index: empty.Bytes()}))
		check(t, beside.Write(t.Context(), st, "", dir, pack))
	}
	check(t, beside.Write(t.Context(), st, "", dir, []byte("damaged")))
	finder := beside.New(free)
	for _, name := range []string{"a", "b", "a"} {
		for _, etag := range []string{"old", "new"} {
			file, want := of(name, etag)
			x, err := finder.Find(t.Context(), st, "", file, want)
			if err != nil || x == nil || x.Of != want {
				t.Errorf("%s of %s: %v, %v", name, etag, x, err)
			}
		}
	}
	file, want := of("none", "new")
	if x, err := finder.Find(t.Context(), st, "", file, want); x != nil || err == nil ||
		!strings.Contains(err.Error(), index.PackName([]byte("damaged"))) {
		t.Errorf("one that is not there: %v, %v", x, err)
	}
}

// TestToldOnce: what is wrong with a pack is told of the first file that is looked for, and not of each one, until the
// folder is listed again; then it is told again, though the pack is known.
func TestToldOnce(t *testing.T) {
	dir := "file://" + t.TempDir() + "/"
	st, err := storage.New(storage.Config{})
	check(t, err)
	t.Cleanup(st.Close)
	bad := index.Pack([]index.Packed{{Name: "bad", Index: []byte("damaged")}})
	check(t, beside.Write(t.Context(), st, "", dir, bad))
	synctest.Test(t, func(t *testing.T) {
		finder := beside.New(free)
		for range 3 {
			told := 0
			for _, name := range []string{"a", "b", "c"} {
				_, err := finder.Find(t.Context(), st, "", &pb.File{Uri: dir + name}, index.Of{Format: "lines"})
				if err != nil && strings.Contains(err.Error(), index.PackName(bad)) {
					told++
				}
			}
			if told != 1 {
				t.Errorf("it was told %d times", told)
			}
			time.Sleep(6 * time.Minute)
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

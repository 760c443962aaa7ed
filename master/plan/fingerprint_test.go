package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

func listing(n int) []*pb.File {
	var files []*pb.File
	for i := range n {
		files = append(files, &pb.File{
			Uri: fmt.Sprintf("s3://data/part-%05d.parquet", i), Size: int64(1000 + i),
			Etag: fmt.Sprint("tag", i),
		})
	}
	return files
}

func TestFingerprintsNameTheFilesThatDiffer(t *testing.T) {
	const n = 1000
	then := Fingerprint(&pb.Spec{}, listing(n), 7, Config{})
	for name, test := range map[string]struct {
		change func(files []*pb.File) []*pb.File
		says   []string
	}{
		"one changed": {func(files []*pb.File) []*pb.File {
			files[17].Etag = "other"
			return files
		}, []string{"s3://data/part-00017.parquet was changed"}},
		"one added": {func(files []*pb.File) []*pb.File {
			return append(files, &pb.File{Uri: "s3://data/late.parquet", Size: 5, Etag: "x"})
		}, []string{"then 1000 files of 7 bytes, now 1001 of 7", "s3://data/late.parquet was added"}},
		"one gone": {
			func(files []*pb.File) []*pb.File { return slices.Delete(files, 3, 4) },
			[]string{"now 999 of", "files are gone"},
		},
		"many": {func(files []*pb.File) []*pb.File {
			for i := range files {
				files[i].Size++
			}
			return files
		}, []string{"more differ than can be named"}},
		"none": {func(files []*pb.File) []*pb.File { return files }, nil},
	} {
		files := test.change(listing(n))
		got := FileDifferences(then, Fingerprint(&pb.Spec{}, files, 7, Config{}), files)
		for _, want := range test.says {
			if !strings.Contains(got, want) {
				t.Errorf("%s: says %q, want %q in it", name, got, want)
			}
		}
		if test.says == nil && got != "" {
			t.Errorf("%s: says %q", name, got)
		}
	}
}

func TestFingerprintsOfForeignStatesDoNoHarm(t *testing.T) {
	now := Fingerprint(&pb.Spec{}, listing(3), 7, Config{})
	for _, then := range []*pb.Fingerprint{
		nil,
		{},
		{Listing: []uint64{1}},
		{Listing: []uint64{1 << 63, 1<<64 - 1, 1, 2, 3, 4, 5, 6}, Spec: []uint32{1}},
	} {
		FileDifferences(then, now, listing(3))
		PlannerDifferences(then, now)
	}
}

func TestFingerprintsAreSmall(t *testing.T) {
	if size := proto.Size(Fingerprint(&pb.Spec{Seed: 1}, listing(100_000), 1<<40, Config{})); size > 160 {
		t.Errorf("a fingerprint has %d bytes", size)
	}
}

package plan_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/plan"
)

func listing(sizes ...int64) []*pb.File {
	files := make([]*pb.File, len(sizes))
	for i, s := range sizes {
		files[i] = &pb.File{
			Uri: fmt.Sprintf("s3://b/d/part-%05d.parquet", i), Size: s, Etag: fmt.Sprint(i),
			Index: uint32(i),
		}
	}
	return files
}

func TestOrderIsAPermutationOfTheSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := listing(make([]int64, rapid.IntRange(0, 200).Draw(t, "files"))...)
		seed, epoch := rapid.Int64().Draw(t, "seed"), rapid.Uint32().Draw(t, "epoch")
		order := plan.Order(files, seed, true, epoch)
		if again := plan.Order(files, seed, true, epoch); !slices.Equal(order, again) {
			t.Fatalf("the same arguments give %v and %v", order, again)
		}
		sorted := slices.Sorted(slices.Values(order))
		for i, f := range sorted {
			if i != f {
				t.Fatalf("%v is no permutation", order)
			}
		}
		if len(files) > 20 {
			if slices.Equal(order, plan.Order(files, seed, true, epoch+1)) {
				t.Fatal("the next epoch has the same order")
			}
			if slices.Equal(order, plan.Order(files, seed+1, true, epoch)) {
				t.Fatal("another seed has the same order")
			}
		}
	})
}

// A file's place among the others depends on its URI alone, so that a dataset that grew keeps its order.
func TestOrderDependsOnTheURIAlone(t *testing.T) {
	files := listing(make([]int64, 100)...)
	uris := func(files []*pb.File) []string {
		var out []string
		for _, i := range plan.Order(files, 7, true, 3) {
			if i < len(files) && files[i].GetUri() != "" {
				out = append(out, files[i].GetUri())
			}
		}
		return out
	}
	all := uris(files)
	some := uris(files[:50])
	kept := slices.DeleteFunc(all, func(u string) bool { return !slices.Contains(some, u) })
	if !slices.Equal(kept, some) {
		t.Errorf("with 100 files the first 50 come as %v, alone as %v", kept, some)
	}
}

// The order is part of the planner's version: this table may only change along with plan.Version.
func TestOrderIsPinned(t *testing.T) {
	if got, want := plan.Order(listing(make([]int64, 8)...), 42, true, 1), []int{
		5, 0, 3, 4, 6, 7, 2,
		1,
	}; !slices.Equal(got, want) || plan.Version != 4 {
		t.Errorf("version %d orders %v, want %v of version 4", plan.Version, got, want)
	}
	if got, want := plan.Order(listing(0, 0, 0), 42, false, 1), []int{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("without shuffling the order is %v", got)
	}
}

func TestOrderIsUniform(t *testing.T) {
	files := listing(make([]int64, 10)...)
	var first [10]int
	for epoch := range uint32(10000) {
		first[plan.Order(files, 1, true, epoch)[0]]++
	}
	for i, n := range first {
		if n < 850 || n > 1150 {
			t.Errorf("file %d came first %d times of 10,000 among 10 files", i, n)
		}
	}
}

func TestBlocks(t *testing.T) {
	cfg := plan.Config{BlockBytes: 100, FirstBlockBytes: 10, BlockFiles: 20}
	tests := []struct {
		name  string
		sizes []int64
		want  []int // files of each block
	}{
		{"nothing", nil, nil},
		{"one", []int64{5}, []int{1}},
		{"the first is small", []int64{6, 4, 50, 50, 1}, []int{2, 2, 1}},
		{"large files stand alone", []int64{500, 500, 20, 500}, []int{1, 1, 1, 1}},
		{"empty files", make([]int64, 25), []int{2, 20, 3}},
		{"hostile sizes", []int64{1 << 62, 1 << 62, 1<<63 - 1, -1, -1 << 63}, []int{1, 1, 1, 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := listing(test.sizes...)
			var got []int
			for _, b := range plan.Blocks(cfg, files, plan.Order(files, 0, false, 0)) {
				got = append(got, len(b))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("blocks of %v files, want %v", got, test.want)
			}
		})
	}
}

func TestBlocksPartitionTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := listing(rapid.SliceOfN(rapid.Int64Range(0, 300), 0, 100).Draw(t, "sizes")...)
		cfg := plan.Config{
			BlockBytes:      rapid.Int64Range(1, 1000).Draw(t, "block"),
			FirstBlockBytes: rapid.Int64Range(1, 1000).Draw(t, "first"),
			BlockFiles:      rapid.Int64Range(1, 30).Draw(t, "files"),
		}
		order := plan.Order(files, 1, true, 0)
		blocks := plan.Blocks(cfg, files, order)
		if joined := slices.Concat(blocks...); !slices.Equal(joined, order) {
			t.Fatalf("blocks hold %v, the order is %v", joined, order)
		}
		for i, b := range blocks {
			limit := cfg.BlockBytes
			if i == 0 {
				limit = min(limit, cfg.FirstBlockBytes)
			}
			var size int64
			for _, f := range b {
				size += files[f].GetSize()
			}
			if len(b) == 0 || len(b) > 1 && size > limit || len(b) > int(cfg.BlockFiles) {
				t.Fatalf("block %d has %d files of %d bytes; the limits are %d and %d",
					i, len(b), size, cfg.BlockFiles, limit)
			}
		}
	})
}

func TestDatasetDigest(t *testing.T) {
	base := plan.DatasetDigest(listing(1, 2))
	if len(base) != 32 || !bytes.Equal(base, plan.DatasetDigest(listing(1, 2))) {
		t.Fatalf("digest %x is not a function of the listing", base)
	}
	changes := map[string]func([]*pb.File) []*pb.File{
		"size":    func(f []*pb.File) []*pb.File { f[0].Size++; return f },
		"etag":    func(f []*pb.File) []*pb.File { f[1].Etag = "x"; return f },
		"uri":     func(f []*pb.File) []*pb.File { f[1].Uri += "x"; return f },
		"removed": func(f []*pb.File) []*pb.File { return f[:1] },
		"moved": func(f []*pb.File) []*pb.File {
			f[0].Uri, f[0].Etag = f[0].Uri[:5],
				f[0].Uri[5:]+f[0].Etag
			return f
		},
	}
	for name, change := range changes {
		if bytes.Equal(base, plan.DatasetDigest(change(listing(1, 2)))) {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}

func TestConfigDefaultsArePinned(t *testing.T) {
	got := plan.Config{ShardBytes: 5}.Proto()
	if got.GetBlockBytes() != 1<<30 || got.GetFirstBlockBytes() != 64<<20 || got.GetBlockFiles() != 1024 ||
		got.GetShardBytes() != 5 || got.GetWindowBytes() != 4<<20 {
		t.Errorf("a session is opened with %v", got)
	}
	if back := plan.ConfigFromProto(got).Proto(); back.String() != got.String() {
		t.Errorf("read back as %v", back)
	}
}

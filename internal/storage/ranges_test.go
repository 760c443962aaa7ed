package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/keys"
)

// memory is a Storage of one file that notes what is read of it.
type memory struct {
	content []byte
	fail    func(offset int64) error

	mu    sync.Mutex
	reads []Range
	now   int
	peak  int
}

func (m *memory) List(context.Context, string, []string) ([]*pb.File, error) { return nil, nil }

func (m *memory) Keys(string) *keys.Ring { return nil }

func (m *memory) ReadAt(_ context.Context, _ string, _ *pb.File, buf []byte, offset int64) error {
	m.mu.Lock()
	m.reads = append(m.reads, Range{offset, int64(len(buf))})
	m.now++
	m.peak = max(m.peak, m.now)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.now--
		m.mu.Unlock()
	}()
	if m.fail != nil {
		if err := m.fail(offset); err != nil {
			return err
		}
	}
	copy(buf, m.content[offset:])
	return nil
}

func (m *memory) file() *pb.File { return &pb.File{Uri: "mem://x", Size: int64(len(m.content))} }

func TestReadRangesProperty(t *testing.T) {
	content := make([]byte, 4096)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	rapid.Check(t, func(t *rapid.T) {
		ranges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Range {
			offset := rapid.Int64Range(0, 4096).Draw(t, "offset")
			return Range{offset, rapid.Int64Range(0, min(400, 4096-offset)).Draw(t, "length")}
		}), 0, 20).Draw(t, "ranges")
		how := Reading{
			MaxGap:   rapid.Int64Range(-1, 200).Draw(t, "gap"),
			Part:     rapid.Int64Range(1, 500).Draw(t, "part"),
			Parallel: rapid.IntRange(1, 4).Draw(t, "parallel"),
		}
		m := &memory{content: content}
		allocated := int64(-1)
		out, err := ReadRanges(context.Background(), m, "", m.file(), ranges, how, func(n int64) ([]byte, error) {
			if allocated >= 0 {
				t.Fatal("alloc was called twice")
			}
			allocated = n
			return make([]byte, n), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := how.Requests(ranges); n != int64(len(m.reads)) || how.Size(ranges) != max(0, allocated) {
			t.Fatalf("%d requests of %d bytes are foretold, there are %d of %d", n, how.Size(ranges), len(m.reads),
				allocated)
		}
		wanted := make(map[int64]bool)
		for i, r := range ranges {
			if !bytes.Equal(out[i], content[r.Offset:r.Offset+r.Length]) {
				t.Fatalf("range %d: wrong bytes", i)
			}
			for b := r.Offset; b < r.Offset+r.Length; b++ {
				wanted[b] = true
			}
		}
		if len(wanted) == 0 {
			if allocated >= 0 || len(m.reads) > 0 {
				t.Fatalf("read %v for nothing", m.reads)
			}
			return
		}
		checkReads(t, m, how, allocated, wanted)
	})
}

// keeping is a Storage that holds some ranges.
type keeping struct {
	*memory
	calls [][]bool // the ranges that it has read, by call; it holds the others
}

func (k keeping) Fill(
	_ context.Context, _ string, _ *pb.File, ranges []Range, into [][]byte, read func([]bool) error,
) error {
	for i, r := range ranges {
		if !slices.ContainsFunc(k.calls, func(wanted []bool) bool { return wanted[i] }) {
			copy(into[i], k.content[r.Offset:])
		}
	}
	for _, wanted := range k.calls {
		if err := read(wanted); err != nil {
			return err
		}
	}
	return nil
}

func TestReadRangesThatAreKept(t *testing.T) {
	content := make([]byte, 4096)
	for i := range content {
		content[i] = byte(i*7>>3) | 1 // none is what a buffer begins with
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		ranges, k := make([]Range, n), keeping{&memory{content: content}, [][]bool{make([]bool, n), make([]bool, n)}}
		wanted := map[int64]bool{}
		for i := range ranges {
			offset := rapid.Int64Range(0, 4096).Draw(t, "offset")
			ranges[i] = Range{offset, rapid.Int64Range(0, min(400, 4096-offset)).Draw(t, "length")}
			switch call := rapid.IntRange(0, 2).Draw(t, "call"); {
			case ranges[i].Length == 0:
			case call < 2:
				k.calls[call][i] = true
				for b := offset; b < offset+ranges[i].Length; b++ {
					wanted[b] = true
				}
			}
		}
		how := Reading{MaxGap: rapid.Int64Range(-1, 200).Draw(t, "gap"), Part: rapid.Int64Range(1, 500).Draw(t, "part")}
		out, err := ReadRanges(t.Context(), k, "", k.file(), ranges, how, func(size int64) ([]byte, error) {
			if size != how.Size(ranges) {
				t.Fatalf("%d bytes, as foretold %d", size, how.Size(ranges))
			}
			return make([]byte, size), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range ranges {
			if !bytes.Equal(out[i], content[r.Offset:r.Offset+r.Length]) {
				t.Fatalf("range %d: wrong bytes", i)
			}
		}
		read := int64(0)
		for _, r := range k.reads {
			read += r.Length
		}
		if read > 4*int64(len(wanted)) { // a call reads up to twice what it is asked for
			t.Fatalf("%d bytes read, %d wanted", read, len(wanted))
		}
	})
}

// checkReads checks that no byte was read twice, not too many that are not wanted, and none past the bounds set.
func checkReads(t *rapid.T, m *memory, how Reading, allocated int64, wanted map[int64]bool) {
	seen := make(map[int64]bool)
	for _, r := range m.reads {
		if r.Length > how.Part {
			t.Fatalf("read %v is longer than a part", r)
		}
		for b := r.Offset; b < r.Offset+r.Length; b++ {
			if seen[b] {
				t.Fatalf("byte %d was read twice", b)
			}
			seen[b] = true
		}
	}
	if int64(len(seen)) != allocated {
		t.Fatalf("%d bytes read into %d", len(seen), allocated)
	}
	if allocated > 2*int64(len(wanted)) {
		t.Fatalf("%d bytes read, %d wanted", allocated, len(wanted))
	}
	if m.peak > how.Parallel {
		t.Fatalf("%d reads at a time", m.peak)
	}
}

func TestCoalesce(t *testing.T) {
	for name, tc := range map[string]struct {
		ranges []Range
		maxGap int64
		want   string
	}{
		"adjacent":      {[]Range{{10, 5}, {0, 10}}, -1, "0+15"},
		"overlapping":   {[]Range{{0, 10}, {5, 10}, {6, 2}}, -1, "0+15"},
		"gap small":     {[]Range{{0, 10}, {12, 10}}, 2, "0+22"},
		"gap too large": {[]Range{{0, 10}, {13, 10}}, 2, "0+10 13+10"},
		"more gap than wanted": {
			[]Range{{0, 1}, {50, 1}, {100, 1}},
			100, "0+1 50+1 100+1",
		},
		"empty": {[]Range{{5, 0}}, 10, ""},
	} {
		runs, _ := coalesce(tc.ranges, tc.maxGap)
		var got []string
		for _, r := range runs {
			got = append(got, fmt.Sprintf("%d+%d", r.Offset, r.Length))
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s: %q, want %q", name, s, tc.want)
		}
	}
}

func TestReadRangesErrors(t *testing.T) {
	broken := errors.New("broken")
	m := &memory{content: make([]byte, 1000)}
	alloc := func(n int64) ([]byte, error) { return make([]byte, n), nil }
	read := func(r Range, alloc func(int64) ([]byte, error)) error {
		_, err := ReadRanges(t.Context(), m, "", m.file(), []Range{{0, 1}, r}, Reading{Part: 100}, alloc)
		return err
	}
	for _, r := range []Range{{-1, 2}, {0, -1}, {0, 1001}, {1001, 0}, {1 << 62, 1 << 62}} {
		if err := read(r, alloc); err == nil || !strings.Contains(err.Error(), "mem://x: range 1") {
			t.Errorf("%v: error %v, want one that names file and range", r, err)
		}
	}
	if err := read(Range{5, 5}, func(int64) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("alloc fails: error %v", err)
	}
	if err := read(Range{5, 5}, func(int64) ([]byte, error) { return nil, nil }); err == nil {
		t.Error("alloc gives a short buffer: no error")
	}
	m.fail = func(offset int64) error {
		if offset >= 500 {
			return broken
		}
		return nil
	}
	if err := read(Range{0, 1000}, alloc); !errors.Is(err, broken) {
		t.Errorf("a part fails: error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadRanges(ctx, m, "", m.file(), []Range{{0, 9}}, Reading{}, alloc); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}

package reads_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/cache/reads"
	"github.com/penstock-ml/penstock/internal/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin is a Storage of one file that counts the bytes which are read of it.
type origin struct {
	storage.InMemory
	bytes atomic.Int64
	fail  atomic.Pointer[error]
	enter func() // runs before each read
}

func (o *origin) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	if o.enter != nil {
		o.enter()
	}
	if err := o.fail.Load(); err != nil {
		return *err
	}
	o.bytes.Add(int64(len(buf)))
	return o.InMemory.ReadAt(ctx, profile, f, buf, offset)
}

func newOrigin(size int) *origin {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	return &origin{InMemory: content}
}

func (o *origin) file() *pb.File {
	return &pb.File{Uri: "s3://bucket/file", Etag: "1", Size: int64(len(o.InMemory))}
}

// open returns a storage that keeps what it reads in a folder. It closes with the test, or before.
func open(t testing.TB, o storage.Storage, dir string, limit int64) (r *reads.Reads, end func()) {
	t.Helper()
	units, err := cache.Open(cache.Config{Dir: dir, MaxBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	<-units.Loaded()
	r = reads.New(o, units)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := units.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return r, end
}

func read(t rapid.TB, r storage.Storage, o *origin, f *pb.File, ranges ...storage.Range) {
	t.Helper()
	got, err := storage.ReadRanges(context.Background(), r, "", f, ranges, storage.Reading{}, func(n int64) ([]byte, error) {
		return make([]byte, n), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, of := range ranges {
		if !bytes.Equal(got[i], o.InMemory[of.Offset:of.Offset+of.Length]) {
			t.Fatalf("%v has other bytes", of)
		}
	}
}

// TestBytesAreTheOrigins reads at random, through caches that are too small, too.
func TestBytesAreTheOrigins(t *testing.T) {
	o := newOrigin(1 << 20)
	for _, limit := range []int64{1, 200 << 10, 3 << 20} {
		r, _ := open(t, o, t.TempDir(), limit)
		rapid.Check(t, func(rt *rapid.T) {
			ranges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) storage.Range {
				offset := 10_000 * rapid.Int64Range(0, 100).Draw(t, "offset")
				return storage.Range{Offset: offset, Length: min(1<<20-offset, 7_000*rapid.Int64Range(0, 9).Draw(t, "n"))}
			}), 0, 6).Draw(rt, "ranges")
			if rapid.IntRange(0, 9).Draw(rt, "whole") == 0 {
				ranges = append(ranges, storage.Range{Length: 1 << 20})
			}
			f := o.file()
			f.Etag = rapid.SampledFrom([]string{"1", "2", "", "W/3"}).Draw(rt, "etag")
			read(rt, r, o, f, ranges...)
		})
	}
}

func TestAUnitIsReadOnce(t *testing.T) {
	o, dir := newOrigin(1<<20), t.TempDir()
	first, later := storage.Range{Offset: 1000, Length: 100_000}, storage.Range{Offset: 300_000, Length: 200_000}
	r, end := open(t, o, dir, 1<<30)
	read(t, r, o, o.file(), first)
	read(t, r, o, o.file(), later, first) // what waits to be written is there
	end()
	r, _ = open(t, o, dir, 1<<30)
	read(t, r, o, o.file(), first, later)
	if n := o.bytes.Load(); n != first.Length+later.Length {
		t.Errorf("%d bytes were read", n)
	}
	for name, change := range map[string]func(*pb.File){
		"another version": func(f *pb.File) { f.Etag = "2" },
		"another file":    func(f *pb.File) { f.Uri += "x" },
		"another length":  func(f *pb.File) { f.Size-- },
		"a weak ETag":     func(f *pb.File) { f.Etag = "W/1" },
		"no ETag":         func(f *pb.File) { f.Etag = "" },
		"a local file":    func(f *pb.File) { f.Uri = "file:///file" },
	} {
		f, before := o.file(), o.bytes.Load()
		if change(f); true {
			read(t, r, o, f, first)
		}
		if o.bytes.Load() == before {
			t.Errorf("%s is taken for the file", name)
		}
	}
}

// TestReadersAtOnceReadOnce holds up the first of readers of the same until the others wait for it.
func TestReadersAtOnceReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, of := newOrigin(1<<20), storage.Range{Offset: 1000, Length: 100_000}
		var entered atomic.Bool
		o.enter = func() {
			if entered.CompareAndSwap(false, true) {
				synctest.Wait()
			}
		}
		r, _ := open(t, o, t.TempDir(), 1<<30)
		var readers errgroup.Group
		for range 10 {
			readers.Go(func() error {
				read(t, r, o, o.file(), of, storage.Range{Offset: 900_000, Length: 50})
				return nil
			})
		}
		_ = readers.Wait()
		if n := o.bytes.Load(); n != of.Length+10*50 || r.Stats().Waits != 9 {
			t.Errorf("%d bytes were read, by %+v", n, r.Stats())
		}
	})
}

// TestNobodyWaitsLongForAnother has the first reader wait for the second, which would read the same.
func TestNobodyWaitsLongForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, of := newOrigin(1<<20), storage.Range{Offset: 1000, Length: 100_000}
		second, entered := make(chan struct{}), make(chan struct{})
		var calls atomic.Int64
		o.enter = func() {
			if calls.Add(1) == 1 {
				close(entered)
				<-second
			}
		}
		r, _ := open(t, o, t.TempDir(), 1<<30)
		var first errgroup.Group
		first.Go(func() error {
			read(t, r, o, o.file(), of)
			return nil
		})
		<-entered
		read(t, r, o, o.file(), of)
		close(second)
		_ = first.Wait()
		if n := o.bytes.Load(); n != 2*of.Length {
			t.Errorf("%d bytes were read", n)
		}
	})
}

// TestASmallFileIsKeptAsAWhole: parts of it, however small, are then there.
func TestASmallFileIsKeptAsAWhole(t *testing.T) {
	o, dir := newOrigin(100_000), t.TempDir()
	whole, parts := storage.Range{Length: 100_000}, []storage.Range{{Offset: 10, Length: 50}, {Offset: 500, Length: 90_000}}
	r, end := open(t, o, dir, 1<<30)
	read(t, r, o, o.file(), whole)
	read(t, r, o, o.file(), parts...) // what waits to be written is there
	end()
	r, _ = open(t, o, dir, 1<<30)
	read(t, r, o, o.file(), parts...)
	if n := o.bytes.Load(); n != whole.Length {
		t.Errorf("%d bytes were read", n)
	}
}

func TestAFailedReadIsTheCallersOwn(t *testing.T) {
	o := newOrigin(1 << 20)
	r, _ := open(t, o, t.TempDir(), 1<<30)
	broken := errors.New("broken")
	o.fail.Store(&broken)
	of := []storage.Range{{Length: 100_000}}
	_, err := storage.ReadRanges(t.Context(), r, "", o.file(), of, storage.Reading{},
		func(n int64) ([]byte, error) { return make([]byte, n), nil })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	o.fail.Store(nil)
	read(t, r, o, o.file(), of...)
}

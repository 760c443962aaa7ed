package formats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// wide is a file with so many column chunks that what is known of it depends on what is asked for.
func wide(t *testing.T) []byte {
	const columns, rowGroups = 300, 30
	fields := make([]arrow.Field, columns)
	values := make([]arrow.Array, columns)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: arrow.PrimitiveTypes.Float32}
		b := array.NewFloat32Builder(memory.DefaultAllocator)
		b.Append(float32(i))
		values[i] = b.NewArray()
	}
	schema := arrow.NewSchema(fields, nil)
	records := make([]arrow.Record, rowGroups)
	for i := range records {
		records[i] = array.NewRecord(schema, values, 1)
	}
	return filetest.Parquet(t, schema, records)
}

func floats(names ...string) (out []*pb.Source) {
	for _, name := range names {
		out = append(out, &pb.Source{Name: name, Path: []string{name}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}})
	}
	return out
}

// slow is a storage that takes a second for each read, fails the first ones, and notes how many long ones there are at
// once.
type slow struct {
	filetest.One
	fails atomic.Int64

	mu         sync.Mutex
	long, most int
}

var errSlow = errors.New("slow storage")

func (s *slow) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	if len(buf) > format.Tail {
		s.longReads(1)
		defer s.longReads(-1)
	}
	time.Sleep(time.Second)
	if s.fails.Add(-1) >= 0 {
		return errSlow
	}
	return s.One.ReadAt(ctx, profile, f, buf, offset)
}

func (s *slow) longReads(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.long += more
	s.most = max(s.most, s.long)
}

// readsOfWide is how often a description is read for: the file's tail, and the rest of its footer.
const readsOfWide = 2

// TestWideFilesAreKnownForWhatIsRead: before it is known what is read, the footer is kept as it is, and not read again
// for that. Then no more is kept than what the sources take, of all calls.
func TestWideFilesAreKnownForWhatIsRead(t *testing.T) {
	m := &filetest.One{URI: "mem://wide.parquet", Data: wide(t)}
	c := NewCache(1 << 30)
	load := func(reads int64, sources ...*pb.Source) format.File {
		t.Helper()
		before := m.Reads.Load()
		f, err := c.Load(t.Context(), m, "", m.File(), nil, sources, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := m.Reads.Load() - before; n != reads {
			t.Errorf("%d reads for %v, want %d", n, sources, reads)
		}
		if c.Size() != f.Size() {
			t.Errorf("%d bytes are kept, the description has %d", c.Size(), f.Size())
		}
		return f
	}
	all, err := Load(t.Context(), m, "", m.File(), nil)
	if err != nil {
		t.Fatal(err)
	}
	unknown := load(readsOfWide)
	a, b := floats("c1", "c299", "missing"), floats("c7")
	first := load(0, a...)
	if first.Size() > all.Size()/4 || first.Size() > unknown.Size()/2 {
		t.Errorf("it takes %d bytes for 2 columns, %d for all, and %d before it is known which", first.Size(), all.Size(),
			unknown.Size())
	}
	if c.Has("", m.File(), nil, b) {
		t.Errorf("c7 is known, and nobody asked for it")
	}
	if _, err := first.Bind(b); err == nil {
		t.Error("c7 can be bound")
	}
	load(readsOfWide, b...)
	both := load(0, append(a, b...)...)
	load(0)
	bound, err := both.Bind(append(a, b...))
	if err != nil {
		t.Fatal(err)
	}
	want, err := all.Bind(append(a, b...))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Extents() {
		if bound.Cost(i) != want.Cost(i) {
			t.Errorf("row group %d costs %+v, and %+v where all is known", i, bound.Cost(i), want.Cost(i))
		}
	}
}

// TestLongFootersAreReadInParallel: one request alone takes long for tens of megabytes.
func TestLongFootersAreReadInParallel(t *testing.T) {
	padding := arrow.NewMetadata([]string{"padding"}, []string{strings.Repeat("x", 9<<20)})
	data := filetest.Parquet(t, arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, &padding),
		nil)
	synctest.Test(t, func(t *testing.T) {
		m := &slow{One: filetest.One{URI: "mem://long.parquet", Data: data}}
		if _, err := Load(t.Context(), m, "", m.File(), nil); err != nil {
			t.Fatal(err)
		}
		if m.most < 2 {
			t.Errorf("%d requests at once", m.most)
		}
	})
}

// TestOneCallReadsForAll: of calls at once for one file one reads it, and where that fails, another one does.
func TestOneCallReadsForAll(t *testing.T) {
	data := wide(t)
	synctest.Test(t, func(t *testing.T) {
		m := &slow{One: filetest.One{URI: "mem://wide.parquet", Data: data}}
		m.fails.Store(1)
		c := NewCache(1 << 30)
		var failed atomic.Int64
		var group errgroup.Group
		for range 8 {
			group.Go(func() error {
				_, err := c.Load(t.Context(), m, "", m.File(), nil, floats("c1"), nil)
				if errors.Is(err, errSlow) {
					failed.Add(1)
					return nil
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := m.Reads.Load(); n != readsOfWide || failed.Load() != 1 {
			t.Errorf("%d reads, want %d; %d calls failed, want 1", n, readsOfWide, failed.Load())
		}
	})
}

// TestWhoWaitsCanBeCalledOff: a call that waits for another one's read ends with its context.
func TestWhoWaitsCanBeCalledOff(t *testing.T) {
	data := wide(t)
	synctest.Test(t, func(t *testing.T) {
		m := &slow{One: filetest.One{URI: "mem://wide.parquet", Data: data}}
		c := NewCache(1 << 30)
		var group errgroup.Group
		group.Go(func() error {
			_, err := c.Load(t.Context(), m, "", m.File(), nil, nil, nil)
			return err
		})
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errSlow)
		if _, err := c.Load(ctx, m, "", m.File(), nil, nil, nil); !errors.Is(err, errSlow) {
			t.Errorf("error %v, want the context's", err)
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCallsWithoutABudgetShareOne: no more footers are in memory at once than there is room for, but for calls that
// have a budget of their own.
func TestCallsWithoutABudgetShareOne(t *testing.T) {
	data := wide(t)
	for _, tc := range []struct {
		name string
		take func(int64) error
		most int
	}{
		{"without", nil, 1},
		{"with their own", func(int64) error { return nil }, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &slow{One: filetest.One{URI: "mem://wide.parquet", Data: data}}
			c := NewCache(1 << 30)
			c.room = NewRoom(int64(len(data))) // a footer's and not two's
			var group errgroup.Group
			for i := range 4 {
				f := m.File()
				f.Etag = fmt.Sprint(i)
				group.Go(func() error {
					_, err := c.Load(t.Context(), m, "", f, nil, floats("c1"), tc.take)
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			if n := m.most; n != tc.most {
				t.Errorf("%s: %d footers were read at once, want %d", tc.name, n, tc.most)
			}
		})
	}
}

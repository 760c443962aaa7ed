package client

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/wire"
)

// dirty is a Config.Memory whose bytes are all 0xFF.
type dirty struct {
	t     *testing.T
	made  [][]byte
	freed int
}

func (d *dirty) memory() BatchMemory { return d }

func (d *dirty) Take(n int) ([]byte, error) {
	m := wire.Aligned[byte](n)
	for i := range m {
		m[i] = 0xFF
	}
	d.made = append(d.made, m)
	return m, nil
}

func (d *dirty) Free() { d.freed++ }

// check expects arrays with these values, in memory that was made here.
func (d *dirty) check(got, want [][]byte) {
	d.t.Helper()
	if len(got) != len(want) {
		d.t.Fatalf("%d arrays; expected %d", len(got), len(want))
	}
	for i, a := range got {
		if !bytes.Equal(a, want[i]) {
			d.t.Errorf("array %d is %v; in Go's heap %v", i, a, want[i])
		}
		if len(a) > 0 && !slices.ContainsFunc(d.made, func(m []byte) bool { return holds(m, a) }) {
			d.t.Errorf("array %d lies elsewhere", i)
		}
	}
}

// holds reports whether memory has all of an array.
func holds(m, a []byte) bool {
	at, begin := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(m)))
	return at >= begin && at+uintptr(len(a)) <= begin+uintptr(len(m))
}

// TestMemoryOfAnyValues makes the same batches as Go's heap, which is zeros.
func TestMemoryOfAnyValues(t *testing.T) {
	d := fake.NewDataset(4, 2, 8)
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		start := func(name string) Config {
			fl.Master(name, &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 1, Run: 2})
			return config(fl, name)
		}
		there := &dirty{t: t}
		cfg := start("there")
		cfg.Memory = there.memory
		s, heap := open(t, cfg), open(t, start("heap"))
		for b, err := range s.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			want, err := heap.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			there.check(b.Arrays(), want.Arrays())
			if !b.Schema().Equal(want.Schema()) || b.Rows != want.Rows || b.Valid != want.Valid {
				t.Errorf("%d of %d rows, %v; in Go's heap %d of %d, %v",
					b.Valid, b.Rows, b.Schema(), want.Valid, want.Rows, want.Schema())
			}
			b.Release()
			want.Release()
		}
		if _, err := heap.Next(t.Context()); err == nil {
			t.Error("in Go's heap there are more batches")
		}
	})
}

// TestMemoryOfManyBatches goes back, but for that of as many as a loop takes that lets go of each.
func TestMemoryOfManyBatches(t *testing.T) {
	d := fake.NewDataset(4, 2, 8)
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		fl.Master("m", &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 1, Run: 2})
		memory := &dirty{t: t}
		cfg := config(fl, "m")
		cfg.Memory = memory.memory
		var kept []*Batch
		for b, err := range open(t, cfg).Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, b)
		}
		for _, b := range kept {
			b.Release()
		}
		if want := len(kept) - maxFree; want < 1 || memory.freed != want {
			t.Errorf("the memory of %d batches of %d went back", memory.freed, len(kept))
		}
	})
}

// noMemory is a Config.Memory that has none.
type noMemory struct{ err error }

func (m noMemory) Take(int) ([]byte, error) { return nil, m.err }

func (noMemory) Free() {}

// TestMemoryThatCannotBeHad: rows that no memory is there for are not handed over.
func TestMemoryThatCannotBeHad(t *testing.T) {
	d := fake.NewDataset(4, 2, 8)
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		fl.Master("m", &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 1, Run: 2})
		cfg, refused := config(fl, "m"), errors.New("no memory")
		cfg.Memory = func() BatchMemory { return noMemory{refused} }
		s := open(t, cfg)
		if _, err := s.Next(t.Context()); !errors.Is(err, refused) {
			t.Errorf("got %v, want %v", err, refused)
		}
		if st := s.State(); len(st.GetConsumed()) > 0 || st.GetHanded() > 0 {
			t.Errorf("handed over are %v", st)
		}
	})
}

// TestMemoryOfGrowingColumns: narrow integers, bits and rows of any lengths are put together from pieces, and padded.
func TestMemoryOfGrowingColumns(t *testing.T) {
	l := testLayout(t)
	r := rand.New(rand.NewPCG(1, 2))
	there := &dirty{t: t}
	const total = 400
	buf, heap := newBuffers(l, total, &allocator{of: there}), newBuffers(l, total, nil)
	for range 20 {
		buf.reset()
		heap.reset()
		for buf.rows < total {
			first := fake.Row{Shard: 300 * r.IntN(2), K: 300 * r.IntN(2)}
			rows := make([]fake.Row, 1+r.IntN(60))
			for i := range rows {
				rows[i] = first
				rows[i].K += i * (1 + 3*r.IntN(2)) // all kinds of lengths, or none
			}
			b := flattened(t, fake.Rows(rows))
			if r.IntN(2) == 0 {
				fake.Narrow(b, l.schema)
			}
			w, err := l.bind(b)
			if err != nil {
				t.Fatal(err)
			}
			if r.IntN(2) == 0 { // as if of a large batch
				w.bytes = pastCaches
			}
			lo := r.IntN(len(rows))
			hi := lo + min(r.IntN(len(rows)-lo+1), total-buf.rows)
			for _, o := range []*buffers{buf, heap} {
				if err := o.append(w, lo, hi); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(8) == 0 {
				break
			}
		}
		for _, o := range []*buffers{buf, heap} {
			o.pad(total - o.rows)
		}
		there.check((&Batch{buffers: buf}).Arrays(), (&Batch{buffers: heap}).Arrays())
	}
	if n := len((&Batch{buffers: buf}).Arrays()); len(there.made) <= n {
		t.Errorf("memory was made %d times for %d arrays: none grew", len(there.made), n)
	}
}

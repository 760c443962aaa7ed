package transform

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestFilledTextIsAskedFor fills nulls with a text that is much longer than the input.
func TestFilledTextIsAskedFor(t *testing.T) {
	const rows, value = 100, 10_000
	text := spec.Type{Kind: pb.Kind_BINARY}
	// the last is no row
	v := &vector.Vector{Type: text, Rows: rows, Ends: make([]int32, rows+1), Valid: []uint64{1 << 63, 1 << 40}}
	v.Data = []byte("abc")
	for i := 64; i <= rows; i++ {
		v.Ends[i] = 3
	}
	s := step{
		kernel: &fillBytes{value: strings.Repeat("v", value)}, swells: true, from: []uint32{0},
		in: make([]*vector.Vector, 1), typ: text,
	}
	var asked int64
	c := &Chain{ask: Ask{Result: func(n int64) error { asked = n; return nil }}}
	if err := c.run(t.Context(), &s, []*vector.Vector{v}, rows); err != nil {
		t.Fatal(err)
	}
	if len(s.out.Data) != 99*value+3 || int64(cap(s.out.Data)) > asked+16 ||
		string(s.out.Data[63*value:63*value+4]) != "abcv" {
		t.Errorf("made are %d bytes, in memory of %d, and asked for %d", len(s.out.Data), cap(s.out.Data), asked)
	}
}

// TestSizersAskFirst refuses the memory of a result, and then gives it: the result takes no more.
func TestSizersAskFirst(t *testing.T) {
	ids := spec.Type{Kind: pb.Kind_INT64, List: true}
	long := &vector.Vector{Type: ids, Rows: 2, Offsets: []int32{0, 0, 2000}, I64: make([]int64, 2000)}
	s := step{kernel: &product{}, swells: true, from: []uint32{0, 0}, in: make([]*vector.Vector, 2), typ: ids}
	refused := errors.New("no memory")
	var asked int64
	c := &Chain{ask: Ask{Result: func(n int64) error { asked = n; return refused }}}
	if err := c.run(t.Context(), &s, []*vector.Vector{long}, 2); !errors.Is(err, refused) {
		t.Fatalf("got %v, want %v", err, refused)
	}
	if s.out.I64 != nil {
		t.Error("the result was made without memory")
	}
	if err := (&Chain{}).run(t.Context(), &s, []*vector.Vector{long}, 2); err != nil {
		t.Fatal(err)
	}
	if made := 8 * int64(cap(s.out.I64)); len(s.out.I64) != 2000*2000 || made > asked || asked > 2*made {
		t.Errorf("%d values take %d bytes, asked for were %d", len(s.out.I64), made, asked)
	}
}

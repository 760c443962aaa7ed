package position

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// at is the n-th of a few positions that differ in every field.
func at(n int) Position {
	return Position{
		Epoch: uint32(n / 16), Block: uint32(n / 8 % 2), Shard: uint32(n / 4 % 2),
		Window: uint32(n / 2 % 2), K: uint64(n % 2),
	}
}

const places = 48

func TestCompare(t *testing.T) {
	for i := range places {
		for j := range places {
			if got := at(i).Compare(at(j)); (got < 0) != (i < j) || (got > 0) != (i > j) ||
				at(i).Less(at(j)) != (i < j) {
				t.Errorf("%v compared to %v: %d", at(i), at(j), got)
			}
		}
	}
}

func TestShardStart(t *testing.T) {
	p := Position{Epoch: 1, Block: 2, Shard: 3, Window: 4, K: 5}
	if got, want := p.ShardStart(), (Position{Epoch: 1, Block: 2, Shard: 3}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestString(t *testing.T) {
	iv := Interval{From: Position{1, 2, 3, 4, 5}, To: Position{2, 0, 0, 0, 0}}
	if got, want := iv.String(), "[1/2/3/4+5, 2/0/0/0+0)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// span is an interval between the i-th and j-th place.
func span(i, j int) Interval { return Interval{From: at(i), To: at(j)} }

func TestSetTable(t *testing.T) {
	for _, c := range []struct {
		name                           string
		s, t                           Set
		union, subtracted, intersected Set
	}{
		{name: "both empty"},
		{name: "one empty", s: Set{span(1, 3)}, union: Set{span(1, 3)}, subtracted: Set{span(1, 3)}},
		{
			name: "apart", s: Set{span(1, 3)}, t: Set{span(5, 6)},
			union: Set{span(1, 3), span(5, 6)}, subtracted: Set{span(1, 3)},
		},
		{
			name: "touching become one", s: Set{span(1, 3)}, t: Set{span(3, 6)},
			union: Set{span(1, 6)}, subtracted: Set{span(1, 3)},
		},
		{
			name: "overlapping", s: Set{span(1, 4)}, t: Set{span(3, 6)},
			union: Set{span(1, 6)}, subtracted: Set{span(1, 3)}, intersected: Set{span(3, 4)},
		},
		{
			name: "a hole", s: Set{span(1, 9)}, t: Set{span(3, 6)},
			union: Set{span(1, 9)}, subtracted: Set{span(1, 3), span(6, 9)}, intersected: Set{span(3, 6)},
		},
		{
			name: "a bridge", s: Set{span(1, 3), span(6, 9)}, t: Set{span(3, 6)},
			union: Set{span(1, 9)}, subtracted: Set{span(1, 3), span(6, 9)},
		},
		{
			name: "equal", s: Set{span(1, 3), span(6, 9)}, t: Set{span(1, 3), span(6, 9)},
			union: Set{span(1, 3), span(6, 9)}, intersected: Set{span(1, 3), span(6, 9)},
		},
		{
			name: "across epochs", s: Set{span(10, 20)}, t: Set{span(16, 40)},
			union: Set{span(10, 40)}, subtracted: Set{span(10, 16)}, intersected: Set{span(16, 20)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for op, got := range map[string][2]Set{
				"union":     {c.s.Union(c.t), c.union},
				"subtract":  {c.s.Subtract(c.t), c.subtracted},
				"intersect": {c.s.Intersect(c.t), c.intersected},
			} {
				if !got[0].Equal(got[1]) {
					t.Errorf("%s: got %v, want %v", op, got[0], got[1])
				}
			}
		})
	}
}

// bitmap is the naive set: which places lie in it.
type bitmap [places]bool

func (b *bitmap) fill(i, j int) {
	for ; i < j; i++ {
		b[i] = true
	}
}

func (b bitmap) with(c bitmap, op func(b, c bool) bool) bitmap {
	for i := range b {
		b[i] = op(b[i], c[i])
	}
	return b
}

// bits reads a set as a bitmap. Every bound of sets here is a place.
func bits(t *rapid.T, s Set) bitmap {
	var b bitmap
	for i := range b {
		b[i] = s.Contains(at(i))
	}
	for i, iv := range s {
		if iv.Empty() || i > 0 && !s[i-1].To.Less(iv.From) {
			t.Fatalf("%v is not in normal form at %d", s, i)
		}
	}
	return b
}

func drawSet(t *rapid.T, name string) (Set, bitmap) {
	var intervals []Interval
	var b bitmap
	for range rapid.IntRange(0, 8).Draw(t, name) {
		i, j := rapid.IntRange(0, places-1).Draw(t, "from"), rapid.IntRange(0, places-1).Draw(t, "to")
		intervals = append(intervals, span(i, j))
		b.fill(i, j)
	}
	return NewSet(intervals...), b
}

func TestSetAgainstBitmap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, sb := drawSet(t, "s")
		u, ub := drawSet(t, "u")
		s0, u0 := slices.Clone(s), slices.Clone(u)
		for name, c := range map[string]struct {
			got  Set
			want bitmap
		}{
			"new":       {s, sb},
			"union":     {s.Union(u), sb.with(ub, func(b, c bool) bool { return b || c })},
			"subtract":  {s.Subtract(u), sb.with(ub, func(b, c bool) bool { return b && !c })},
			"intersect": {s.Intersect(u), sb.with(ub, func(b, c bool) bool { return b && c })},
			"proto":     {SetFromProto(s.Proto()), sb},
		} {
			if got := bits(t, c.got); got != c.want {
				t.Fatalf("%s of %v and %v: got %v", name, s, u, c.got)
			}
		}
		if got, want := s.Covers(u), sb.with(ub, func(b, c bool) bool { return b || c }) == sb; got != want {
			t.Fatalf("%v covers %v: got %v", s, u, got)
		}
		if got, want := s.Equal(u), sb == ub; got != want {
			t.Fatalf("%v equals %v: got %v", s, u, got)
		}
		if !s.Equal(s0) || !u.Equal(u0) {
			t.Fatal("an operand changed")
		}
	})
}

// FuzzSetFromProto reads sets from outside: any bytes give a set in normal form, which survives a second trip.
func FuzzSetFromProto(f *testing.F) {
	for _, s := range []Set{
		nil,
		{span(1, 3)},
		{span(5, 9), span(1, 6), span(9, 2)},
		{{To: Position{Epoch: 1 << 31, K: 1 << 63}}},
	} {
		b, err := proto.Marshal(&pb.SyncReply{Base: s.Proto()})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x4a, 0x00, 0x4a, 0x02, 0x0a, 0x00}) // intervals without bounds
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.SyncReply
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		s := SetFromProto(m.GetBase())
		for i, iv := range s {
			if iv.Empty() || i > 0 && !s[i-1].To.Less(iv.From) {
				t.Fatalf("%v is not in normal form at %d", s, i)
			}
		}
		for _, iv := range m.GetBase() {
			if i := IntervalFromProto(iv); !i.Empty() && !s.Covers(Set{i}) {
				t.Fatalf("%v lacks %v", s, i)
			}
		}
		if back := SetFromProto(s.Proto()); !back.Equal(s) {
			t.Fatalf("%v came back as %v", s, back)
		}
	})
}

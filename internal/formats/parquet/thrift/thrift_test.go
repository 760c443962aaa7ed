package thrift_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// message has field 1: i32 -7, 2: true, 3: "abc", 5: list of 2 i64 {1, 300}, 20 (long form): struct {1: i8 9},
// 21: map {"k": 1}, 22: double, 23: list of 2 structs, 24: false.
var message = []byte{
	0x15, 13, 0x11, 0x18, 3, 'a', 'b', 'c', 0x29, 0x26, 2, 0xd8, 0x04, 0x0c, 40, 0x13, 9, 0,
	0x1b, 1, 0x85, 1, 'k', 2, 0x17, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x19, 0x2c, 0, 0x15, 2, 0, 0x12, 0,
}

func TestReader(t *testing.T) {
	r := thrift.NewReader(message)
	var ids []thrift.Field
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		ids = append(ids, f>>4)
		switch f {
		case 1<<4 | thrift.I32:
			if v := r.Int32(); v != -7 {
				t.Errorf("field 1 is %d", v)
			}
		case 3<<4 | thrift.Binary:
			if v := r.Bytes(); !bytes.Equal(v, []byte("abc")) {
				t.Errorf("field 3 is %q", v)
			}
		case 5<<4 | thrift.List:
			if n, a, b := r.ListOf(thrift.I64), r.Int64(), r.Int64(); n != 2 || a != 1 || b != 300 {
				t.Errorf("field 5 is %d elements: %d, %d", n, a, b)
			}
		case 20<<4 | thrift.Struct:
			if f, v, end := r.Next(0), r.Int8(), r.Next(0); f != 1<<4|thrift.I8 || v != 9 || end != thrift.Stop {
				t.Errorf("field 20 is %d: %d, %d", f, v, end)
			}
		default:
			r.Skip(f)
		}
	}
	if r.Err() != nil || r.Pos() != len(message) {
		t.Errorf("%d of %d bytes read, error %v", r.Pos(), len(message), r.Err())
	}
	if want := []thrift.Field{1, 2, 3, 5, 20, 21, 22, 23, 24}; len(ids) != len(want) {
		t.Errorf("fields %v, want %v", ids, want)
	}
}

func TestMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty":        {nil, "too early"},
		"no stop":      {message[:len(message)-1], "too early"},
		"long string":  {[]byte{0x18, 0xff, 0xff, 0xff, 0xff, 0x0f}, "too early"},
		"long list":    {[]byte{0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 0x0f}, "too early"},
		"long map":     {[]byte{0x1b, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x33}, "too early"},
		"long integer": {append([]byte{0x16}, bytes.Repeat([]byte{0xff}, 11)...), "64 bits"},
		"bad type":     {[]byte{0x1e}, "unknown type 14"},
		"list type":    {[]byte{0x19, 0x1f, 0, 0}, "unknown type 15"},
		"field id":     {[]byte{0x05, 0xfe, 0xff, 0x07}, "field id"},
		"deep":         {append([]byte{0x1c}, bytes.Repeat([]byte{0x1c}, 100)...), "too deep"},
	} {
		r := thrift.NewReader(tc.data)
		for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
			r.Skip(f)
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

func TestSkipAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() {
		r := *thrift.NewReader(message)
		for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
			r.Skip(f)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzSkip checks that any bytes are passed over in one go, forwards, within their bounds, and that a struct ends where
// its fields do, read one by one.
func FuzzSkip(f *testing.F) {
	f.Add(message)
	f.Add([]byte{0x19, 0xfc, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := thrift.NewReader(data)
		before := 0
		for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
			r.Skip(f)
			if r.Pos() <= before || r.Pos() > len(data) {
				t.Fatalf("from byte %d to %d of %d", before, r.Pos(), len(data))
			}
			before = r.Pos()
		}
		whole, single := thrift.NewReader(data), thrift.NewReader(data)
		whole.Skip(thrift.Struct)
		pass(single, thrift.Struct, 0)
		if single.Pos() != whole.Pos() || (single.Err() == nil) != (whole.Err() == nil) {
			t.Fatalf("passed over up to byte %d, %v; by fields up to byte %d, %v", whole.Pos(), whole.Err(),
				single.Pos(), single.Err())
		}
	})
}

// pass passes over a value, a field or an element at a time where it is a struct or a list.
func pass(r *thrift.Reader, f thrift.Field, depth int) {
	switch {
	case f.Type() == thrift.Struct && depth < 32:
		for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
			pass(r, f, depth+1)
		}
	default:
		r.Skip(f)
	}
}

package tfrecord_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// TestFilesOfOthers: files that others wrote have the rows of their twins.
func TestFilesOfOthers(t *testing.T) {
	for _, o := range filetest.Others(t, "tfrecord") {
		t.Run(o.File, func(t *testing.T) { formattest.Twin(t, formattest.Of(t, o), o.TwinData(t)) })
	}
}

// message is a field of protobuf that is a message, or bytes.
func message(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), slices.Concat(parts...))
}

// ints, floats and byteLists are features.
func ints(values ...int64) []byte {
	var packed []byte
	for _, v := range values {
		packed = protowire.AppendVarint(packed, uint64(v))
	}
	return message(3, message(1, packed))
}

func texts(values ...string) []byte {
	var list []byte
	for _, v := range values {
		list = append(list, message(1, []byte(v))...)
	}
	return message(1, list)
}

// entry is a feature by its name.
func entry(name string, feature []byte) []byte {
	return message(1, message(1, []byte(name)), message(2, feature))
}

// example is an Example of entries.
func example(entries ...[]byte) []byte { return message(1, entries...) }

// file has records.
func file(records ...[]byte) (out []byte) {
	for _, data := range records {
		head := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
		out = append(out, head...)
		out = binary.LittleEndian.AppendUint32(out, sum(head))
		out = append(out, data...)
		out = binary.LittleEndian.AppendUint32(out, sum(data))
	}
	return out
}

func declared(column, typ string) *pb.Format {
	return &pb.Format{Columns: map[string]string{column: typ}}
}

// sum is a checksum as https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/lib/hash/crc32c.h masks it.
func sum(data []byte) uint32 {
	crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// TestRefuses: what is wrong is told, with its place and what to do.
func TestRefuses(t *testing.T) {
	one := example(entry("a", ints(1)))
	flipped := file(one, one)
	flipped[len(flipped)-7] ^= 1
	length := file(one, one)
	length[len(file(one))] ^= 1
	for name, tc := range map[string]struct {
		data []byte
		how  *pb.Format
		want []string
	}{
		"data":     {flipped, nil, []string{"row 1", "record at byte 30", "checksum of its data is wrong"}},
		"length":   {length, nil, []string{"byte 30", "the checksum of its length is wrong"}},
		"cut":      {file(one)[:20], nil, []string{"byte 0", "cut off"}},
		"ZLIB":     {[]byte("\x78\x9c\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"), nil, []string{"ZLIB", "GZIP"}},
		"protobuf": {file([]byte{0x0f}), nil, []string{"no tf.train.Example"}},
		"sequence": {file(message(1), message(2, []byte("x"))), nil, []string{"SequenceExample", "write Examples"}},
		"sequence first": {
			file(slices.Concat(one, message(2, message(1)))), nil, []string{"SequenceExample", "write Examples"},
		},
		"another list": {
			file(one, one), declared("a", "list<binary>"),
			[]string{"row 0", "feature a, at byte 21", "a list of int64, where list<binary> is wanted"},
		},
		"several values": {
			file(one, example(entry("a", ints(1, 2)))), declared("a", "int64"),
			[]string{"row 1", "feature a, at byte 21", "2 values, where one is wanted", "columns.a: list<int64>"},
		},
		"no values": {
			file(example(entry("a", ints()))), declared("a", "int64"), []string{"0 values, where one is wanted"},
		},
		"declared": {
			file(one), declared("a", "list<list<int64>>"),
			[]string{"columns.a", "no feature of an Example is"},
		},
		"out of range": {
			file(one, example(entry("a", ints(300)))), declared("a", "int8"),
			[]string{"row 1", "feature a", "300"},
		},
		"a shape": {
			file(example(entry("a", ints(1, 2, 3)))), declared("a", "tensor<2x2xint64>"),
			[]string{"3 values, where 4 are declared"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			formattest.Fails(t, formattest.File{Name: "x.tfrecord", Data: tc.data, How: tc.how}, tc.want...)
		})
	}
}

// TestRules: a name that comes twice, parts of messages, what the front does not show, and what has no kind.
func TestRules(t *testing.T) {
	late := make([][]byte, 0, 20_001)
	for range 20_000 {
		late = append(late, example(entry("a", ints(1))))
	}
	late = append(late, example(entry("a", ints(2)), entry("b", ints(3))))
	for name, tc := range map[string]struct {
		data   []byte
		column string
		typ    *pb.Type
		want   any // of the last row
	}{
		"the last of a name": {file(example(entry("a", ints(1)), entry("a", ints(2)))), "a", scalar(pb.Kind_INT64), int64(2)},
		"parts": {
			file(slices.Concat(example(entry("b", ints(1))), example(entry("a", slices.Concat(ints(1), ints(2)))))), "a",
			list(pb.Kind_INT64),
			[]any{int64(1), int64(2)},
		},
		"the last kind":       {file(example(entry("a", slices.Concat(texts("x"), ints(2))))), "a", scalar(pb.Kind_INT64), int64(2)},
		"without a kind":      {file(example(entry("a", nil))), "a", scalar(pb.Kind_INT64), nil},
		"behind the front":    {file(late...), "b", scalar(pb.Kind_INT64), int64(3)},
		"one value as a list": {file(example(entry("a", ints(1)))), "a", list(pb.Kind_INT64), []any{int64(1)}},
		"a name with dots":    {file(example(entry("a.b", ints(1)))), "a.b", scalar(pb.Kind_INT64), int64(1)},
		"a first record beyond the front": {
			file(example(entry("a", ints(7)), entry("b", texts(strings.Repeat("x", 300_000)))), example(entry("a", ints(8)))),
			"a", scalar(pb.Kind_INT64), int64(8),
		},
		"without an example":    {file(nil), "a", scalar(pb.Kind_BINARY), nil},
		"a list without values": {file(example(entry("a", ints()))), "a", list(pb.Kind_INT64), []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pb.Source{Name: "x", Path: []string{tc.column}, Type: tc.typ}
			rows := formattest.File{Name: "x.tfrecord", Data: tc.data}.Rows(t, s)
			if got := rows[len(rows)-1][0]; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func scalar(k pb.Kind) *pb.Type { return &pb.Type{Kind: k} }

func list(k pb.Kind) *pb.Type { return &pb.Type{Kind: k, List: true} }

// TestFloats: those that lie together are those that stand one by one, in lists of any length.
func TestFloats(t *testing.T) {
	rapid.Check(t, func(c *rapid.T) {
		lists := rapid.SliceOfN(rapid.SliceOf(rapid.Float32()), 1, 9).Draw(c, "lists")
		packed, single := make([][]byte, len(lists)), make([][]byte, len(lists))
		for i, list := range lists {
			var together, apart []byte
			for _, x := range list {
				bits := math.Float32bits(x)
				together = protowire.AppendFixed32(together, bits)
				apart = protowire.AppendFixed32(protowire.AppendTag(apart, 1, protowire.Fixed32Type), bits)
			}
			packed[i] = example(entry("a", message(2, message(1, together))))
			single[i] = example(entry("a", message(2, apart)))
		}
		s := &pb.Source{Name: "x", Path: []string{"a"}, Type: list(pb.Kind_FLOAT32)}
		got := formattest.File{Name: "x.tfrecord", Data: file(packed...)}.Rows(t, s)
		want := make([][]any, len(lists))
		for i, list := range lists {
			values := []any{}
			for _, x := range list {
				values = append(values, math.Float32bits(x))
			}
			want[i] = []any{values}
		}
		if !reflect.DeepEqual(got, want) {
			c.Fatalf("got %v, want %v", got, want)
		}
		if got := (formattest.File{Name: "x.tfrecord", Data: file(single...)}).Rows(t, s); !reflect.DeepEqual(got, want) {
			c.Fatalf("one by one: got %v, want %v", got, want)
		}
	})
}

// TestTruncated: a file that was cut off anywhere but behind a record is refused.
func TestTruncated(t *testing.T) {
	records := [][]byte{
		example(entry("a", ints(1)), entry("b", texts("x", "y"))), example(entry("a", ints(2))), example(),
	}
	data, ends := file(records...), []int{0}
	for i := range records {
		ends = append(ends, len(file(records[:i+1]...)))
	}
	for n := range len(data) + 1 {
		rows, err := rowsOf(t, formattest.File{Name: "x.tfrecord", Data: data[:n:n]})
		if want := slices.Index(ends, n); n > 0 && (err == nil) != (want >= 0) || err == nil && rows != int64(want) {
			t.Errorf("of %d bytes there are %d rows, and error %v", n, rows, err)
		}
	}
	for _, o := range filetest.Others(t, "tfrecord") {
		if strings.HasSuffix(o.File, "stream.tfrecord.gz") {
			data := o.Data(t)
			for n := 2; n < len(data); n += 7 {
				if rows, err := rowsOf(t, formattest.File{Name: o.File, Data: data[:n:n]}); err == nil {
					t.Errorf("%s: of %d bytes there are %d rows", o.File, n, rows)
				}
			}
		}
	}
}

// rowsOf counts the rows of a file, all of which can be read.
func rowsOf(t *testing.T, file formattest.File) (int64, error) {
	t.Helper()
	f, err := file.Load(t.Context())
	if err != nil {
		return 0, err
	}
	return format.Rows(f), file.Read(t.Context())
}

// FuzzFile reads files of any bytes: all of one is decoded, or refused.
func FuzzFile(f *testing.F) {
	for _, o := range filetest.Others(f, "tfrecord") {
		f.Add(o.Data(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) { _ = formattest.File{Name: "x.tfrecord", Data: data}.Read(t.Context()) })
}

// FuzzExample reads Examples of any bytes, whose checksums are right.
func FuzzExample(f *testing.F) {
	f.Add(example(entry("a", ints(1, 2)), entry("b", texts("x", ""))), example(entry("a", ints(-1))))
	f.Add(example(entry("f", message(2, message(1, make([]byte, 8))))), []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		_ = formattest.File{Name: "x.tfrecord", Data: file(a, b)}.Read(t.Context())
	})
}

// BenchmarkDecode decodes all columns of Examples with a picture's bytes, numbers and a vector.
func BenchmarkDecode(b *testing.B) {
	const n = 5_000
	var records [][]byte
	for i := range n {
		vector := message(2, message(1, make([]byte, 4*64)))
		records = append(records, example(entry("id", ints(int64(i))), entry("image", texts(strings.Repeat("x", 500))),
			entry("label", ints(int64(i%10))), entry("vector", vector)))
	}
	data := file(records...)
	b.SetBytes(int64(len(data)))
	formattest.DecodeFile(b, formattest.File{Name: "x.tfrecord", Data: data}, n)
}

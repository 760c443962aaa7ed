package tar_test

import (
	stdtar "archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/tar"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
	decoders "github.com/penstock-ml/penstock/worker/formats/records"
	parser "github.com/penstock-ml/penstock/worker/formats/tar"
)

// archive writes members, each as a name and its bytes.
func archive(t testing.TB, members ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := stdtar.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		err := w.WriteHeader(&stdtar.Header{Name: members[i], Size: int64(len(members[i+1])), Typeflag: stdtar.TypeReg})
		if err == nil {
			_, err = w.Write([]byte(members[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// columns describes a tar, some of whose columns may be declared.
func columns(t testing.TB, data []byte, declared map[string]string) (format.File, *format.Input) {
	t.Helper()
	st := &filetest.One{URI: "mem://a.tar", Data: data}
	in := &format.Input{Storage: st, File: st.File(), How: &pb.Format{Columns: declared}}
	f, err := records.Format{Kind: tar.Kind{}}.Describe(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return f, in
}

// column reads one, as the file has it; typ: as another type.
func column(t testing.TB, data []byte, declared map[string]string, name string, typ *pb.Type) ([]any, error) {
	t.Helper()
	f, in := columns(t, data, declared)
	var places []format.Place
	err := f.(format.Scanned).Scan(t.Context(), in, func(p format.Place) error {
		places = append(places, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &pb.Source{Name: name, Path: []string{name}, Type: typ}
	if i, ok := f.Columns().Column(name); ok && typ == nil {
		c := f.Columns().Schema.Columns[i]
		s.Type, s.Meaning = c.Type.Proto(), c.Meaning
	}
	file, err := f.(format.Scanned).At(places)
	if err != nil {
		return nil, err
	}
	b, err := file.Bind([]*pb.Source{s})
	if err != nil {
		return nil, err
	}
	d := decoders.NewDecoder([]*pb.Source{s}, parser.New)
	d.Memory().Allow(64 << 20)
	p := places[0]
	chunk := decode.Whole(data[p.Stored.Offset : p.Stored.Offset+p.Stored.Length])
	if err := d.Reset("mem://a.tar", b, 0, []decode.Source{&chunk}); err != nil {
		return nil, err
	}
	vectors, err := d.Next(int(p.Rows))
	if err != nil {
		return nil, err
	}
	for _, fault := range d.Faults() {
		return nil, fault.Err
	}
	return rowtest.Of(vectors[0]), nil
}

// npy writes an array as NumPy does.
func npy(descr, fortran, shape string, values any) string {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, fortran, shape)
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n"
	out := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(head)))
	out, err := binary.Append(append(out, head...), binary.LittleEndian, values)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func list(values ...any) []any { return values }

// f32 and f64 are floats as rowtest has them.
func f32(x float32) uint32 { return math.Float32bits(x) }

func f64(x float64) uint64 { return math.Float64bits(x) }

// TestParts reads each kind of part.
func TestParts(t *testing.T) {
	int8s := &pb.Type{Kind: pb.Kind_INT8, List: true}
	for _, c := range []struct {
		part, data string
		declared   string
		typ        *pb.Type
		want       any
	}{
		{"cls", " 7\n", "", nil, int64(7)},
		{"count", "-1", "", nil, int64(-1)},
		{"cls", "dog", "string", nil, "dog"},
		{"score", "0.5\n", "float32", nil, f32(0.5)},
		{"ok", "true", "bool", nil, true},
		{"txt", "naïve\n", "", nil, "naïve\n"},
		{"txt", "\xff", "binary", nil, "\xff"},
		{"JPG", "\xff\xd8", "", nil, "\xff\xd8"},
		{"pyd", "\x80", "", nil, "\x80"},
		{"json", "[1, 2.5]", "", nil, list(f64(1), f64(2.5))},
		{"json", `{"a": 1} `, "string", nil, `{"a": 1} `},
		{"npy", npy("<f4", "False", "(2, 1)", []float32{1, 2}), "", nil, list(f32(1), f32(2))},
		{"npy", npy("<f8", "False", "(1,)", []float64{1}), "", nil, list(f64(1))},
		{"npy", npy("<f2", "False", "(1,)", []uint16{0x3c00}), "", nil, list(f32(1))},
		{"npy", npy("|i1", "True", "(2,)", []int8{-1, 2}), "", nil, list(int32(-1), int32(2))},
		{"npy", npy("|i1", "False", "(2,)", []int8{-1, 2}), "", int8s, list(int8(-1), int8(2))},
		{"npy", npy("<u4", "False", "(1,)", []uint32{math.MaxUint32}), "", nil, list(int64(math.MaxUint32))},
		{"npy", npy("<i8", "False", "(1,)", []int64{5}), "list<int32>", nil, list(int32(5))},
		{"npy", npy("|b1", "False", "(2,)", []bool{true, false}), "", nil, list(true, false)},
		{"npy", npy("<u8", "False", "(1,)", []uint64{1 << 63}), "", nil, list(int64(math.MinInt64))},
		{"npy", npy("<i4", "False", "()", []int32{3}), "int64", nil, int64(3)},
		{"npy", npy("<i4", "False", "(0, 3)", []int32{}), "", nil, list()},
		{"vec.npy", npy("<i2", "False", "(1,)", []int16{-3}), "", nil, list(int32(-3))},
	} {
		declared := map[string]string{}
		if c.declared != "" {
			declared[strings.ToLower(c.part)] = c.declared
		}
		got, err := column(t, archive(t, "a."+c.part, c.data), declared, strings.ToLower(c.part), c.typ)
		if err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(c.want) {
			t.Errorf("%s %q as %q: %v, %v; want %v", c.part, c.data, c.declared, got, err, c.want)
		}
	}
}

// TestWrongParts says which member a row is wrong in, and what to do.
func TestWrongParts(t *testing.T) {
	for _, c := range []struct {
		part, data, column, declared string
		want                         string
	}{
		{
			"cls", "dog", "cls", "",
			`member "a.cls", 512 bytes behind that: "dog" where int64 is wanted: declare what it is in dataset.format.columns, such as string`,
		},
		{"cls", "0.5", "cls", "", `"0.5" where int64 is wanted: declare what it is in dataset.format.columns, such as float64`},
		{"txt", "\xff", "txt", "", "it is no UTF-8"},
		{"ok", "yes", "ok", "bool", "true, false, 1 or 0 is wanted"},
		{"json", `{"a": 1`, "json.a", "int64", "byte 7 of it: it ends where"},
		{"json", `{"a": "x"}`, "json.a", "int64", "column json.a: byte 6 of it: the text \"x\" where int64 is wanted"},
		{"json", `{"a": 1} 2`, "json.a", "", "the end of the document is wanted"},
		{"json", `{"a": 1, "a": 2}`, "json.a", "", "the name stands in its object twice"},
		{"json", `{"a": 3}`, "json.a.b", "int64", "'3' where an object is wanted"},
		{"json", "{\"a\": \"\xff\"}", "json.a", "string", "it is not UTF-8"},
		{"npy", "x", "npy", "list<float32>", "it is no array of NumPy"},
		{"npy", npy("<f8", "False", "(1,)", []float64{1}), "npy", "list<float32>", "of float64 where float32 is wanted"},
		{"npy", npy("<i8", "False", "(1,)", []int64{1 << 40}), "npy", "list<int32>", "1099511627776, which it does not have"},
		{"npy", npy(">f4", "False", "(1,)", []float32{1}), "npy", "list<float32>", "big endian"},
		{"npy", npy("<f4", "True", "(1, 1)", []float32{1}), "npy", "list<float32>", "numpy.ascontiguousarray"},
		{"npy", npy("<f4", "False", "(2,)", []float32{1}), "npy", "list<float32>", "8 bytes of float32, but there are 4"},
		{"npy", npy("<f4", "False", "(99999, 99999)", []float32{1}), "npy", "list<float32>", "more than there is of it"},
		{"npy", npy("|O", "False", "(1,)", []float32{1}), "npy", "list<float32>", "declare it as binary"},
		{"npy", npy("<f4", "False", "(2,)", []float32{1, 2}), "npy", "float32", "2 values where one is wanted"},
	} {
		declared := map[string]string{}
		if c.declared != "" {
			declared[c.column] = c.declared
		}
		_, err := column(t, archive(t, "a."+c.part, c.data), declared, c.column, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"a.`+c.part) {
			t.Errorf("%s as %q: %v; want %q", c.part, c.declared, err, c.want)
		}
	}
}

// TestTwice refuses a sample with two parts of one name, and arrays of other shapes.
func TestTwice(t *testing.T) {
	one, other := npy("<i4", "False", "(2, 3)", make([]int32, 6)), npy("<i4", "False", "(3, 2)", make([]int32, 6))
	pad := strings.Repeat("z", 300<<10) // behind the front
	for want, data := range map[string][]byte{
		"two parts of this name":                          archive(t, "a.txt", "1", "a.TXT", "2"),
		"shape [3 2] where others of the file have [2 3]": archive(t, "a.npy", one, "b.bin", pad, "c.npy", other),
	} {
		name := "txt"
		if strings.Contains(want, "shape") {
			name = "npy"
		}
		if _, err := column(t, data, nil, name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestInferred are the columns that samples show.
func TestInferred(t *testing.T) {
	data := archive(
		t, "a.json", `{"i": 1, "f": 1, "s": {"x": null}, "n": null, "l": [], "o": [{"k": 1}], "m": 1, "u": 18446744073709551615}`,
		"a.npy", npy("<f2", "False", "(2, 3)", make([]uint16, 6)),
		"b.json", `{"i": 2, "f": 0.5, "s": {"x": "t"}, "ll": [[1], [2, 3]], "m": "x", "a.b": 1}`,
		"b.npy", npy("<f2", "False", "(2, 3)", make([]uint16, 6)), "b.old.npy", npy(">f4", "False", "(1,)", []float32{1}),
	)
	f, _ := columns(t, data, map[string]string{"json.late": "list<string>", "mp4": "binary"})
	got := map[string]string{}
	for _, c := range f.Columns().Schema.Columns {
		got[c.Name] = c.Type.String()
		if c.Unsupported != "" {
			got[c.Name] = "none"
		}
	}
	want := map[string]string{
		"__key__": "binary", "json.i": "int64", "json.f": "float64", "json.s.x": "binary", "json.n": "none",
		"json.l": "none", "json.o.k": "list<int64>", "json.m": "none", "json.u": "none", "json.ll": "list<list<int64>>",
		"json.a.b": "none", "npy": "list<float32>", "old.npy": "none", "json.late": "list<binary>", "mp4": "binary",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	i, _ := f.Columns().Column("npy")
	if c := f.Columns().Schema.Columns[i]; c.Own != pb.Kind_FLOAT16 || !reflect.DeepEqual(c.Shape, []int32{2, 3}) {
		t.Errorf("%+v", c)
	}
	_, err := tar.Kind{}.Open(&records.Front{
		Data: data, Whole: true, How: &pb.Format{Columns: map[string]string{"cls": "list<int64>"}},
	})
	if err == nil || !strings.Contains(err.Error(), "dataset.format.columns.cls") {
		t.Error(err)
	}
}

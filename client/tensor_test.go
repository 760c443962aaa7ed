package client

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/wire"
)

// layoutFor is the layout of one output.
func layoutFor(t *testing.T, o *pb.Output) *layout {
	t.Helper()
	schema, err := tensors.Schema(&pb.Program{Outputs: []*pb.Output{o}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := parseLayout(schema)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rebatched is n rows of random values, cut up, put together, padded by two rows and shown as a batch, and the bytes
// that these values have on the wire.
func rebatched(t *testing.T, l *layout, r *rand.Rand, n int) (b *Batch, values []byte, lengths []int32) {
	t.Helper()
	c := &l.columns[0]
	each := c.width
	if c.elem == arrow.INT64 {
		each *= 8
	}
	values = make([]byte, n*each)
	for i := range values {
		values[i] = byte(r.Uint32())
		if c.dtype == "bool" {
			values[i] &= 1
		}
	}
	rows, all := wire.Node{Length: int64(n)}, wire.Node{Length: int64(n * c.width / c.bytes)}
	sent := &wire.Batch{Rows: int64(n), Nodes: []wire.Node{all}, Buffers: [][]byte{nil, values}}
	if len(c.shape) > 0 {
		sent.Nodes, sent.Buffers = slices.Insert(sent.Nodes, 0, rows), slices.Insert(sent.Buffers, 0, nil)
	}
	if c.role == rolePadded {
		for range n {
			lengths = append(lengths, r.Int32N(int32(c.shape[0])+1))
		}
		sent.Nodes = append(slices.Insert(sent.Nodes, 0, rows), rows)
		sent.Buffers = append(slices.Insert(sent.Buffers, 0, nil), nil, arrow.Int32Traits.CastToBytes(lengths))
	}
	w, err := l.bind(sent)
	if err != nil {
		t.Fatal(err)
	}
	buf := newBuffers(l, n+2, nil)
	for _, cut := range [][2]int{{0, 1}, {1, 1}, {1, n}} {
		if err := buf.append(w, cut[0], cut[1]); err != nil {
			t.Fatal(err)
		}
	}
	buf.pad(2)
	b = &Batch{Rows: n + 2, Valid: n, buffers: buf, spares: new(spares)}
	b.expose()
	return b, values, lengths
}

// TestEveryDtype holds that values of each dtype come as they were sent, in the batch and in its record, and that rows
// of padding have what they should.
func TestEveryDtype(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for kind := range pb.Kind_name {
		kind := pb.Kind(kind)
		if _, ok := tensors.Element(kind); !ok {
			continue
		}
		width, dtype := spec.Width(kind), spec.KindName(kind)
		for _, shape := range [][]int32{nil, {1}, {2, 3}} {
			l := layoutFor(t, &pb.Output{Name: "x", Layout: pb.Layout_TENSOR, Type: &pb.Type{Kind: kind}, Shape: shape})
			b, want, _ := rebatched(t, l, r, 7)
			want = append(want, make([]byte, len(want)/7*2)...)
			if x := b.Tensors[0]; x.Name != "x" || x.Dtype != dtype || len(x.Shape) != len(shape) ||
				!bytes.Equal(x.Data, want) {
				t.Errorf("%s %v: got %v, want %v", dtype, shape, x, want)
			}
			checkRecord(t, l, b)
		}
		for _, left := range []bool{false, true} {
			o := &pb.Output{Name: "x", Layout: pb.Layout_PADDED, Type: &pb.Type{Kind: kind}, Shape: []int32{3}, Left: left}
			one := []byte{1}
			switch kind { //nolint:exhaustive // integers
			case pb.Kind_BOOL:
				o.Fill = &pb.Value{Kind: &pb.Value_Bool{Bool: true}}
			case pb.Kind_FLOAT16:
				o.Fill, one = &pb.Value{Kind: &pb.Value_Float{Float: -0.5}}, []byte{0, 0xb8}
			case pb.Kind_BFLOAT16:
				o.Fill, one = &pb.Value{Kind: &pb.Value_Float{Float: -0.5}}, []byte{0, 0xbf}
			case pb.Kind_FLOAT32:
				o.Fill, one = &pb.Value{Kind: &pb.Value_Float{Float: -0.5}}, []byte{0, 0, 0, 0xbf}
			case pb.Kind_FLOAT64:
				o.Fill, one = &pb.Value{Kind: &pb.Value_Float{Float: -0.5}}, []byte{0, 0, 0, 0, 0, 0, 0xe0, 0xbf}
			default:
				o.Fill = &pb.Value{Kind: &pb.Value_Int{Int: 1}}
			}
			one = append(one, make([]byte, width-len(one))...)
			l := layoutFor(t, o)
			b, want, lengths := rebatched(t, l, r, 7)
			want = append(want, bytes.Repeat(one, 2*3)...)
			if x := b.Padded[0]; x.Name != "x" || x.Length != 3 || x.Dtype != dtype || x.Left != left ||
				!bytes.Equal(x.Data, want) || !slices.Equal(x.Lengths, append(lengths, 0, 0)) {
				t.Errorf("%s: got %v, want %v with lengths %v", dtype, x, want, lengths)
			}
			checkRecord(t, l, b)
		}
	}
}

// checkRecord sends a batch's record, and expects the batch's arrays.
func checkRecord(t *testing.T, l *layout, b *Batch) {
	t.Helper()
	w, err := l.bind(flattened(t, b.Record()))
	if err != nil {
		t.Fatal(err)
	}
	buf := newBuffers(l, b.Rows, nil)
	if err := buf.append(w, 0, b.Rows); err != nil {
		t.Fatal(err)
	}
	got := (&Batch{Rows: b.Rows, buffers: buf}).Arrays()
	if !slices.EqualFunc(got, b.Arrays(), bytes.Equal) || buf.size() != b.buffers.size() {
		t.Errorf("the record has %v, the batch %v", got, b.Arrays())
	}
}

// TestTensorsThatWorkersMayNotSend changes what a worker sends of a padded column and one of bools.
func TestTensorsThatWorkersMayNotSend(t *testing.T) {
	padded := &pb.Output{Name: "x", Layout: pb.Layout_PADDED, Type: &pb.Type{Kind: pb.Kind_INT16}, Shape: []int32{3}}
	flags := &pb.Output{Name: "x", Layout: pb.Layout_TENSOR, Type: &pb.Type{Kind: pb.Kind_BOOL}, Shape: []int32{2}}
	lengths := func(n ...int32) []byte { return arrow.Int32Traits.CastToBytes(n) }
	for _, c := range []struct {
		output  *pb.Output
		nodes   []int64
		buffers [][]byte
		says    string // none: it may be
	}{
		{padded, []int64{2, 2, 6, 2}, [][]byte{nil, nil, nil, make([]byte, 12), nil, lengths(0, 3)}, ""},
		{padded, []int64{2, 2, 6, 2}, [][]byte{nil, nil, nil, make([]byte, 12), nil, lengths(0, 4)}, "4 values; expected 0 to 3"},
		{padded, []int64{2, 2, 6, 2}, [][]byte{nil, nil, nil, make([]byte, 12), nil, lengths(-1, 0)}, "-1 values"},
		{padded, []int64{2, 2, 6, 2}, [][]byte{nil, nil, nil, make([]byte, 12), nil, lengths(1)}, "lengths: buffer holds 1"},
		{padded, []int64{2, 2, 6, 2}, [][]byte{nil, nil, nil, make([]byte, 11), nil, lengths(0, 3)}, "buffer holds 5 values; expected 6"},
		{padded, []int64{2, 2, 5, 2}, [][]byte{nil, nil, nil, make([]byte, 12), nil, lengths(0, 3)}, "5 values; expected 6"},
		{padded, []int64{2, 1, 6, 2}, [][]byte{nil, nil, nil, make([]byte, 12), nil, lengths(0, 3)}, "1 values; expected 2"},
		{padded, []int64{1, 2, 6, 2}, [][]byte{nil, nil, nil, make([]byte, 12), nil, lengths(0, 3)}, "1 values; expected 2"},
		{padded, []int64{2, 2, 6}, [][]byte{nil, nil, nil, make([]byte, 12)}, "ends before it"},
		{padded, []int64{2}, [][]byte{nil}, "ends before it"},
		{flags, []int64{2, 4}, [][]byte{nil, nil, {0, 1, 1, 0}}, ""},
		{flags, []int64{2, 4}, [][]byte{nil, nil, {0, 1, 2, 0}}, "a bool is 2"},
		{flags, []int64{2, 4}, [][]byte{nil, nil, {0, 1, 1}}, "buffer holds 3"},
		{flags, []int64{2, 4, 4}, [][]byte{nil, nil, {0, 1, 1, 0}, nil}, "more arrays"},
	} {
		b := &wire.Batch{Rows: 2, Buffers: c.buffers}
		for _, n := range c.nodes {
			b.Nodes = append(b.Nodes, wire.Node{Length: n})
		}
		_, err := layoutFor(t, c.output).bind(b)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v of %v: got %v, want %q", c.nodes, c.buffers, err, c.says)
		}
	}
}

// FuzzTensorSchema reads fields that a hostile worker may send: whatever they say, they are refused, or rows of padding
// can be made of them. The seeds have the words of each refusal.
func FuzzTensorSchema(f *testing.F) {
	elems := []arrow.DataType{
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Float32, arrow.FixedWidthTypes.Boolean, arrow.BinaryTypes.Binary,
	}
	const scalar = 1<<31 - 1 // in place of a list's length
	for _, c := range []struct {
		elem                             uint8
		n                                int32
		padded                           bool
		shape, dtype, value, side, wants string
	}{
		{elem: 1, n: 6, shape: "2,3", dtype: "bfloat16"},
		{elem: 0, n: scalar, dtype: "bool"},
		{elem: 2, n: 4, padded: true, shape: "4", dtype: "int64", value: "-1", side: "left"},
		{elem: 3, n: 4, padded: true, shape: "4", dtype: "float32", value: "NaN", side: "right"},
		{elem: 1, n: 6, shape: "2,3", dtype: "BFLOAT16", wants: "penstock.dtype"},
		{elem: 1, n: 6, shape: "2,3", wants: "penstock.dtype"},
		{elem: 5, n: 6, shape: "2,3", dtype: "binary", wants: "penstock.dtype"},
		{elem: 4, n: 6, shape: "2,3", dtype: "bool", wants: "expected fixed_size_list<uint8>"},
		{elem: 3, n: 6, shape: "2,3", dtype: "bfloat16", wants: "expected fixed_size_list<uint16>"},
		{elem: 3, n: scalar, shape: "2,3", dtype: "float32", wants: "expected fixed_size_list<float32>"},
		{elem: 3, n: 1, dtype: "float32", wants: "expected float32"},
		{elem: 1, n: 5, shape: "2,3", dtype: "bfloat16", wants: `"2,3"; but a row has 5 values`},
		{elem: 1, n: 0, shape: "0", dtype: "bfloat16", wants: "penstock.shape"},
		{elem: 1, n: 2, shape: "-1,-2", dtype: "bfloat16", wants: "penstock.shape"},
		{elem: 1, n: 2, shape: "2,", dtype: "bfloat16", wants: "penstock.shape"},
		{elem: 2, n: 0, shape: "65536,65536", dtype: "int64", wants: "penstock.shape"},
		{elem: 2, n: 1 << 29, shape: "536870912", dtype: "int64", wants: "penstock.shape"}, // 4 GiB a row
		{elem: 2, n: 4, padded: true, shape: "2,2", dtype: "int64", value: "0", side: "left", wants: "one length"},
		{elem: 2, n: scalar, padded: true, dtype: "int64", value: "0", side: "left", wants: "one length"},
		{elem: 2, n: 4, padded: true, shape: "4", dtype: "int64", value: "0", wants: "penstock.side"},
		{elem: 2, n: 4, padded: true, shape: "4", dtype: "int64", value: "0.5", side: "left", wants: "penstock.value"},
		{elem: 0, n: 4, padded: true, shape: "4", dtype: "uint8", value: "256", side: "left", wants: "penstock.value"},
		{elem: 0, n: 4, padded: true, shape: "4", dtype: "uint8", value: "-1", side: "left", wants: "penstock.value"},
		{elem: 0, n: 4, padded: true, shape: "4", dtype: "bool", value: "2", side: "left", wants: "penstock.value"},
	} {
		_, err := parseColumn(tensorField(elems[c.elem], c.n, scalar, c.padded, c.shape, c.dtype, c.value, c.side))
		if (err == nil) != (c.wants == "") || err != nil && !strings.Contains(err.Error(), c.wants) {
			f.Errorf("%+v: got %v", c, err)
		}
		f.Add(c.elem, c.n, c.padded, c.shape, c.dtype, c.value, c.side)
	}
	if _, err := parseColumn(arrow.Field{Type: elems[2], Metadata: fake.Metadata("penstock.layout", "padded")}); err == nil ||
		!strings.Contains(err.Error(), "expected struct<values: fixed_size_list, length: int32>") {
		f.Errorf("padded rows that are no struct: got %v", err)
	}
	f.Fuzz(func(t *testing.T, elem uint8, n int32, padded bool, shape, dtype, value, side string) {
		field := tensorField(elems[int(elem)%len(elems)], max(n, 1), scalar, padded, shape, dtype, value, side)
		l, err := parseLayout(arrow.NewSchema([]arrow.Field{field}, nil))
		if err != nil || l.columns[0].width > 1<<20 {
			return
		}
		buf := newBuffers(l, 2, nil)
		buf.pad(2)
		b := &Batch{Rows: 2, buffers: buf, spares: new(spares)}
		b.expose()
		checkRecord(t, l, b)
	})
}

func tensorField(
	elem arrow.DataType, n, scalar int32, padded bool, shape, dtype, value, side string,
) arrow.Field {
	f := arrow.Field{Name: "x", Type: elem}
	if n != scalar {
		f.Type = arrow.FixedSizeListOfNonNullable(max(n, 1), elem)
	}
	layout := "tensor"
	if padded {
		layout = "padded"
		f.Type = arrow.StructOf(arrow.Field{Name: "values", Type: f.Type},
			arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32})
	}
	f.Metadata = fake.Metadata("penstock.layout", layout, "penstock.shape", shape, "penstock.dtype", dtype,
		"penstock.value", value, "penstock.side", side)
	return f
}

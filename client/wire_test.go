package client

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/wire"
)

func someRows(n int) []fake.Row {
	rows := make([]fake.Row, n)
	for i := range rows {
		rows[i] = fake.Row{Shard: i % 5, Window: i % 3, K: i}
	}
	return rows
}

func testLayout(t testing.TB) *layout {
	l, err := parseLayout(fake.Schema())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRecordIsTheWiresLayout cuts records up, puts the parts together, and expects the same record in one piece.
func TestRecordIsTheWiresLayout(t *testing.T) {
	l := testLayout(t)
	rows := someRows(50)
	buf := newBuffers(l, 50, nil)
	for range 2 { // the second time on used memory
		buf.reset()
		for lo := 0; lo < 50; lo += 10 {
			w, err := l.bind(flattened(t, fake.Rows(rows[lo:lo+10])))
			if err != nil {
				t.Fatal(err)
			}
			for _, cut := range [][2]int{{0, 3}, {3, 3}, {3, 10}} {
				if err := buf.append(w, cut[0], cut[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		b := &Batch{Rows: 50, buffers: buf, spares: new(spares)}
		b.expose()
		if _, err := checkBatch(b); err != nil {
			t.Error(err)
		}
		if got, want := b.Record(), fake.Rows(rows); !array.RecordEqual(got, want) {
			t.Errorf("record %v; expected %v", got, want)
		}
		b.Release()
		b.Release()
		if b.Record() != nil || b.Dense != nil || b.Sparse != nil || len(b.spares.free) != 1 {
			t.Error("a released batch still shows its memory, or gave it back twice")
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	f32, i64 := arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Int64
	for _, c := range []struct {
		name, tag string
		typ       arrow.DataType
		kv        []string
		want      string
	}{
		{"x", "", i64, nil, "penstock.layout"},
		{"x", "ragged", i64, nil, "penstock.layout"},
		{"x", "dense", f32, nil, "expected fixed_size_list<float32>"},
		{"x", "dense", arrow.FixedSizeListOf(2, f32), nil, "penstock.names"},
		{"x", "dense", arrow.FixedSizeListOf(2, f32), []string{"penstock.names", `["a"]`}, "1 names for 2 columns"},
		{"x", "sparse", i64, nil, "expected list<int64>"},
		{"x", "sparse", arrow.ListOf(arrow.BinaryTypes.Binary), nil, "expected list<int64>"},
		{
			"x", "sparse", arrow.ListOf(arrow.StructOf(arrow.Field{Name: "value", Type: i64})), nil,
			"expected list<int64>",
		},
		{"x", "label", arrow.BinaryTypes.Binary, nil, "expected bool"},
		{"x", "bytes", arrow.BinaryTypes.String, nil, "expected binary"},
		{"x", "bytes", arrow.ListOf(i64), nil, "expected binary or list<binary>"},
		{"x", "image", i64, nil, "expected fixed_size_list<uint8>"},
		{
			"x", "image", arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Uint8),
			[]string{"penstock.shape", "2,2"},
			"expected H,W,C or C,H,W",
		},
		{
			"x", "image", arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Uint8),
			[]string{"penstock.shape", "2,2,2"},
			"a row has 4 values",
		},
		{"_row", "", f32, nil, "expected int64"},
		{"_file", "", i64, nil, "expected int32"},
	} {
		kv := c.kv
		if c.tag != "" {
			kv = append([]string{"penstock.layout", c.tag}, kv...)
		}
		_, err := parseLayout(arrow.NewSchema([]arrow.Field{
			{Name: c.name, Type: c.typ, Metadata: fake.Metadata(kv...)},
		}, nil))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s %q %v: %v; expected a word of %q", c.name, c.tag, c.typ, err, c.want)
		}
	}
	two := fake.Schema().Field(0)
	if _, err := parseLayout(arrow.NewSchema([]arrow.Field{two, two}, nil)); err == nil {
		t.Error("two dense fields are accepted")
	}
}

// TestSameLayout takes a schema that came as IPC, and none that lacks something.
func TestSameLayout(t *testing.T) {
	l := testLayout(t)
	var out bytes.Buffer
	if err := ipc.NewWriter(&out, ipc.WithSchema(l.schema)).Close(); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !l.same(r.Schema()) {
		t.Errorf("another layout than %v: %v", l.schema, r.Schema())
	}
	for i, f := range l.schema.Fields() {
		fields := l.schema.Fields()
		lacking := slices.Delete(slices.Clone(fields), i, i+1)
		f.Name += "x"
		if l.same(arrow.NewSchema(lacking, nil)) || l.same(arrow.NewSchema(slices.Insert(lacking, i, f), nil)) {
			t.Errorf("the same layout without field %d, or with one of another name", i)
		}
	}
}

// TestBindRefuses hands over lists whose buffers do not hold what their lengths say.
func TestBindRefuses(t *testing.T) {
	l, err := parseLayout(arrow.NewSchema([]arrow.Field{fake.Schema().Field(1)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		offsets []int32
		values  int
		nulls   int
	}{
		"offset 2 is 1, after 3":            {[]int32{0, 3, 1}, 4, 0},
		"offsets begin at -1":               {[]int32{-1, 0, 1}, 4, 0},
		"4 values; expected 9":              {[]int32{0, 3, 9}, 4, 0},
		"buffer holds 2 values; expected 3": {[]int32{0, 3}, 4, 0},
		"1 nulls; tensors have none":        {[]int32{0, 1, 2}, 4, 1},
		"offset 1 is -2147483648, after 0":  {[]int32{0, -1 << 31, 1}, 4, 0},
		"4 values; expected 2147483647":     {[]int32{0, 1, 1<<31 - 1}, 4, 0},
	} {
		values := flat(arrow.PrimitiveTypes.Int64, c.values, make([]byte, 8*c.values))
		data := array.NewData(l.schema.Field(0).Type, 2,
			[]*memory.Buffer{bufferOf([]byte{1}), bufferOf(arrow.Int32Traits.CastToBytes(c.offsets))},
			[]arrow.ArrayData{values}, c.nulls, 0)
		rec := array.NewRecord(l.schema, []arrow.Array{array.MakeFromData(data)}, 2)
		if _, err := l.bind(flattened(t, rec)); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), `"ids"`) {
			t.Errorf("bind: %v; expected %q", err, want)
		}
	}
}

// TestBindRefusesByteLists hands over lists of byte strings of which some lie outside of what there is.
func TestBindRefusesByteLists(t *testing.T) {
	f, _ := fake.Schema().FieldsByName("words")
	l, err := parseLayout(arrow.NewSchema(f, nil))
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct{ offsets, ends []int32 }{
		"2 values; expected 3":              {[]int32{0, 1, 3}, []int32{0, 1, 4}},
		"offset 2 is 0, after 1":            {[]int32{0, 1, 0}, []int32{0, 1, 4}},
		"offset 2 is 3, after 5":            {[]int32{0, 1, 2}, []int32{0, 5, 3}},
		"offsets begin at -1":               {[]int32{0, 1, 2}, []int32{-1, 2, 3}},
		"buffer holds 8 values; expected 9": {[]int32{0, 1, 2}, []int32{0, 1, 9}},
	} {
		_, err := l.bind(&wire.Batch{
			Rows: 2, Nodes: []wire.Node{{Length: 2}, {Length: 2}},
			Buffers: [][]byte{
				nil, arrow.Int32Traits.CastToBytes(c.offsets), nil, arrow.Int32Traits.CastToBytes(c.ends), make([]byte, 8),
			},
		})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"words"`) {
			t.Errorf("bind: %v; expected %q", err, want)
		}
	}
}

// TestBindSharedByteLists has the offsets of three strings begin as those of two rows do, in the same memory: what lies
// behind these is looked at, too.
func TestBindSharedByteLists(t *testing.T) {
	f, _ := fake.Schema().FieldsByName("words")
	l, err := parseLayout(arrow.NewSchema(f, nil))
	if err != nil {
		t.Fatal(err)
	}
	both := arrow.Int32Traits.CastToBytes([]int32{0, 1, 3, 0})
	_, err = l.bind(&wire.Batch{
		Rows: 2, Nodes: []wire.Node{{Length: 2}, {Length: 3}}, Buffers: [][]byte{nil, both, nil, both, make([]byte, 8)},
	})
	if err == nil || !strings.Contains(err.Error(), "offset 3 is 0, after 3") {
		t.Errorf("bind: %v", err)
	}
}

func TestPlace(t *testing.T) {
	at := func(window uint32, k uint64) position.Position { return position.Position{Window: window, K: k} }
	end := position.Position{Shard: 1}
	for _, c := range []struct {
		name   string
		cur    position.Position
		to     position.Position
		window uint32
		k      uint64
		rows   uint32
		last   bool
		lo, hi int
		after  position.Position
		bad    bool
	}{
		{name: "follows", cur: at(1, 4), to: end, window: 1, k: 4, rows: 3, hi: 3, after: at(1, 7)},
		{name: "ends its window", cur: at(1, 4), to: end, window: 1, k: 4, rows: 3, last: true, hi: 3, after: at(2, 0)},
		{name: "next window", cur: at(2, 0), to: end, window: 2, rows: 3, hi: 3, after: at(2, 3)},
		{name: "empty windows between", cur: at(2, 0), to: end, window: 5, rows: 3, hi: 3, after: at(5, 3)},
		{name: "empty window", cur: at(2, 0), to: end, window: 2, last: true, after: at(3, 0)},
		{name: "overlaps", cur: at(1, 4), to: end, window: 1, k: 1, rows: 5, lo: 3, hi: 5, after: at(1, 6)},
		{name: "all came before", cur: at(1, 4), to: end, window: 1, k: 1, rows: 2, after: at(1, 4)},
		{
			name: "ends where rows ended", cur: at(1, 4), to: end, window: 1, k: 1, rows: 3, last: true, lo: 3, hi: 3,
			after: at(2, 0),
		},
		{name: "earlier window", cur: at(1, 4), to: end, window: 0, k: 1, rows: 2, last: true, after: at(1, 4)},
		{
			name: "beyond the piece", cur: at(1, 4), to: at(1, 6), window: 1, k: 4, rows: 5, last: true, hi: 2,
			after: at(1, 6),
		},
		{name: "after the piece", cur: at(1, 4), to: at(1, 6), window: 2, rows: 5, bad: true},
		{name: "moves nothing", cur: at(1, 4), to: end, window: 1, k: 4, after: at(1, 4)},
		{name: "ends a window that is taken", cur: at(1, 4), to: end, window: 1, k: 4, last: true, after: at(2, 0)},
		{name: "gap", cur: at(1, 4), to: end, window: 1, k: 5, rows: 1, bad: true},
		{name: "gap to a window", cur: at(2, 0), to: end, window: 3, k: 5, rows: 1, bad: true},
		{name: "window not ended", cur: at(1, 4), to: end, window: 2, rows: 1, bad: true},
		{name: "window got shorter", cur: at(1, 4), to: end, window: 1, k: 1, rows: 2, last: true, bad: true},
		{name: "last of all windows", cur: at(1, 0), to: end, window: 1<<32 - 1, rows: 2, last: true, bad: true},
	} {
		p := &piece{taken: c.cur, received: c.cur, to: c.to}
		lo, hi, after, err := p.place(&pb.BatchMeta{Window: c.window, K: c.k, Rows: c.rows, Last: c.last})
		if (err != nil) != c.bad {
			t.Errorf("%s: error %v", c.name, err)
		} else if c.bad && status.Code(err) != codes.InvalidArgument { // else it would be asked again for ever
			t.Errorf("%s: %v is none that a worker is refused for", c.name, err)
		} else if !c.bad && (hi-lo != c.hi-c.lo || hi > lo && lo != c.lo || after != c.after) {
			t.Errorf("%s: rows %d to %d, then %v; expected %d to %d, then %v",
				c.name, lo, hi, after, c.lo, c.hi, c.after)
		}
	}
}

func flattened(t testing.TB, rec arrow.Record) *wire.Batch {
	b := new(wire.Batch)
	if err := b.Flatten(rec); err != nil {
		t.Fatal(err)
	}
	return b
}

// sender keeps what arrow's Flight writer sends.
type sender []*flight.FlightData

func (s *sender) Send(d *flight.FlightData) error {
	*s = append(*s, proto.Clone(d).(*flight.FlightData))
	return nil
}

// sent is a record as arrow sends it.
func sent(t testing.TB, rows []fake.Row, meta *pb.BatchMeta, how ...ipc.Option) *flight.FlightData {
	var out sender
	w := flight.NewRecordWriter(&out, append(how, ipc.WithSchema(fake.Schema()))...)
	b, err := proto.Marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteWithAppMetadata(fake.Rows(rows), b); err != nil {
		t.Fatal(err)
	}
	return out[len(out)-1]
}

// arrive has a stream receive a message.
func arrive(t testing.TB, d *flight.FlightData) (*fetcher, error) {
	message, err := proto.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	p := newPiece(position.Interval{To: position.Position{Shard: 1}}, grant{})
	f := newFetcher(&terms{layout: testLayout(t)}, newShared())
	f.shared.ledger.holdings = holdings{streams: 1, pieces: []*piece{p}}
	in := &incoming{st: newStream(f, p), a: new(attempt)}
	m := wire.NewMessage(&received)
	if err := wire.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, m); err != nil {
		return f, err
	}
	b, err := m.Batch()
	if err != nil {
		return f, err
	}
	_, err = in.receive(b)
	return f, err
}

// FuzzReceive changes a record's message: whatever comes, it is refused or copied, and never read beyond its buffers.
func FuzzReceive(f *testing.F) {
	for _, how := range [][]ipc.Option{nil, {ipc.WithLZ4()}, {ipc.WithZstd()}} {
		record := sent(f, someRows(6), &pb.BatchMeta{Rows: 6, Last: true}, how...)
		f.Add(record.DataHeader, record.DataBody, record.AppMetadata)
		f.Add(record.DataHeader, make([]byte, len(record.DataBody)), record.AppMetadata)
		f.Add(record.DataHeader, record.DataBody[:len(record.DataBody)/2], []byte{8, 1})
		flip := func(b []byte, i int) []byte {
			b = slices.Clone(b)
			b[i] ^= 0xff
			return b
		}
		for i := 0; i < len(record.DataBody); i += 97 {
			f.Add(record.DataHeader, flip(record.DataBody, i), record.AppMetadata)
		}
		for i := range record.DataHeader {
			f.Add(flip(record.DataHeader, i), record.DataBody, record.AppMetadata)
		}
	}
	record := sent(f, someRows(6), &pb.BatchMeta{Rows: 6, Last: true})
	length := binary.LittleEndian.AppendUint64(nil, 64) // as Arrow's writer pads six values
	for i := 0; i < len(record.DataHeader)-8; i++ {
		for _, width := range []byte{0, 1, 2, 3, 4, 7} {
			if bytes.Equal(record.DataHeader[i:i+8], length) {
				narrow := slices.Clone(record.DataHeader)
				narrow[i] = 6 * width
				f.Add(narrow, record.DataBody, record.AppMetadata)
			}
		}
	}
	f.Fuzz(func(t *testing.T, header, body, meta []byte) {
		f, err := arrive(t, &flight.FlightData{DataHeader: header, DataBody: body, AppMetadata: meta})
		if err != nil {
			return
		}
		c, from := f.shared.ledger.order().take(1 << 20)
		if from == nil {
			return
		}
		buf := newBuffers(f.terms.layout, 6, nil)
		if err := buf.append(c.rec, c.lo, c.hi); err != nil {
			t.Fatal(err)
		}
		if buf.rows != c.hi-c.lo {
			t.Errorf("%d rows of %d", buf.rows, c.hi-c.lo)
		}
	})
}

// TestReceivesWhatArrowSends holds that records come as they were sent, compressed or not.
func TestReceivesWhatArrowSends(t *testing.T) {
	rows := someRows(50)
	for _, how := range [][]ipc.Option{nil, {ipc.WithLZ4()}, {ipc.WithZstd()}} {
		f, err := arrive(t, sent(t, rows, &pb.BatchMeta{Rows: 50}, how...))
		if err != nil {
			t.Fatal(err)
		}
		c, _ := f.shared.ledger.order().take(50)
		buf := newBuffers(f.terms.layout, 50, nil)
		if err := buf.append(c.rec, c.lo, c.hi); err != nil {
			t.Fatal(err)
		}
		b := &Batch{Rows: 50, buffers: buf, spares: new(spares)}
		b.expose()
		if got, want := b.Record(), fake.Rows(rows); !array.RecordEqual(got, want) {
			t.Errorf("record %v; expected %v", got, want)
		}
	}
}

func TestRecordsAreCheckedAgainstTheirMetadata(t *testing.T) {
	if _, err := arrive(t, sent(t, someRows(6), &pb.BatchMeta{Rows: 5})); err == nil ||
		!strings.Contains(err.Error(), "6 rows") {
		t.Errorf("receive: %v", err)
	}
}

// TestBits compares appended bits with a loop over each of them.
func TestBits(t *testing.T) {
	bits := make([]byte, 40)
	for i := range bits {
		bits[i] = byte(i*i*37 + i)
	}
	for from := range 20 {
		for to := from; to < 200; to++ {
			got := appendBits(nil, bits, from, to)
			if len(got) != to-from {
				t.Fatalf("bits %d to %d: %d", from, to, len(got))
			}
			for i, v := range got {
				if v != (bits[(from+i)>>3]>>((from+i)&7)&1 == 1) {
					t.Fatalf("bits %d to %d: bit %d is %v", from, to, from+i, v)
				}
			}
		}
	}
}

// TestBatchesLargerThanTheDataset take the memory of the rows that there are, and grow by doubling.
func TestBatchesLargerThanTheDataset(t *testing.T) {
	const width = 1 << 20
	l := &layout{
		columns: []column{{name: "dense", elem: arrow.FLOAT32, width: width}, {name: "ids", elem: arrow.INT64}},
	}
	w := &wireRecord{rows: 3, columns: []wireColumn{
		{f32: make([]float32, 3*width)}, {i64: make([]int64, 3), offsets: []int32{0, 1, 2, 3}},
	}}
	buf := newBuffers(l, 1<<24, nil) // 64 TiB, were it full
	for i := range 9 {
		if err := buf.append(w, 0, 3); err != nil {
			t.Fatal(err)
		}
		if have, used := 4*cap(buf.columns[0].f32), 4*len(buf.columns[0].f32); have > max(roomAtOnce, 2*used) {
			t.Fatalf("after %d records %d bytes are taken for %d", i+1, have, used)
		}
		if have := 8 * cap(buf.columns[1].i64); have > roomAtOnce {
			t.Fatalf("%d bytes are taken for %d ids", have, len(buf.columns[1].i64))
		}
	}
}

// TestBuffersAreAligned, those that grew, too; and those of even rows grow once.
func TestBuffersAreAligned(t *testing.T) {
	buf := newBuffers(testLayout(t), 500, nil)
	grown := 0
	for lo := 0; lo < 500; lo += 50 {
		before := cap(buf.columns[1].i64)
		w, err := testLayout(t).bind(flattened(t, fake.Rows(someRows(50))))
		if err != nil {
			t.Fatal(err)
		}
		if err := buf.append(w, 0, 50); err != nil {
			t.Fatal(err)
		}
		if cap(buf.columns[1].i64) != before {
			grown++
		}
	}
	if grown != 1 {
		t.Errorf("the ids were moved %d times", grown)
	}
	b := &Batch{Rows: 500, buffers: buf, spares: new(spares)}
	b.expose()
	for i, c := range flattened(t, b.Record()).Buffers {
		if uintptr(unsafe.Pointer(unsafe.SliceData(c)))%wire.Alignment != 0 && len(c) > 63 { // bits are made on demand
			t.Errorf("buffer %d is not aligned", i)
		}
	}
}

func BenchmarkBits(b *testing.B) {
	bits, out := make([]byte, 1<<10), make([]bool, 0, 8<<10)
	b.SetBytes(8 << 10)
	for b.Loop() {
		out = appendBits(out[:0], bits, 0, 8<<10)
	}
}

// BenchmarkRebatch makes a batch of 16 records; BenchmarkMemcpy copies as many bytes.
func BenchmarkRebatch(b *testing.B) {
	records, buf := benchRecords(b)
	b.SetBytes(buf.size())
	b.ReportAllocs()
	for b.Loop() {
		buf.reset()
		for _, w := range records {
			if err := buf.append(w, 0, w.rows); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkMemcpy(b *testing.B) {
	_, buf := benchRecords(b)
	from, to := make([]byte, buf.size()), make([]byte, buf.size())
	for i := range from {
		from[i] = byte(i)
	}
	b.SetBytes(buf.size())
	for b.Loop() {
		copy(to, from)
	}
}

// benchRecords are 4 records of 4,096 rows of 13 dense and 26 sparse features, of 10 ids a row.
func benchRecords(b *testing.B) ([]*wireRecord, *buffers) {
	const rows, ids, features = 4096, 10, 26
	l := &layout{columns: []column{{name: "dense", role: roleDense, elem: arrow.FLOAT32, width: 13}}}
	for range features {
		l.columns = append(l.columns, column{name: "ids", role: roleSparse, elem: arrow.INT64})
	}
	var records []*wireRecord
	for range 4 {
		w := &wireRecord{rows: rows, columns: []wireColumn{{f32: make([]float32, 13*rows)}}}
		for range features {
			c := wireColumn{i64: make([]int64, ids*rows), offsets: make([]int32, rows+1)}
			for i := range c.offsets {
				c.offsets[i] = int32(i * ids)
			}
			for i := range c.i64 {
				c.i64[i] = int64(i)
			}
			w.columns = append(w.columns, c)
		}
		records = append(records, w)
	}
	buf := newBuffers(l, len(records)*rows, nil)
	for _, w := range records {
		if err := buf.append(w, 0, rows); err != nil {
			b.Fatal(err)
		}
	}
	return records, buf
}

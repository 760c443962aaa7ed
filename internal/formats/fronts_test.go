package formats_test

import (
	stdtar "archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
)

// masked is a checksum as records of TFRecord have it.
func masked(data []byte) uint32 {
	return bits.RotateLeft32(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), 17) + 0xa282ead8
}

// claims are fronts of files of a format that say that something has so many bytes.
func claims(t *rapid.T, n uint32) (name string, front []byte) {
	le := binary.LittleEndian
	switch name = rapid.SampledFrom([]string{"TFRecord", "MDS", "MDS samples", "WebDataset", "CSV", "JSON lines"}).Draw(
		t, "format"); name {
	case "TFRecord":
		front = le.AppendUint64(nil, uint64(n))
		return name, le.AppendUint32(front, masked(front))
	case "MDS":
		return name, le.AppendUint32(le.AppendUint32(nil, rapid.SampledFrom([]uint32{1, n / 5}).Draw(t, "samples")), n)
	case "MDS samples":
		header := `{"version":2,"format":"mds","column_names":["a"],"column_encodings":["ndarray"],"column_sizes":[null]}`
		begin := uint32(12 + len(header))
		for _, x := range []uint32{1, begin, begin + n} {
			front = le.AppendUint32(front, x)
		}
		return "MDS", le.AppendUint32(append(front, header...), n)
	case "WebDataset":
		var out bytes.Buffer
		w := stdtar.NewWriter(&out)
		for i := range rapid.IntRange(0, 40).Draw(t, "aside") {
			_ = w.WriteHeader(&stdtar.Header{Name: fmt.Sprintf("README%d", i), Typeflag: stdtar.TypeReg})
		}
		_ = w.WriteHeader(&stdtar.Header{Name: "0.jpg", Size: int64(n), Typeflag: stdtar.TypeReg})
		return name, out.Bytes()
	case "CSV":
		return name, []byte(strings.Repeat(",", int(n%(1<<19))) + `,"`)
	}
	return name, []byte(`{"a": [` + strings.Repeat("[", int(n%1000)) + `"`)
}

// TestFrontsStayWithinTheirBound: whatever a front claims, what describing the file takes is asked for, is no more than
// a record may have, and goes with what there is of it.
func TestFrontsStayWithinTheirBound(t *testing.T) {
	const little = 16 << 20
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int64{1 << 20, 64 << 20}).Draw(t, "limit")
		n := rapid.SampledFrom([]uint32{1000, 2e6, 60e6, 1<<31 - 1}).Draw(t, "claimed")
		name, data := claims(t, n)
		data = append(data, make([]byte, rapid.SampledFrom([]int{1000, 3e6, 12e6}).Draw(t, "there"))...)
		size := int64(len(data))
		switch rapid.IntRange(0, 2).Draw(t, "codec") {
		case 1:
			data = recordstest.Gzip(data)
		case 2:
			data = recordstest.Zstd(false, -1, data)
		}
		one := &filetest.One{URI: "mem://file", Data: data}
		how := &pb.Format{Name: name, Options: map[string]*pb.Value{
			"max_record_bytes": {Kind: &pb.Value_Int{Int: limit}}, "max_ratio": {Kind: &pb.Value_Int{Int: 1<<31 - 1}},
		}}
		took := int64(0)
		take := func(n int64) error {
			took += n
			return nil
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = formats.NewCache(1).Load(t.Context(), one, "", one.File(), how, nil, take)
		runtime.ReadMemStats(&after)
		if most := records.MaxHeader + limit + little; took > most {
			t.Errorf("%d bytes were asked for, and %d may be", took, most)
		}
		if most := 4*size + little; took > most {
			t.Errorf("%d bytes were asked for where there are %d", took, size)
		}
		// A front is copied as its memory grows, and kinds make something of it.
		if made := int64(after.TotalAlloc - before.TotalAlloc); made > 3*took+2*little {
			t.Errorf("%d bytes of memory were taken, and %d were asked for", made, took)
		}
	})
}

// TestPlainFrontsLikeGzip: files that begin as those of gzip do by chance are read as they are, whatever their name.
func TestPlainFrontsLikeGzip(t *testing.T) {
	const n = 0x8b1f
	le := binary.LittleEndian
	payload := append(binary.AppendUvarint([]byte{0x1a}, n-4), make([]byte, n-4)...) // a field of no Example
	record := le.AppendUint64(nil, n)
	record = append(le.AppendUint32(record, masked(record)), payload...)
	record = le.AppendUint32(record, masked(payload))
	header := `{"version":2,"format":"mds","column_names":["a"],"column_encodings":["uint8"],"column_sizes":[1]}`
	begin := uint32(4 + 4*(n+1) + len(header))
	shard := le.AppendUint32(nil, n)
	for i := range uint32(n + 1) {
		shard = le.AppendUint32(shard, begin+i)
	}
	shard = append(append(shard, header...), make([]byte, n)...)
	for _, c := range []struct {
		format, name string
		data         []byte
		rows         int64
	}{
		{"TFRecord", "part", record, 1},
		{"TFRecord", "part.tfrecord", record, 1},
		{"TFRecord", "part.gz", recordstest.Gzip(record), 1},
		{"MDS", "shard", shard, n},
		{"MDS", "shard.mds", shard, n},
	} {
		one := &filetest.One{URI: "mem://" + c.name, Data: c.data}
		f, err := formats.Load(t.Context(), one, "", one.File(), nil)
		if err != nil || f.Format() != c.format || format.Rows(f) != c.rows {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLongRecords: a first record is read as a whole, once, or refused by its own limit.
func TestLongRecords(t *testing.T) {
	part := strings.Repeat("x", 3<<20)
	var out bytes.Buffer
	w := stdtar.NewWriter(&out)
	for _, name := range []string{"0.a", "0.b", "0.c", "1.a"} {
		_ = w.WriteHeader(&stdtar.Header{Name: name, Size: int64(len(part)), Typeflag: stdtar.TypeReg})
		_, _ = w.Write([]byte(part))
	}
	_ = w.Close()
	for _, data := range [][]byte{out.Bytes(), recordstest.Gzip(out.Bytes()), recordstest.Zstd(true, 3, out.Bytes())} {
		for limit, want := range map[int64]string{
			10 << 20: "",
			5 << 20: "mem://file: byte 0: a record has more than 5242880 bytes: if it is to be trusted, raise " +
				"dataset.format.max_record_bytes",
		} {
			one := &filetest.One{URI: "mem://file", Data: data}
			how := &pb.Format{Name: "tar", Options: map[string]*pb.Value{"max_record_bytes": {Kind: &pb.Value_Int{Int: limit}}}}
			f, err := formats.NewCache(1).Load(t.Context(), one, "", one.File(), how, nil, nil)
			switch {
			case want != "" && (err == nil || err.Error() != want), want == "" && err != nil:
				t.Errorf("%v, want %q", err, want)
			case want == "" && len(f.Columns().Schema.Columns) != 4:
				t.Errorf("%d columns", len(f.Columns().Schema.Columns))
			}
		}
	}
}

// TestManyColumns are refused, whatever the format.
func TestManyColumns(t *testing.T) {
	const n = 10_001
	many := func(one string) string { return strings.Repeat(one+",", n-1) + one }
	header := fmt.Sprintf(`{"version":2,"format":"mds","column_names":[%s],"column_encodings":[%s],"column_sizes":[%s]}`,
		many(`"a"`), many(`"str"`), many("null"))
	mds := binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(8+len(header)))
	var example []byte
	for i := range n { // each feature has a name of two bytes, and nothing
		example = append(example, 0x0a, 4, 0x0a, 2, byte(i), byte(i>>8))
	}
	example = append(binary.AppendUvarint([]byte{0x0a}, uint64(len(example))), example...)
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(example)))
	record = append(binary.LittleEndian.AppendUint32(record, masked(record)), example...)
	for name, data := range map[string][]byte{
		"CSV": []byte(many("a")), "MDS": append(mds, header...),
		"TFRecord": binary.LittleEndian.AppendUint32(record, masked(example)),
	} {
		one := &filetest.One{URI: "mem://file", Data: recordstest.Gzip(data)}
		_, err := formats.NewCache(1).Load(t.Context(), one, "", one.File(), &pb.Format{Name: name}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "it has more than 10000 columns, which is the most: write") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOptionsOfIndexes: those that extents do not depend on are as good as not given.
func TestOptionsOfIndexes(t *testing.T) {
	text := func(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }
	one := &filetest.One{URI: "mem://file", Data: []byte("a,b\n1,2\n")}
	digest := func(options map[string]*pb.Value) string {
		how := &pb.Format{Name: "CSV", Options: options}
		f, err := formats.NewCache(1).Load(t.Context(), one, "", one.File(), how, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return index.Options(f.(format.Scanned), how)
	}
	limits := map[string]*pb.Value{
		"max_record_bytes": {Kind: &pb.Value_Int{Int: 99}},
		"nulls":            {Kind: &pb.Value_List{List: &pb.List{Values: []*pb.Value{text("-")}}}},
	}
	if digest(limits) != "" {
		t.Error("limits and nulls change an index")
	}
	if digest(map[string]*pb.Value{"comment": text("#")}) == "" {
		t.Error("lines that are left out change no index")
	}
}

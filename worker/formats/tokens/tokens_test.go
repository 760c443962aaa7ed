package tokens_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/object"
	decoders "github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

const others = "../../../internal/formats/filetest/others/tokens/"

// folder is a Storage of files in memory.
type folder map[string][]byte

func (f folder) file(name string) *pb.File {
	sum := sha256.Sum256(f[name])
	return &pb.File{Uri: "mem://" + name, Size: int64(len(f[name])), Etag: string(sum[:])}
}

func (f folder) List(_ context.Context, _ string, uris []string) ([]*pb.File, error) {
	name := strings.TrimPrefix(uris[0], "mem://")
	if _, ok := f[name]; !ok {
		return nil, fs.ErrNotExist
	}
	return []*pb.File{f.file(name)}, nil
}

func (f folder) ReadAt(ctx context.Context, profile string, of *pb.File, buf []byte, offset int64) error {
	return storage.InMemory(f[strings.TrimPrefix(of.GetUri(), "mem://")]).ReadAt(ctx, profile, of, buf, offset)
}

func (f folder) Keys(string) *keys.Ring { return nil }

// TestOthers: what megatron-core, numpy and datatrove wrote holds what its twin in Parquet does, from each row on.
func TestOthers(t *testing.T) {
	for _, tt := range []struct {
		name, beside string
		how          *pb.Format
	}{
		{"megatron-uint16.bin", "megatron-uint16.idx", nil},
		{"megatron-int32.bin", "megatron-int32.idx", nil},
		{"datatrove-16.ds", "datatrove-16.ds.index", nil},
		{"datatrove-32.ds", "datatrove-32.ds.index", nil},
		{"flat.bin", "flat.bin.docs.npy", &pb.Format{Name: "tokens", Options: map[string]*pb.Value{
			"dtype": text("uint16"), "documents": text("*.docs.npy"),
		}}},
		{"flat.npy", "flat.npy.docs.npy", &pb.Format{Name: "Tokens", Options: map[string]*pb.Value{
			"documents": text("flat.npy.docs.npy"),
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := folder{tt.name: read(t, tt.name), tt.beside: read(t, tt.beside)}
			twin := read(t, tt.name+".parquet")
			sources := sourcesOf(t, twin)
			want := formattest.Rows(t, twin, sources...)
			for _, skip := range []int{0, 1, len(want) / 2, len(want)} {
				got, err := rows(t.Context(), st, tt.name, tt.how, sources, skip)
				if err != nil || !reflect.DeepEqual(got, append([][]any{}, want[skip:]...)) {
					t.Fatalf("from row %d on: %v, %v\nwant %v", skip, err, got, want[skip:])
				}
			}
			changed(t, st, tt.beside, func() error {
				_, err := rows(t.Context(), st, tt.name, tt.how, sources, 0)
				return err
			})
		})
	}
}

// changed has bytes of a file changed, and it cut off at each: reading may fail, and does not panic.
func changed(t *testing.T, st folder, name string, try func() error) {
	good, r, failed := st[name], rand.New(rand.NewPCG(1, 1)), 0
	for n := range good {
		st[name] = good[:n]
		if try() != nil {
			failed++
		}
		st[name] = append([]byte{}, good...)
		st[name][n] = byte(r.Uint32())
		_ = try()
	}
	if failed < len(good) {
		t.Errorf("of %d indexes that are cut off %d are errors", len(good), failed)
	}
}

// TestExtents: a long file has several, and each row once.
func TestExtents(t *testing.T) {
	var data, ends []byte
	r, total := rand.New(rand.NewPCG(2, 2)), uint64(0)
	for total < 5<<20 {
		n := r.Uint64N(100_000)
		total += n
		ends = binary.LittleEndian.AppendUint64(ends, total)
		for range n {
			data = append(data, byte(total), byte(total>>8))
		}
	}
	st := folder{"a.ds": data, "a.ds.index": ends}
	source := &pb.Source{Name: "t", Path: []string{"tokens"}, Type: &pb.Type{Kind: pb.Kind_INT32, List: true}}
	file, err := formats.NewCache(1<<20).Whole(t.Context(), st, "", st.file("a.ds"), nil, []*pb.Source{source})
	if err != nil || len(file.Extents()) < 2 || len(file.Extents()) > 3 {
		t.Fatal(file, err)
	}
	got, err := rows(t.Context(), st, "a.ds", nil, []*pb.Source{source}, 0)
	if err != nil || len(got) != len(ends)/8 {
		t.Fatalf("%d rows, want %d: %v", len(got), len(ends)/8, err)
	}
	before := uint64(0)
	for i, row := range got {
		tokens, _ := row[0].([]any)
		end := binary.LittleEndian.Uint64(ends[8*i:])
		if len(tokens) != int(end-before) || len(tokens) > 0 && tokens[0] != int32(uint16(end)) {
			t.Fatalf("row %d has %d tokens, want %d", i, len(tokens), end-before)
		}
		before = end
	}
}

// TestRewritten: a file whose documents end elsewhere, though it has as many, has another digest, and is read anew soon.
func TestRewritten(t *testing.T) {
	ends := func(first uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, first), 8)
	}
	synctest.Test(t, func(t *testing.T) {
		st, cache := folder{"a.ds": make([]byte, 16), "a.ds.index": ends(3)}, formats.NewCache(1<<20)
		load := func() uint64 {
			t.Helper()
			f, err := cache.Load(t.Context(), st, "", st.file("a.ds"), nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return format.BesideOf(f)
		}
		before := load()
		time.Sleep(2 * time.Minute)
		if load() != before {
			t.Error("the digest is another one for the same files")
		}
		st["a.ds.index"] = ends(4)
		time.Sleep(2 * time.Minute)
		if load() == before {
			t.Error("documents end elsewhere, and the digest is the same")
		}
	})
}

// unlisted is a folder that cannot be listed.
type unlisted struct {
	folder
	err error
}

func (u unlisted) List(context.Context, string, []string) ([]*pb.File, error) { return nil, u.err }

// TestUnlisted: while the storage does not answer whether an index is still the same, what is known of it is kept, and
// looked at again soon. Another error is no description.
func TestUnlisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cache := folder{"a.bin": make([]byte, 10), "a.idx": nil}, formats.NewCache(1<<20)
		st["a.idx"] = binary.LittleEndian.AppendUint64(nil, 5)
		load := func(st storage.Storage) (format.File, error) {
			time.Sleep(2 * time.Minute)
			return cache.Load(t.Context(), st, "", st.(interface{ file(string) *pb.File }).file("a.bin"), nil, nil, nil)
		}
		before, err := load(st)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := load(unlisted{st, object.Transient(errors.New("503"))}); f != before || err != nil {
			t.Errorf("while the storage does not answer: %v, %v", f, err)
		}
		if f, err := load(unlisted{st, object.ErrDenied}); f != nil || !errors.Is(err, object.ErrDenied) {
			t.Errorf("where the folder cannot be listed: %v, %v", f, err)
		}
		if f, err := load(st); f != before || err != nil {
			t.Errorf("once it can: %v, %v", f, err)
		}
	})
}

// FuzzIndex: whatever an index holds, reading it ends.
func FuzzIndex(f *testing.F) {
	for _, name := range []string{"megatron-int32.idx", "flat.bin.docs.npy", "datatrove-16.ds.index"} {
		f.Add(read(f, name))
	}
	data := read(f, "megatron-int32.bin")
	source := &pb.Source{Name: "t", Path: []string{"tokens"}, Type: &pb.Type{Kind: pb.Kind_INT64, List: true}}
	f.Fuzz(func(t *testing.T, index []byte) {
		st := folder{"a.bin": data, "a.idx": index}
		_, _ = rows(t.Context(), st, "a.bin", nil, []*pb.Source{source}, 0)
	})
}

// TestForgedLengths: an index of documents that are longer than the file takes no memory for extents.
func TestForgedLengths(t *testing.T) {
	const documents = 1 << 17
	var ends []byte
	for i := range uint64(documents) {
		ends = binary.LittleEndian.AppendUint64(ends, i*math.MaxInt32)
	}
	st := folder{"a.ds": make([]byte, 16), "a.ds.index": ends}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := formats.NewCache(1<<20).Load(t.Context(), st, "", st.file("a.ds"), option("dtype", "uint16"), nil, nil)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16*documents+1<<20 { // the index, and a length of each
		t.Errorf("%d bytes for %d documents", took, documents)
	}
	if err == nil || !strings.Contains(err.Error(), "and the file 16: it is damaged") {
		t.Error(err)
	}
}

// TestErrors: what is missing or wrong is named, and what to do about it.
func TestErrors(t *testing.T) {
	idx := string(read(t, "megatron-int32.idx"))
	var begins bytes.Buffer // of two documents of 500 tokens of two bytes, or one of four
	begins.WriteString("\x93NUMPY\x01\x00\x46\x00" + fmt.Sprintf("%-69s\n",
		"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }"))
	begins.Write([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xf4, 1, 0, 0, 0, 0, 0, 0})
	odd := bytes.Repeat([]byte{1}, 16) // 8 tokens of two bytes
	ends := []byte{4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0}
	flat := read(t, "flat.npy")
	for name, tt := range map[string]struct {
		files   folder
		how     *pb.Format
		message string
	}{
		"no index":      {folder{"a.bin": {}}, nil, "looked for a.idx and a.bin.index: name it by dataset.format.documents"},
		"another kind":  {folder{"a.bin": {}, "a.idx": []byte(idx)}, option("dtype", "uint16"), "its tokens are int32"},
		"no kind":       {folder{"a.bin": {1, 2, 3}, "a.bin.index": {1, 0, 0, 0, 0, 0, 0, 0}}, nil, "dataset.format.dtype"},
		"no end":        {folder{"a.bin": make([]byte, 2000), "a.idx": begins.Bytes()}, nil, "dataset.format.dtype"},
		"fewer tokens":  {folder{"a.bin": {1, 2}, "a.idx": []byte(idx)}, nil, "of another kind than int32"},
		"not an option": {folder{"a.bin": {}}, option("documnets", "x"), "no option documnets"},
		"half an index": {folder{"a.bin": odd, "a.bin.index": ends[:8]}, nil, "dataset.format.dtype"},
		"half of uint16": {
			folder{"a.bin": odd, "a.bin.index": ends[:8]},
			option("dtype", "uint16"),
			"its documents have 4 tokens, and the file 8 of uint16",
		},
		"a short array": {folder{"a.bin": flat[:len(flat)-6], "a.idx": begins.Bytes()}, nil, "it is cut off or damaged"},
		"short offsets": {
			folder{"a.bin": {}, "a.idx": begins.Bytes()[:begins.Len()-8]}, option("dtype", "uint16"), "it is cut off or damaged",
		},
		"a version": {folder{"a.bin": {}, "a.idx": []byte(idx[:9] + "\x02" + idx[10:])}, nil, "version 2"},
	} {
		how := tt.how
		if how == nil {
			how = &pb.Format{Name: "tokens"}
		}
		_, err := rows(t.Context(), tt.files, "a.bin", how, nil, 0)
		if err == nil || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func option(name, value string) *pb.Format {
	return &pb.Format{Name: "tokens", Options: map[string]*pb.Value{name: text(value)}}
}

func text(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }

// sourcesOf are the columns of a file, as each kind that they can be read as.
func sourcesOf(t *testing.T, twin []byte) (sources []*pb.Source) {
	for _, c := range formattest.Schema(t, twin).Columns {
		kinds := []pb.Kind{c.Type.Kind, c.Own}
		if c.Type.Kind == pb.Kind_INT32 {
			kinds = append(kinds, pb.Kind_INT64)
		}
		for _, kind := range kinds {
			if typ := c.Type.Proto(); kind != pb.Kind_KIND_UNSPECIFIED {
				typ.Kind = kind
				sources = append(sources, &pb.Source{Name: fmt.Sprint(c.Name, kind), Path: c.Path, Type: typ})
			}
		}
	}
	return sources
}

// rows are those of a file from one on, in windows of 7.
func rows(
	ctx context.Context, st folder, name string, how *pb.Format, sources []*pb.Source, skip int,
) (out [][]any, err error) {
	file, err := formats.NewCache(1<<20).Whole(ctx, st, "", st.file(name), how, sources)
	if err != nil {
		return nil, err
	}
	d, err := decoders.New(file.Format(), sources)
	if err != nil {
		return nil, err
	}
	b, err := file.Bind(sources)
	if err != nil {
		return nil, err
	}
	d.Memory().Allow(32 << 20)
	out = [][]any{}
	for extent, e := range file.Extents() {
		if err := begin(d, b, extent, st[path.Base(name)], skip); err != nil {
			return nil, err
		}
		for left := int(e.Rows) - skip; left > 0; left -= 7 {
			vectors, err := d.Next(min(7, left))
			if err != nil {
				return nil, err
			}
			first := len(out)
			for range min(7, left) {
				out = append(out, make([]any, len(vectors)))
			}
			for j, v := range vectors {
				for i, value := range rowtest.Of(v) {
					out[first+i][j] = value
				}
			}
		}
	}
	return out, nil
}

func begin(d decoders.Decoder, b format.Bound, extent int, data []byte, skip int) error {
	var chunks []decode.Source
	for i := range b.Chunks() {
		at := b.Chunk(extent, i)
		chunk := decode.Whole(data[at.Offset:][:at.Length])
		chunks = append(chunks, &chunk)
	}
	if err := d.Reset("mem", b, extent, chunks); err != nil {
		return err
	}
	return d.Skip(skip)
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(others + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

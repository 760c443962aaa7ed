package formats_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"os"
	"path/filepath"
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
	"github.com/penstock-ml/penstock/internal/storage"
)

// frames is a file of TFRecord: an empty Example, and records of so many bytes.
func frames(sizes ...int) (data []byte) {
	masked := func(b []byte) uint32 {
		return bits.RotateLeft32(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)), 17) + 0xa282ead8
	}
	for _, n := range append([]int{0}, sizes...) {
		head := binary.LittleEndian.AppendUint64(nil, uint64(n))
		body := make([]byte, n)
		data = binary.LittleEndian.AppendUint32(append(data, head...), masked(head))
		data = binary.LittleEndian.AppendUint32(append(data, body...), masked(body))
	}
	return data
}

// archive draws a tar of samples. It is clean if it has nothing else than what a list of it tells.
func archive(t *rapid.T) (data []byte, clean bool) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	clean = true
	as := rapid.SampledFrom([]tar.Format{tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU}).Draw(t, "format")
	add := func(name string, kind byte, size int) {
		h := &tar.Header{Name: name, Typeflag: kind, Size: int64(size), Format: as, Mode: 0o600}
		if as == tar.FormatPAX && rapid.Bool().Draw(t, "extended") {
			h.PAXRecords = map[string]string{"comment": strings.Repeat("x", rapid.IntRange(1, 3000).Draw(t, "long"))}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(bytes.Repeat([]byte{'1'}, size))
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "samples") {
		for _, part := range []string{"cls", "jpg", "txt"}[:rapid.IntRange(1, 3).Draw(t, "parts")] {
			switch rapid.IntRange(0, 30).Draw(t, "between") {
			case 0:
				add(fmt.Sprintf("s%02d/.hidden", i), tar.TypeReg, rapid.IntRange(0, 600).Draw(t, "hidden"))
				clean = false
			case 1:
				add(fmt.Sprintf("d%02d/", i), tar.TypeDir, 0)
				clean = false
			}
			add(fmt.Sprintf("s%02d/a.%s", i, part), tar.TypeReg, rapid.SampledFrom([]int{0, 1, 700, 5000}).Draw(t, "size"))
		}
	}
	_ = w.Close()
	return out.Bytes(), clean && out.Len() > 1024
}

// small describes a file, whose extents have so many bytes.
func small(t interface{ Fatal(...any) }, name string, data []byte, extent int64) (*format.Input, *records.File) {
	st := &filetest.One{URI: "mem://" + name, Data: data}
	in := &format.Input{Storage: st, File: st.File()}
	of, err := formats.NewCache(1<<20).Load(context.Background(), st, "", st.File(), nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := *of.(*records.File)
	file.Limits.Extent = extent
	return in, &file
}

func byList(in *format.Input, of format.Lister, list []byte) (*index.Index, error) {
	return index.Make(in, of, func(found func(format.Place) error) error {
		return of.ScanList(context.Background(), in, list, found)
	})
}

// TestListsAreAsGoodAsScans: the index by a list is that of a scan, to the byte, or the list is not used. It is used if
// the file has nothing else than the list tells.
func TestListsAreAsGoodAsScans(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		extent := rapid.SampledFrom([]int64{1, 1000, 6000, 1 << 20}).Draw(r, "extent")
		name, clean := "a.tfrecord", true
		data := frames(rapid.SliceOfN(rapid.IntRange(0, 300), 1, 40).Draw(r, "sizes")...)
		list := recordstest.TFRecordList(data)
		if rapid.Bool().Draw(r, "tar") {
			name = "a.tar"
			data, clean = archive(r)
			list = recordstest.TarList(data)
		}
		in, of := small(r, name, data, extent)
		want, err := index.Scan(t.Context(), in, of)
		if err != nil {
			r.Fatal(err)
		}
		got, err := byList(in, of, list)
		if err != nil && clean {
			r.Fatalf("by the list\n%s: %v", list, err)
		}
		if err == nil && !bytes.Equal(got.Bytes(), want.Bytes()) {
			r.Fatalf("by the list\n%s\nextents are %+v\nwant %+v", list, got.Places(), want.Places())
		}
	})
}

// TestListsOfOthers: of files that others wrote, the lists that the tools wrote are as good as scans. Behind long names
// of GNU, wds2idx lists other places than those of members, and is passed over.
func TestListsOfOthers(t *testing.T) {
	for file, list := range map[string]string{
		"tfrecord/plain.tfrecord": "tfrecord/plain.tfrecord.idx", "tfrecord/torch.tfrecord": "tfrecord/torch.tfrecord.idx",
		"webdataset/plain.tar": "webdataset/plain.idx", "webdataset/pax.tar": "webdataset/pax.idx",
		"webdataset/gnu.tar": "webdataset/gnu.idx", "webdataset/ustar.tar": "webdataset/ustar.idx",
		"webdataset/missing.tar": "webdataset/missing.idx",
	} {
		in, of := small(t, filepath.Base(file), filetest.Bytes(t, file), 2000)
		want, err := index.Scan(t.Context(), in, of)
		if err != nil {
			t.Fatal(err)
		}
		got, err := byList(in, of, filetest.Bytes(t, list))
		if wrong := file == "webdataset/gnu.tar"; (err != nil) != wrong || !wrong && !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%s: by its list: %v", file, err)
		}
	}
}

// TestIndexIsMadeByAList: it is read in place of the file, and passed over if it is that of another one.
func TestIndexIsMadeByAList(t *testing.T) {
	sizes := make([]int, 12_000)
	for i := range sizes {
		sizes[i] = 1000 + i%7
	}
	data, other := frames(sizes...), frames(append([]int{2}, sizes...)...)
	list, wrong := recordstest.TFRecordList(data), recordstest.TFRecordList(other)
	for _, tc := range []struct {
		lists  map[string][]byte
		by     string
		passed int
	}{
		{map[string][]byte{"a.tfrecord.idx": list}, "a.tfrecord.idx", 0},
		{map[string][]byte{"a.tfindex": list, "a.idx": wrong}, "a.tfindex", 1},
		{map[string][]byte{"a.tfrecord.idx": wrong, "a.idx": []byte("no list")}, "", 2},
		{nil, "", 0},
	} {
		dir := t.TempDir()
		put := func(name string, data []byte) {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put("a.tfrecord", data)
		for name, list := range tc.lists {
			put(name, list)
		}
		st, err := storage.New(storage.Config{})
		if err != nil {
			t.Fatal(err)
		}
		files, left, err := st.Tell(t.Context(), &pb.Dataset{Uri: []string{dir}})
		if err != nil || len(files) != 1 || len(left.Words()) > 0 {
			t.Fatalf("%v, %v: %v", files, left.Words(), err)
		}
		of, err := formats.NewCache(1<<20).Load(t.Context(), st, "", files[0], nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		in := &format.Input{Storage: st, File: files[0]}
		want, err := formats.Scan(t.Context(), in, of.(format.Scanned))
		if err != nil {
			t.Fatal(err)
		}
		made, err := formats.Index(t.Context(), in, of.(format.Scanned))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made.Bytes(), want.Bytes()) || !strings.HasSuffix(made.List, tc.by) ||
			(made.List == "") != (tc.by == "") || len(made.Passed) != tc.passed {
			t.Errorf("by %q, %q, want %q", made.List, made.Passed, tc.by)
		}
		read := len(data)
		if tc.by != "" {
			read = len(list)
		}
		if made.Read != int64(read) {
			t.Errorf("by %q, it says that %d bytes were read, not %d", tc.by, made.Read, read)
		}
	}
}

// FuzzList: whatever a list says, it is the index of a scan, or one that can be of the file, or it is passed over.
func FuzzList(f *testing.F) {
	lines := frames(5, 0, 70, 9)
	samples := filetest.Bytes(f, "webdataset/pax.tar")
	f.Add(recordstest.TFRecordList(lines))
	f.Add(recordstest.TarList(samples))
	type file struct {
		in *format.Input
		of *records.File
	}
	var files []file
	for name, data := range map[string][]byte{"a.tfrecord": lines, "a.tar": samples} {
		in, of := small(f, name, data, 1000)
		files = append(files, file{in, of})
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		for _, f := range files {
			x, err := byList(f.in, f.of, list)
			if err != nil {
				continue
			}
			if _, err := x.Open(f.of, index.For(f.in.File, f.of, nil)); err != nil || x.Extents() == 0 {
				t.Errorf("%s: an index of %d extents by %q: %v", f.of.Format(), x.Extents(), list, err)
			}
		}
	})
}

package tar_test

import (
	stdtar "archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/tar"
)

// file is a member that is written.
type file struct {
	name, data string
	kind       byte
}

// archive writes a tar by Go's own writer, without its end if cut.
func archive(t fataler, as stdtar.Format, files []file, cut bool) []byte {
	var out bytes.Buffer
	w := stdtar.NewWriter(&out)
	for _, f := range files {
		h := &stdtar.Header{Name: f.name, Size: int64(len(f.data)), Typeflag: stdtar.TypeReg, Format: as, Mode: 0o600}
		if f.kind != 0 {
			h.Typeflag, h.Size, h.Linkname = f.kind, 0, "elsewhere"
		}
		err := w.WriteHeader(h)
		if err == nil && f.kind == 0 {
			_, err = w.Write([]byte(f.data))
		}
		if err != nil {
			t.Fatalf("%+v: %v", h, err)
		}
	}
	end := w.Close
	if cut {
		end = w.Flush
	}
	if err := end(); err != nil {
		t.Fatalf("%v", err)
	}
	return out.Bytes()
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// scan describes a file and finds its extents.
func scan(ctx context.Context, data []byte, options map[string]*pb.Value) (format.File, []format.Place, error) {
	st := &filetest.One{URI: "mem://a.tar", Data: data}
	in := &format.Input{
		Storage: st, File: st.File(), How: &pb.Format{Options: options},
		Take: func(int64) error { return nil },
	}
	f, err := records.Format{Kind: tar.Kind{}}.Describe(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	var places []format.Place
	err = f.(format.Scanned).Scan(ctx, in, func(p format.Place) error {
		places = append(places, p)
		return nil
	})
	return f, places, err
}

func rows(places []format.Place) (n int64) {
	for _, p := range places {
		n += p.Rows
	}
	return n
}

// aside are members that are no parts of samples.
func aside(t *rapid.T, i int) file {
	return rapid.SampledFrom([]file{
		{name: fmt.Sprintf("dir%d/", i), kind: stdtar.TypeDir},
		{name: "train/README", data: "no dot"},
		{name: "train/._0.jpg", data: "hidden"},
		{name: "__meta__/a.json", data: "{}"},
		{name: "link.jpg", kind: stdtar.TypeSymlink},
		{name: "hard.jpg", kind: stdtar.TypeLink},
	}).Draw(t, "aside")
}

// drawn are the members of a tar, and its samples: keys, and parts by extension.
func drawn(t *rapid.T) (files []file, keys []string, parts []map[string]string) {
	folder := rapid.SampledFrom([]string{"", "./", "v1.0/", "a/b/", strings.Repeat("long/", 40)}).Draw(t, "folder")
	for i := range rapid.IntRange(0, 12).Draw(t, "samples") {
		key := fmt.Sprintf("%s%04d", folder, i)
		has := map[string]string{}
		for _, part := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"jpg", "seg.png", "txt", "tar", "JPEG",
		}), 1, 4, rapid.ID).Draw(t, "parts") {
			for rapid.IntRange(0, 3).Draw(t, "between") == 0 {
				files = append(files, aside(t, len(files)))
			}
			data := strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 511, 512, 513, 3000}).Draw(t, "bytes"))
			if part == "tar" { // a tar in the tar
				data = string(archive(t, stdtar.FormatUSTAR, []file{{name: key + ".jpg", data: "in"}}, false))
			}
			files = append(files, file{name: key + "." + part, data: data})
			has[strings.ToLower(part)] = data
		}
		keys, parts = append(keys, key), append(parts, has)
	}
	return files, keys, parts
}

// TestSamples cuts a tar at its samples, whatever wrote it, and whatever is in it.
func TestSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files, keys, parts := drawn(t)
		as := rapid.SampledFrom([]stdtar.Format{stdtar.FormatPAX, stdtar.FormatGNU}).Draw(t, "format")
		data := archive(t, as, files, false)
		f, places, err := scan(context.Background(), data, nil)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if n := rows(places); n != int64(len(keys)) {
			t.Fatalf("%d rows, want %d", n, len(keys))
		}
		opened := f.(*records.File).Opened
		for at, i := 0, 0; i < len(keys); {
			n, row, err := opened.Cut(data[at:], int64(at), true)
			if err != nil || n == 0 {
				t.Fatalf("at %d: %d, %v", at, n, err)
			}
			for _, less := range []int{0, n / 2, n - 1, n} { // more data must not change it
				m, isRow, err := opened.Cut(data[at:at+less], int64(at), false)
				if err != nil || m != 0 && (m != n || isRow != row) {
					t.Fatalf("at %d: %d of %d bytes, %v", at, m, n, err)
				}
			}
			if row {
				same(t, data[at:at+n], keys[i], parts[i])
				i++
			}
			at += n
		}
	})
}

// same holds a sample against what was written.
func same(t *rapid.T, sample []byte, key string, parts map[string]string) {
	found := map[string]string{}
	for w := tar.NewWalk(sample); w.At < len(sample); {
		m, err := w.Next()
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if m.Key == nil {
			continue
		}
		if string(m.Key) != key {
			t.Fatalf("key %q, want %q", m.Key, key)
		}
		found[string(tar.Lower(m.Part))] = string(sample[m.From:m.To])
	}
	if fmt.Sprint(found) != fmt.Sprint(parts) {
		t.Fatalf("%s: parts %v, want %v", key, found, parts)
	}
}

// TestTruncated tells a tar that is cut off, wherever that is, in front of its end.
func TestTruncated(t *testing.T) {
	files := []file{{name: "a.txt", data: "1"}, {name: "a.cls", data: "2"}, {name: "d/", kind: stdtar.TypeDir}}
	files = append(files, file{name: strings.Repeat("b", 150) + ".txt", data: "3"})
	whole := archive(t, stdtar.FormatGNU, files, false)
	last := len(archive(t, stdtar.FormatGNU, files, true))
	for n := range last + 512 {
		if _, _, err := scan(t.Context(), whole[:n], nil); err == nil {
			t.Errorf("cut off behind %d bytes of %d, and nothing is said", n, len(whole))
		}
	}
	for _, n := range []int{last + 512, len(whole)} {
		if _, places, err := scan(t.Context(), whole[:n], nil); err != nil || rows(places) != 2 {
			t.Errorf("%d rows, %v", rows(places), err)
		}
	}
}

func truth(is bool) *pb.Value { return &pb.Value{Kind: &pb.Value_Bool{Bool: is}} }

func whole(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }

// TestRefused says what is wrong with a file, and what to do.
func TestRefused(t *testing.T) {
	gnu := func(files ...file) []byte { return archive(t, stdtar.FormatGNU, files, false) }
	ax, bx, ay := file{name: "a.x", data: "1"}, file{name: "b.x", data: "1"}, file{name: "a.y", data: "1"}
	sparse := gnu(ax)
	sparse[156] = 'S'
	resum(sparse)
	huge := gnu(ax, bx)
	copy(huge[124:136], "\x80\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff")
	resum(huge)
	negative := gnu(ax)
	copy(negative[124:136], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	resum(negative)
	broken := gnu(ax, bx)
	broken[1024+20] ^= 1
	global := archive(t, stdtar.FormatPAX, []file{ax}, false)
	none := map[string]*pb.Value{}
	for _, c := range []struct {
		name    string
		data    []byte
		options map[string]*pb.Value
		want    string
	}{
		{"apart", gnu(ax, bx, ay), none, `byte 2048: sample "a" has members further in front, too`},
		{"far apart", gnu(ax, file{name: "big", data: strings.Repeat("z", 2<<20)}, ay), none, "stand together"},
		{"several tars", append(gnu(ax), gnu(bx)...), none, "these are several tars in one file"},
		{"rubbish behind", append(gnu(ax), bytes.Repeat([]byte("x"), 512)...), none, "this is no header of a tar"},
		{"no end", archive(t, stdtar.FormatGNU, []file{ax}, true), none, "dataset.format.missing_end: true"},
		{"sparse", sparse, none, `member "a.x": it has holes`},
		{"huge", huge, none, "byte 0: the file ends inside of a record"},
		{"negative", negative, none, "the size in a header is no number that can be"},
		{"broken", broken, none, "header, 1024 bytes behind that: this is no header of a tar"},
		{"global", append(globally(t, "path"), global...), none, "a global header says the path"},
		{"empty", nil, none, "the file is empty"},
		{"many members", gnu(ax, ay), map[string]*pb.Value{"max_members": whole(1)}, "dataset.format.max_members"},
		{"long name", gnu(ax), map[string]*pb.Value{"max_name_bytes": whole(2)}, "dataset.format.max_name_bytes"},
		{"many samples", gnu(ax, bx), map[string]*pb.Value{"max_samples": whole(1)}, "dataset.format.max_samples"},
		{"option", gnu(ax), map[string]*pb.Value{"max_members": truth(true)}, "dataset.format.max_members"},
	} {
		if _, _, err := scan(t.Context(), c.data, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// globally is a header that says something of all members behind it.
func globally(t *testing.T, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := stdtar.NewWriter(&out)
	err := w.WriteHeader(&stdtar.Header{Typeflag: stdtar.TypeXGlobalHeader, PAXRecords: map[string]string{name: "b"}})
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// resum sets the sum of a header right.
func resum(header []byte) {
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header[:512] {
		sum += int(b)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// TestTaken takes what others might stumble over.
func TestTaken(t *testing.T) {
	ax, ay := file{name: "a.x", data: "1"}, file{name: "a.y", data: "1"}
	old := archive(t, stdtar.FormatUSTAR, []file{ax, ay}, false)
	for _, at := range []int{0, 1024} { // as before ustar
		clear(old[at+257 : at+512])
		old[at+156] = 0
		resum(old[at:])
	}
	signed := archive(t, stdtar.FormatGNU, []file{{name: "schl\xfcssel.x", data: "1"}}, false)
	sum := 0
	copy(signed[148:156], "        ")
	for _, b := range signed[:512] {
		sum += int(int8(b))
	}
	copy(signed[148:156], fmt.Sprintf("%06o\x00 ", sum))
	end := map[string]*pb.Value{"missing_end": truth(true)}
	for name, c := range map[string]struct {
		data    []byte
		options map[string]*pb.Value
	}{
		"old":            {old, nil},
		"global":         {append(globally(t, "comment"), old...), nil},
		"signed sums":    {signed, nil},
		"no end":         {archive(t, stdtar.FormatGNU, []file{ax, ay}, true), end},
		"much behind":    {append(bytes.Clone(old), make([]byte, 1<<20)...), nil},
		"hidden between": {archive(t, stdtar.FormatGNU, []file{ax, {name: "._a.y", data: "mac"}, ay}, false), nil},
	} {
		if _, places, err := scan(t.Context(), c.data, c.options); err != nil || rows(places) != 1 {
			t.Errorf("%s: %d rows, %v; want 1", name, rows(places), err)
		}
	}
}

// TestLongFront describes a file whose first sample is longer than what is read of a front.
func TestLongFront(t *testing.T) {
	plain := archive(t, stdtar.FormatGNU, []file{
		{name: "a.jpg", data: strings.Repeat("z", 3<<20)},
		{name: "a.json", data: `{"n": 1}`},
		{name: "b.jpg", data: strings.Repeat("z", 3<<20)},
	}, false)
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"plain": plain, "gzip": small.Bytes()} {
		f, _, err := scan(t.Context(), data, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, ok := f.Columns().Column("json.n"); !ok {
			t.Errorf("%s: columns are %v", name, f.Columns().Schema.Columns)
		}
		_, _, err = scan(t.Context(), data, map[string]*pb.Value{"max_record_bytes": whole(1 << 20)})
		if err == nil || !strings.Contains(err.Error(), "dataset.format.max_record_bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSplit takes names apart as WebDataset's base_plus_ext does, but for hidden files in folders.
func TestSplit(t *testing.T) {
	for name, want := range map[string][2]string{
		"a.jpg": {"a", "jpg"}, "a.seg.png": {"a", "seg.png"}, "v1.0/a.jpg": {"v1.0/a", "jpg"}, "./a.b/c.JPG": {"./a.b/c", "JPG"},
		"a": {}, "a.b/c": {}, ".a.jpg": {}, "d/.a.jpg": {}, "d/": {}, "": {}, "a.": {},
		"__meta__": {}, "__meta__/a.jpg": {}, "__a.jpg": {"__a", "jpg"}, "d/__b__.jpg": {"d/__b__", "jpg"}, "____/a.b": {},
	} {
		key, part := tar.Split([]byte(name))
		if string(key) != want[0] || string(part) != want[1] || (key == nil) != (want[0] == "") {
			t.Errorf("%q: %q, %q; want %q", name, key, part, want)
		}
	}
}

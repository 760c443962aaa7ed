package formats_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
)

// TestFilesOfNoFormat are told from those of a format that were cut off, and it is said what they seem to be.
func TestFilesOfNoFormat(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	flipped := recordstest.Gzip([]byte(strings.Repeat(`{"a": 1}`+"\n", 100)))
	flipped[len(flipped)-8] ^= 1 // of the checksum
	for _, c := range []struct {
		name, data, want string
		unclaimed        bool
	}{
		{"000000_0", "ORC" + long + "\x00", "it begins as ORC does, which is not read", true},
		{"000000_0", "SEQ\x06" + long, "SequenceFile of Hadoop", true},
		{"t", strings.Repeat("\x00", 257) + "ustar\x0000", "a tar archive", false},
		{"part-00000.gz", string(recordstest.Gzip([]byte("1,2\n"))), "compressed by gzip, and what it holds is of no format that is known by its front: name it by dataset.format", true},
		{"part-00000.gz", "\x1f\x8b\x00" + long, "gzip: invalid header: the file is damaged", false},
		{"part-00000.gz", string(flipped), "the file is damaged", false},
		{"000.npy", "\x93NUMPY" + long, "say so by dataset.format: tokens", true},
		{"LICENSE", "As is.\n", "`penstock convert`", true},
		{"LICENSE", "As is.\n", "of no format that is read: it ends in", true},
		{"x", "\x00\x01", "another format, or was cut off", true},
		{"000000_0", "PAR1" + long, "begins as Parquet does, but ends in \"xxxx\": it was cut off or damaged; write it again", false},
		{"a.arrow", "ARROW1\x00\x00" + long, "begins as Arrow does", false},
	} {
		one := &filetest.One{URI: "s3://bucket/" + c.name, Data: []byte(c.data)}
		_, err := formats.Load(t.Context(), one, "", one.File(), nil)
		_, unclaimed := errors.AsType[*formats.UnclaimedError](err)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), one.URI) ||
			unclaimed != c.unclaimed || formats.IsForeign(&pb.File{Unknown: true}, err) != c.unclaimed {
			t.Errorf("%s %.10q: %v, unclaimed: %v", c.name, c.data, err, unclaimed)
		}
	}
}

// TestUnknownFilesOfANamedFormat: what a file without an ending holds decides whether it is read as the dataset says,
// and a file that is known is read so whatever it holds.
func TestUnknownFilesOfANamedFormat(t *testing.T) {
	cache := formats.NewCache(1 << 20)
	for _, c := range []struct{ how, data, want string }{
		{"csv", "As is.\n", "of no format that is read"},
		{"csv", "{\"a\": 1}\n", "not CSV, which dataset.format says, but JSON lines"},
		{"jsonl", "{\"a\": 1}\n", ""},
	} {
		one := &filetest.One{URI: "file:///d/LICENSE", Data: []byte(c.data)}
		how := &pb.Format{Name: c.how}
		known := one.File()
		if _, err := cache.Load(t.Context(), one, "", known, how, nil, nil); err != nil {
			t.Errorf("%s of %q, by its name: %v", c.how, c.data, err)
		}
		unknown := one.File()
		unknown.Unknown = true
		_, err := cache.Load(t.Context(), one, "", unknown, how, nil, nil)
		if c.want == "" && err != nil ||
			c.want != "" && (!formats.IsForeign(unknown, err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %q: %v, want %q", c.how, c.data, err, c.want)
		}
	}
}

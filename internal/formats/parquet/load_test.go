package parquet_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/parquet"
)

func load(t *testing.T, data []byte) *parquet.Footer {
	t.Helper()
	m := &filetest.One{URI: "mem://x.parquet", Data: data}
	f, err := formats.Load(t.Context(), m, "", m.File(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.(*parquet.File).Footer
}

func TestLoadRefuses(t *testing.T) {
	good := oneColumn(t, 100)
	damage := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty": {nil, "the file is empty"},
		"short": {[]byte("PAR1PAR1"), "the file has 8 bytes, which is no Parquet: it is damaged"},
		"text": {[]byte("a,b,c\n1,2,3\n4,5,6\n"), `not Parquet: it ends in "5,6\n"; if it is a table of text, ` +
			"say how it is read"},
		"binary":    {bytes.Repeat([]byte{0, 'a'}, 10), `not Parquet: it ends in "\x00a\x00a"`},
		"encrypted": {damage(func(b []byte) []byte { copy(b[len(b)-4:], "PARE"); return b }), "is encrypted"},
		"length": {damage(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[len(b)-8:], uint32(len(b)))
			return b
		}), "the file is damaged"},
		"footer": {damage(func(b []byte) []byte {
			n := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
			clear(b[len(b)-8-n : len(b)-8])
			return b
		}), "no schema"},
		"front cut off": {damage(func(b []byte) []byte {
			n := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
			return b[len(b)-n-12:]
		}), `row group 0: column "v": its bytes 4 to`},
		"name of any bytes": {damage(func(b []byte) []byte {
			n := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
			return bytes.ReplaceAll(b[len(b)-n-12:], []byte("\x01v"), []byte("\x01\xff"))
		}), `row group 0: column "\xff": its bytes 4 to`},
	} {
		t.Run(name, func(t *testing.T) {
			m := &filetest.One{URI: "mem://x.parquet", Data: tc.data}
			_, err := formats.Load(t.Context(), m, "", m.File(), nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), "mem://x.parquet") {
				t.Fatalf("error %v, want one with %q that names the file", err, tc.want)
			}
		})
	}
}

func TestLoadReadsOnceOrTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		data  []byte
		reads int
	}{
		"small": {oneColumn(t, 100), 1},
		"wide":  {wide(t, 3000), 2},
	} {
		m := &filetest.One{URI: "mem://x.parquet", Data: tc.data}
		if _, err := formats.Load(t.Context(), m, "", m.File(), nil); err != nil {
			t.Fatal(err)
		}
		if reads := int(m.Reads.Load()); reads != tc.reads {
			t.Errorf("%s: %d reads, want %d", name, reads, tc.reads)
		}
	}
}

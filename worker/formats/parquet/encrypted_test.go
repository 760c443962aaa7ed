package parquet

import (
	"bytes"
	"encoding/binary"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/keys/keystest"
)

// ring returns keys as a configuration names them.
func ring(t testing.TB, cfg keys.Config) *keys.Ring {
	t.Helper()
	r, err := keys.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func readEncrypted(t testing.TB, data []byte, r *keys.Ring) (*footer.Footer, error) {
	t.Helper()
	n := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	return footer.ReadEncrypted(t.Context(), data[len(data)-8-n:len(data)-8], string(data[len(data)-4:]) == "PARE", r)
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestEncrypted reads files that pyarrow encrypted.
func TestEncrypted(t *testing.T) {
	dir := keystest.Files(t)
	t.Run("rows", func(t *testing.T) { encryptedRows(t, dir) })
	t.Run("missing keys", func(t *testing.T) { missingKeys(t, dir) })
	t.Run("wrong keys and prefixes", func(t *testing.T) { wrongKeys(t, dir) })
	t.Run("tampered", func(t *testing.T) { tampered(t, dir) })
	t.Run("swapped", func(t *testing.T) { swapped(t, dir) })
}

// encryptedRows: the rows are those of the plain file.
func encryptedRows(t *testing.T, dir string) {
	service := httptest.NewServer(keystest.Service())
	defer service.Close()
	t.Setenv("TEST_VAULT_TOKEN", keystest.Token)
	file := keys.Config{File: keystest.KeyFile(t)}
	vault := keys.Config{Vault: &keys.Vault{Address: service.URL, TokenEnv: "TEST_VAULT_TOKEN"}}
	bound := keys.Config{File: file.File, AADPrefix: "prices of May"}

	plain := readFile(t, filepath.Join(dir, "plain.parquet"))
	f, err := readFooter(plain)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int][][]any{}
	for _, skip := range []int{0, 777} {
		if want[skip], err = decodeAll(NewDecoder(sourcesOf(f), testMemory), f, plain, 150, skip); err != nil {
			t.Fatal(err)
		}
	}
	for name, cfg := range map[string]keys.Config{
		"uniform": file, "uniform_plaintext": file, "columns": file, "columns_plaintext": file, "ctr": file,
		"ctr_plaintext": file,
		"single":        file, "wrapped": file, "vault": vault, "vault_single": vault,
		"prefix": file, "prefix_outside": bound, "nameless_plaintext": file,
	} {
		t.Run(name, func(t *testing.T) {
			data := readFile(t, filepath.Join(dir, name+".parquet"))
			f, err := readEncrypted(t, data, ring(t, cfg))
			if err != nil {
				t.Fatal(err)
			}
			sources := sourcesOf(f)
			if len(sources) != 4 || len(f.RowGroups) != 3 {
				t.Fatalf("%d columns, %d row groups", len(sources), len(f.RowGroups))
			}
			for skip, want := range want {
				got, err := decodeAll(NewDecoder(sources, testMemory), f, data, 150, skip)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("the rows behind %d differ from those of the plain file", skip)
				}
			}
			how, err := explain(f, 0, sources)
			if err != nil {
				t.Fatal(err)
			}
			plain := 0 // columns
			for _, h := range how {
				if !strings.HasSuffix(h, ", encrypted") {
					plain++
				}
			}
			if byColumn := f.RowGroups[0].Chunks[0].Crypt == nil; plain > 1 || (plain == 1) != byColumn {
				t.Errorf("the plan shows %d columns as not encrypted: %v", plain, how)
			}
			if f.RowGroups[0].Chunks[0].Stats.Min == nil {
				t.Error("the statistics were not read")
			}
		})
	}
}

// missingKeys: what needs no missing key can be read; the rest says which key is missing.
func missingKeys(t *testing.T, dir string) {
	for name, want := range map[string]string{"columns": "id text", "columns_plaintext": "id text", "ctr": "id text"} {
		data := readFile(t, filepath.Join(dir, name+".parquet"))
		f, err := readEncrypted(t, data, ring(t, keys.Config{File: keystest.KeyFile(t, "footer", "texts")}))
		if err != nil {
			t.Fatal(err)
		}
		var can []string
		for _, s := range sourcesOf(f) {
			can = append(can, s.GetName())
		}
		if got := strings.Join(can, " "); got != want {
			t.Errorf("%s: columns %s can be read, want %s", name, got, want)
		}
		if _, err := decodeAll(NewDecoder(sourcesOf(f), testMemory), f, data, 100, 0); err != nil {
			t.Error(err)
		}
		full, err := readEncrypted(t, data, ring(t, keys.Config{File: keystest.KeyFile(t)}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = leavesOf(f, sourcesOf(full))
		if err == nil || !strings.Contains(err.Error(), `column price is encrypted`) ||
			!strings.Contains(err.Error(), `no key "prices"`) || !storage.IsOurs(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ok := range map[string]bool{"columns": false, "uniform": false, "columns_plaintext": true} {
		f, err := readEncrypted(t, readFile(t, filepath.Join(dir, name+".parquet")), nil)
		if ok != (err == nil) || err != nil && (!strings.Contains(err.Error(), "no keys") || !storage.IsOurs(err)) {
			t.Errorf("%s without keys: %v", name, err)
		}
		if ok && len(sourcesOf(f)) != 1 {
			t.Errorf("%s without keys: %d columns can be read", name, len(sourcesOf(f)))
		}
	}
}

// wrongKeys: nothing is read by a wrong key, nor of a file that is bound to something else.
func wrongKeys(t *testing.T, dir string) {
	wrong := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(wrong, []byte("default: AAAAAAAAAAAAAAAAAAAAAA==\nfooter: AAAAAAAAAAAAAAAAAAAAAA==\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	good := keystest.KeyFile(t)
	for _, c := range []struct {
		file string
		cfg  keys.Config
		want string
	}{
		{"prefix", keys.Config{File: wrong}, "the key is wrong"},
		{"nameless_plaintext", keys.Config{File: wrong}, "its signature does not fit"},
		{"uniform", keys.Config{File: wrong}, `master key "footer"`},
		{"prefix", keys.Config{File: good, AADPrefix: "prices of June"}, `bound to the AAD prefix "prices of May"`},
		{"prefix_outside", keys.Config{File: good, AADPrefix: "prices of June"}, "it does not decrypt"},
		{"prefix_outside", keys.Config{File: good}, "name it as aad_prefix"},
		{"uniform", keys.Config{File: good, AADPrefix: "x"}, "AAD prefix"},
	} {
		_, err := readEncrypted(t, readFile(t, filepath.Join(dir, c.file+".parquet")), ring(t, c.cfg))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.file, err, c.want)
		}
	}
}

// tampered: a bit that flips anywhere in an encrypted chunk is found and named. Without tags (CTR) the page's
// checksum finds it.
func tampered(t *testing.T, dir string) {
	for _, name := range []string{"uniform", "columns_plaintext", "ctr", "wrapped"} {
		data := readFile(t, filepath.Join(dir, name+".parquet"))
		f, err := readEncrypted(t, data, ring(t, keys.Config{File: keystest.KeyFile(t)}))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sourcesOf(f)[1:] {
			d := NewDecoder(sourcesOf(f)[1:2], testMemory)
			d.sources[0] = source
			leaves, err := leavesOf(f, d.sources)
			if err != nil {
				t.Fatal(err)
			}
			c := f.RowGroups[1].Chunks[leaves[0]]
			for at := c.Offset; at < c.Offset+c.Length; at += max(1, c.Length/150) {
				changed := bytes.Clone(data)
				changed[at] ^= 1 << (at & 7)
				_, err := decodeAll(d, f, changed, 150, 0)
				where := "row group 1 column " + nameOf(&f.Leaves[leaves[0]]) + ": page at byte "
				if err == nil || !strings.Contains(err.Error(), where) || strings.Contains(err.Error(), "panicked") {
					t.Fatalf("%s: byte %d of %d to %d: %v", name, at, c.Offset, c.Offset+c.Length, err)
				}
			}
		}
	}
}

// swapped: a page is bound to its place.
func swapped(t *testing.T, dir string) {
	data := readFile(t, filepath.Join(dir, "uniform.parquet"))
	f, err := readEncrypted(t, data, ring(t, keys.Config{File: keystest.KeyFile(t)}))
	if err != nil {
		t.Fatal(err)
	}
	a, b := f.RowGroups[0].Chunks[0], f.RowGroups[1].Chunks[0]
	n := min(a.Length, b.Length)
	copy(data[b.Offset:b.Offset+n], data[a.Offset:a.Offset+n])
	_, err = decodeAll(NewDecoder(sourcesOf(f)[:1], testMemory), f, data, 150, 0)
	if err == nil || !strings.Contains(err.Error(), "row group 1 column id: page at byte") ||
		!strings.Contains(err.Error(), "it does not decrypt") {
		t.Errorf("chunk of another row group: %v", err)
	}
}

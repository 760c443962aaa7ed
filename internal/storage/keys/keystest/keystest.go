// Package keystest makes encrypted Parquet files by pyarrow and holds the keys to them, in a file and in a service, for
// tests.
package keystest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	_ "embed" // for the script
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed write.py
var script string

// Token is what the service wants to be shown.
const Token = "t0ken"

// masters are the master keys by name, and the key of files that name none.
func masters() map[string]string {
	return map[string]string{
		"footer": "the footer's key", "prices": "key of the prices", "texts": "keys of the texts, AES-192",
		"default": "0123456789abcdef",
	}
}

// KeyFile writes a file with the named keys (footer, prices, texts, default; all if none is named), and returns its
// path.
func KeyFile(t testing.TB, names ...string) string {
	t.Helper()
	all := map[string]string{}
	for name, key := range masters() {
		if len(names) == 0 {
			all[name] = base64.StdEncoding.EncodeToString(sized(key))
		}
		for _, n := range names {
			if n == name {
				all[name] = base64.StdEncoding.EncodeToString(sized(key))
			}
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sized cuts a key to a length that AES has.
func sized(key string) []byte {
	for _, n := range []int{24, 16} {
		if len(key) >= n {
			return []byte(key[:n])
		}
	}
	panic("keystest: short key " + key)
}

// Service answers as Vault's transit engine does, at /v1/transit; at /v1/local and /v1/wrapped it wraps keys as clients
// without a service do.
func Service() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/{way}/{do}/{key}", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Plaintext, Ciphertext string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		master, ok := masters()[r.PathValue("key")]
		if r.Header.Get("X-Vault-Token") != Token || !ok {
			http.Error(w, "permission denied", http.StatusForbidden)
			return
		}
		var out map[string]string
		var err error
		if r.PathValue("do") == "encrypt" {
			var text string
			text, err = wrap(r.PathValue("way"), r.PathValue("key"), sized(master), in.Plaintext)
			out = map[string]string{"ciphertext": text}
		} else {
			var text string
			text, err = unwrap(sized(master), in.Ciphertext)
			out = map[string]string{"plaintext": text}
		}
		if err != nil {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": out})
	})
	return mux
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

const vaultMark = "vault:v1:"

func wrap(way, name string, master []byte, plaintext string) (string, error) {
	key, err := base64.StdEncoding.DecodeString(plaintext)
	if err != nil {
		return "", err
	}
	a, err := gcm(master)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, a.NonceSize())
	_, _ = rand.Read(nonce)
	aad := []byte(name)
	if way == "transit" {
		aad = nil
	}
	text := base64.StdEncoding.EncodeToString(a.Seal(nonce, nonce, key, aad))
	switch way {
	case "transit":
		return vaultMark + text, nil
	case "wrapped":
		return fmt.Sprintf(`{"masterKeyVersion":"NO_VERSION","encryptedKey":%q}`, text), nil
	}
	return text, nil
}

func unwrap(master []byte, ciphertext string) (string, error) {
	text, ok := strings.CutPrefix(ciphertext, vaultMark)
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !ok || len(sealed) < 12 {
		return "", fmt.Errorf("not a ciphertext")
	}
	a, err := gcm(master)
	if err != nil {
		return "", err
	}
	key, err := a.Open(nil, sealed[:12], sealed[12:], nil)
	return base64.StdEncoding.EncodeToString(key), err
}

// Files has pyarrow write the files of write.py and returns their folder.
func Files(t testing.TB) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c",
		"import pyarrow.parquet.encryption").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("python3 with pyarrow is missing: %s", out)
		}
		t.Skip("python3 with pyarrow is missing: pip install pyarrow")
	}
	service := httptest.NewServer(Service())
	defer service.Close()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", script, dir,
		service.URL).CombinedOutput(); err != nil {
		t.Fatalf("pyarrow: %v\n%s", err, out)
	}
	return dir
}

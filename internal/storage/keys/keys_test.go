package keys_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/keys/keystest"
)

func newRing(t *testing.T, cfg keys.Config) *keys.Ring {
	t.Helper()
	r, err := keys.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

const material = `{"keyMaterialType":"PKMT1","internalStorage":true,"isFooterKey":true,"kmsInstanceID":"DEFAULT",` +
	`"kmsInstanceURL":"https://elsewhere","masterKeyID":"%s","wrappedDEK":"%s","doubleWrapping":false}`

func TestMistakesAreNamedAndShowNoSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte("short: aHVudGVyMg==\nbad: hunter2!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("a: [hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for metadata, want := range map[string]string{
		"gone":                        `has no key "gone": add it there`,
		"short":                       "7 bytes; want 16, 24 or 32",
		"bad":                         `key "bad"`,
		`{"keyMaterialType":"PKMT9"}`: `"PKMT9"`,
		`{"keyMaterialType":"PKMT1","internalStorage":false,"keyReference":"k"}`: "internal_key_material",
		`{"keyMaterialType":"PKMT1","internalStorage":true}`:                     "not complete",
		fmt.Sprintf(material, "gone", "aHVudGVyMg=="):                            `no key "gone"`,
		fmt.Sprintf(material, "short", "aHVudGVyMg=="):                           `master key "short"`,
	} {
		_, err := newRing(t, keys.Config{File: path}).Key(t.Context(), []byte(metadata))
		if err == nil || !strings.Contains(err.Error(), want) || !storage.IsOurs(err) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", metadata, err, want)
		}
	}
	_, err := newRing(t, keys.Config{File: broken}).Key(t.Context(), []byte("a"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("broken file: %v", err)
	}
	var none *keys.Ring
	if _, err := none.Key(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "--storage-config") ||
		!storage.IsOurs(err) {
		t.Errorf("no ring: %v", err)
	}
}

func TestConfigurationMistakes(t *testing.T) {
	for want, cfg := range map[string]keys.Config{
		"want file or vault": {},
		"not from both":      {File: "x", Vault: &keys.Vault{}},
		"must be https":      {Vault: &keys.Vault{Address: "http://vault.example:8200", TokenEnv: "X"}},
		"not a URL":          {Vault: &keys.Vault{Address: "https://me:hunter2@vault.example", TokenEnv: "X"}},
		"token_file, or":     {Vault: &keys.Vault{Address: "https://vault.example"}},
		"no certificates": {Vault: &keys.Vault{
			Address: "https://vault.example", TokenEnv: "X",
			CAFile: "keys_test.go",
		}},
	} {
		if _, err := keys.New(cfg); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A key that was added to the file is found.
func TestKeysMayBeAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	r := newRing(t, keys.Config{File: path})
	if _, err := r.Key(t.Context(), []byte("a")); err == nil {
		t.Fatal("a key of a file that is not there")
	}
	if err := os.WriteFile(path, []byte("a: MDEyMzQ1Njc4OWFiY2RlZg==\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := r.Key(t.Context(), []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Key(t.Context(), []byte("a")); err != nil || again != first {
		t.Errorf("%v, %v", again, err)
	}
}

// vaultAt returns a ring of keys from a TLS service.
func vaultAt(t *testing.T, h http.Handler, token string, timeout time.Duration) *keys.Ring {
	t.Helper()
	service := httptest.NewTLSServer(h)
	t.Cleanup(service.Close)
	dir := t.TempDir()
	ca, tokenFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: service.Certificate().Raw})
	for path, data := range map[string][]byte{ca: block, tokenFile: []byte(token + "\n")} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return newRing(t, keys.Config{Vault: &keys.Vault{
		Address: service.URL, TokenFile: tokenFile, CAFile: ca,
		Timeout: timeout,
	}})
}

func TestVault(t *testing.T) {
	ask := []byte(fmt.Sprintf(material, "prices", "vault:v1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="))
	calls := 0
	answer := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			if r.URL.Path != "/v1/transit/decrypt/prices" || r.Header.Get("X-Vault-Token") != keystest.Token {
				t.Errorf("%s with token %q", r.URL, r.Header.Get("X-Vault-Token"))
			}
			w.Header().Set("Location", "https://elsewhere/")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	const key = `{"data":{"plaintext":"MDEyMzQ1Njc4OWFiY2RlZg=="}}`
	r := vaultAt(t, answer(200, key), keystest.Token, 0)
	for range 3 {
		if _, err := r.Key(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls for one key", calls)
	}
	for status, ours := range map[int]bool{403: true, 404: true, 307: true, 503: false, 429: false} {
		_, err := vaultAt(t, answer(status, key), keystest.Token, 0).Key(t.Context(), ask)
		if err == nil || storage.IsOurs(err) != ours || storage.IsTransient(err) == ours ||
			!strings.Contains(err.Error(), `master key "prices"`) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	for _, body := range []string{"", "{}", `{"data":{"plaintext":"!"}}`} {
		if _, err := vaultAt(t, answer(200, body), keystest.Token, 0).Key(t.Context(), ask); err == nil {
			t.Errorf("answer %q was taken", body)
		}
	}
	if _, err := r.Key(t.Context(), []byte("name")); err == nil ||
		!strings.Contains(err.Error(), "does not give away") {
		t.Errorf("a named key: %v", err)
	}
}

// A service that hangs costs no more than the time that it is given.
func TestVaultThatHangs(t *testing.T) {
	ask := []byte(fmt.Sprintf(material, "prices", "vault:v1:AAAA"))
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client left
		<-r.Context().Done()
	})
	_, err := vaultAt(t, hang, keystest.Token, 50*time.Millisecond).Key(t.Context(), ask)
	if err == nil || !storage.IsTransient(err) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := vaultAt(t, hang, keystest.Token, 0).Key(ctx, ask); err == nil || storage.IsOurs(err) {
		t.Errorf("cancelled: %v", err)
	}
}

package gs_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/gs"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// secret is in all tokens, and in nothing that is shown.
const secret = "ya29.s3cr3t"

// google stands in for the service and for what gives tokens: of service accounts
// (https://developers.google.com/identity/protocols/oauth2/service-account), of pods and machines of other clouds
// (https://cloud.google.com/iam/docs/reference/sts/rest), and of machines
// (https://cloud.google.com/compute/docs/metadata). The nth token ends with n.
type google struct {
	given   atomic.Int64
	good    int64 // the number of the token that is taken
	refusal func(w http.ResponseWriter) bool
}

func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/storage/"):
		g.read(w, r)
		return
	case r.URL.Path == "/token" && !strings.Contains(r.FormValue("assertion"), "."),
		r.URL.Path == "/sts" && r.FormValue("subject_token") != "the pod's",
		strings.HasPrefix(r.URL.Path, "/computeMetadata/") && r.Header.Get("Metadata-Flavor") != "Google":
		http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/computeMetadata/") && !strings.HasSuffix(r.URL.Path, "/token") {
		return
	}
	n := g.given.Add(1)
	if g.refusal != nil && g.refusal(w) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Metadata-Flavor", "Google")
	fmt.Fprintf(w, `{"access_token":"%s%d","expires_in":3599,"token_type":"Bearer",`+
		`"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, secret, n)
}

func (g *google) read(w http.ResponseWriter, r *http.Request) {
	want := fmt.Sprintf("Bearer %s%d", secret, g.good)
	switch got := r.Header.Get("Authorization"); {
	case got != want:
		http.Error(w, "Invalid Credentials", http.StatusUnauthorized)
	case r.URL.Query().Get("userProject") != "payer":
		refuse(w, 400, "required", "Bucket is a requester pays bucket but no user project provided.")
	default:
		answer(w, generation, "23456")
	}
}

// serviceAccount writes a key whose tokens come from a URL.
func serviceAccount(t *testing.T, tokens string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return writeJSON(t, map[string]any{
		"type": "service_account", "client_email": "reader@test.iam.gserviceaccount.com", "private_key_id": "1",
		"private_key": string(text), "token_uri": tokens,
	})
}

func writeJSON(t *testing.T, of map[string]any) string {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// noCredentials hides those of whoever runs the tests.
func noCredentials(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
}

func read(t *testing.T, p gs.Profile) error {
	t.Helper()
	buf := make([]byte, 5)
	err := stubStore(t, p).ReadAt(t.Context(), "", stubFile, buf, 2)
	if err == nil && string(buf) != "23456" {
		t.Errorf("read %q", buf)
	}
	if err != nil && (strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), stubFile.GetUri())) {
		t.Errorf("the error shows a token, or no file: %v", err)
	}
	return err
}

// Each kind of credentials gives tokens; one that the service refuses is replaced once.
func TestCredentials(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, url string, p *gs.Profile){
		"service account": func(t *testing.T, url string, p *gs.Profile) {
			p.CredentialsFile = serviceAccount(t, url+"/token")
		},
		"service account by default": func(t *testing.T, url string, _ *gs.Profile) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", serviceAccount(t, url+"/token"))
		},
		"workload identity federation": func(t *testing.T, url string, _ *gs.Profile) {
			subject := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(subject, []byte("the pod's"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", writeJSON(t, map[string]any{
				"type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/" +
					"workloadIdentityPools/pool/providers/provider",
				"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": url + "/sts",
				"credential_source": map[string]any{"file": subject},
			}))
		},
		"machine": func(t *testing.T, url string, _ *gs.Profile) {
			t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(url, "http://"))
		},
	} {
		for good := range int64(3) {
			t.Run(fmt.Sprintf("%s, token %d", name, good+1), func(t *testing.T) {
				noCredentials(t)
				g := &google{good: good + 1}
				p := gs.Profile{Endpoint: serve(t, g), UserProject: "payer"}
				set(t, p.Endpoint, &p)
				err := read(t, p)
				switch {
				case good < 2 && (err != nil || g.given.Load() != good+1):
					t.Errorf("%d tokens, %v", g.given.Load(), err)
				case good == 2 && (!errors.Is(err, object.ErrDenied) || storage.IsTransient(err) || !storage.IsOurs(err) ||
					g.given.Load() != 2):
					t.Errorf("%d tokens, error %v; want two, and access denied", g.given.Load(), err)
				}
			})
		}
	}
}

// What gives tokens may fail for a while, or for good.
func TestNoToken(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse func(w http.ResponseWriter)
		times  int64
		want   string // of the error; "" for none
	}{
		"busy":      {func(w http.ResponseWriter) { http.Error(w, secret, http.StatusServiceUnavailable) }, 2, ""},
		"no more":   {func(w http.ResponseWriter) { http.Error(w, secret, http.StatusServiceUnavailable) }, 9, "after 3 attempts: no token"},
		"no answer": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 1, ""},
		"disabled": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"Account is disabled","echo":%q}`, secret)
		}, 9, `{"error":"invalid_grant","error_description":"Account is disabled"}`},
		"redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, 9, "see whether its account and key are there"},
	} {
		t.Run(name, func(t *testing.T) {
			noCredentials(t)
			g := &google{good: tc.times + 1}
			g.refusal = func(w http.ResponseWriter) bool {
				if g.given.Load() > tc.times {
					return false
				}
				tc.refuse(w)
				return true
			}
			p := gs.Profile{Endpoint: serve(t, g), UserProject: "payer"}
			p.CredentialsFile = serviceAccount(t, p.Endpoint+"/token")
			err := read(t, p)
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) ||
				!storage.IsOurs(err)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// Mistakes of a profile are told at the first attempt, and are not about the dataset's file.
func TestWrongCredentials(t *testing.T) {
	noCredentials(t)
	g := &google{good: 1}
	url := serve(t, g)
	user := writeJSON(t, map[string]any{"type": "authorized_user", "refresh_token": secret})
	for name, tc := range map[string]struct {
		profile gs.Profile
		env     string
		want    string
	}{
		"missing":   {gs.Profile{CredentialsFile: "/no/such.json"}, "", "credentials_file: open /no/such.json"},
		"of a user": {gs.Profile{CredentialsFile: user}, "", "is no key of a service account in JSON"},
		"default":   {gs.Profile{}, "/no/such.json", "no Google credentials found; set GOOGLE_APPLICATION_CREDENTIALS"},
		"nobody pays": {
			gs.Profile{CredentialsFile: serviceAccount(t, url+"/token")}, "", "set the storage profile's user_project",
		},
		"none": {gs.Profile{Credentials: "anonymous"}, "", "access denied; use a storage profile with credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", tc.env)
			g.given.Store(0)
			tc.profile.Endpoint = url
			err := read(t, tc.profile)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "attempts") ||
				!storage.IsOurs(err) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

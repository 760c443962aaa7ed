package s3_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/internal/storage"
)

const etag = "0123456789abcdef"

var stubFile = &pb.File{Uri: "s3://bucket/x.parquet", Size: 10, Etag: etag}

// answer writes a range of an object as S3 does.
func answer(w http.ResponseWriter, tag, body string) {
	w.Header().Set("ETag", `"`+tag+`"`)
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	w.Header().Set("Content-Range", "bytes 2-6/10")
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write([]byte(body)) // the client may be gone
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", code)
}

func stubStore(t *testing.T, endpoint string) *storage.Store {
	return newStore(t, storage.Config{
		Profiles: map[string]storage.Profile{"default": {Endpoint: endpoint, Region: "r", Credentials: "anonymous"}},
		Retry:    storage.Retry{Attempts: 3, Delay: time.Millisecond, AttemptTimeout: 100 * time.Millisecond},
	})
}

func TestFaults(t *testing.T) {
	errAny := errors.New("any")
	for name, tc := range map[string]struct {
		first    http.HandlerFunc // answers the first request; later ones succeed
		want     error            // nil: none; errAny: any
		requests int64
	}{
		"busy":      {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "SlowDown") }, nil, 2},
		"throttled": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 400, "RequestTimeout") }, nil, 2},
		"expired":   {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 400, "ExpiredToken") }, nil, 2},
		"internal":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, nil, 2},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			answer(w, etag, "23")
			panic(http.ErrAbortHandler)
		}, nil, 2},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 2},
		"hangs":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, 2},
		"changed":   {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 412, "PreconditionFailed") }, storage.ErrChanged, 1},
		"no match":  {func(w http.ResponseWriter, _ *http.Request) { answer(w, "other", "23456") }, storage.ErrChanged, 1},
		"shorter":   {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 416, "InvalidRange") }, storage.ErrChanged, 1},
		"gone":      {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "NoSuchKey") }, fs.ErrNotExist, 1},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 403, "AccessDenied") }, errAny, 1},
		"no ranges": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", etag)
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			fmt.Fprint(w, "0123456789")
		}, errAny, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			s := stubStore(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("If-Match"); got != `"`+etag+`"` {
					t.Errorf("If-Match %s", got)
				}
				if got := r.Header.Get("Range"); got != "bytes=2-6" {
					t.Errorf("Range %s", got)
				}
				if requests.Add(1) == 1 {
					tc.first(w, r)
					return
				}
				answer(w, etag, "23456")
			})))
			buf := make([]byte, 5)
			err := s.ReadAt(t.Context(), "", stubFile, buf, 2)
			switch {
			case tc.want == nil && (err != nil || string(buf) != "23456"):
				t.Errorf("read %q, %v", buf, err)
			case tc.want != nil && (err == nil || !strings.Contains(err.Error(), stubFile.Uri)):
				t.Errorf("error %v, want one that names the file", err)
			case !errors.Is(tc.want, errAny) && !errors.Is(err, tc.want):
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if n := requests.Load(); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
		})
	}
}

// A hung service does not hold a caller that has given up.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newStore(t, storage.Config{Profiles: map[string]storage.Profile{
		"default": {Region: "r", Credentials: "anonymous", Endpoint: serve(t, http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				<-r.Context().Done()
			}))},
	}})
	if err := s.ReadAt(ctx, "", stubFile, make([]byte, 5), 2); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestPrivateCA(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, etag, "23456") }))
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	profile := storage.Profile{Endpoint: server.URL, Region: "r", Credentials: "anonymous"}
	with := profile
	with.CAFile = ca
	missing := profile
	missing.CAFile = ca + ".missing"
	s := newStore(t, storage.Config{Profiles: map[string]storage.Profile{"with": with, "without": profile, "missing": missing}})
	buf := make([]byte, 5)
	if err := s.ReadAt(t.Context(), "with", stubFile, buf, 2); err != nil {
		t.Error(err)
	}
	other, err := os.ReadFile(rpctest.NewAuthority(t).CA)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range [][]byte{other, pem.EncodeToMemory(block), append(other, pem.EncodeToMemory(block)...)} { // the authority is replaced
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
		server.CloseClientConnections()
		if err := s.ReadAt(t.Context(), "with", stubFile, buf, 2); (err != nil) != (i == 0) {
			t.Errorf("the authorities of version %d: %v", i, err)
		}
	}
	for profile, want := range map[string]string{"without": "set the storage profile's ca_file", "missing": "ca.pem.missing"} {
		if err := s.ReadAt(t.Context(), profile, stubFile, buf, 2); err == nil || !strings.Contains(err.Error(), want) || !storage.IsOurs(err) {
			t.Errorf("%s: error %v, of this process: %v; want one with %q", profile, err, storage.IsOurs(err), want)
		}
	}
}

func TestNoCredentials(t *testing.T) {
	for _, key := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		t.Setenv(key, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, etag, "23456") }))
	s := newStore(t, storage.Config{Profiles: map[string]storage.Profile{
		"default": {Endpoint: url, Region: "r"},
		"unset":   {Endpoint: url, AccessKeyEnv: "NO_SUCH_KEY", SecretKeyEnv: "NO_SUCH_SECRET"},
	}})
	for profile, want := range map[string]string{"": "no AWS credentials found", "unset": "NO_SUCH_"} {
		err := s.ReadAt(t.Context(), profile, stubFile, make([]byte, 5), 2)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "attempts") {
			t.Errorf("%q: error %v, want one with %q at the first attempt", profile, err, want)
		}
		if !storage.IsOurs(err) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: error %v is taken for one of the dataset's file", profile, err)
		}
	}
}

// Credentials of a role are fetched, and fetched again once they have expired.
func TestRoleIsRenewed(t *testing.T) {
	var fetched atomic.Int64
	keys := make(chan string, 2)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/role" {
			fmt.Fprintf(w, `{"AccessKeyId":"KEY-%d","SecretAccessKey":"s","Token":"t","Expiration":"2006-01-02T15:04:05Z"}`,
				fetched.Add(1))
			return
		}
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ := strings.Cut(rest, "/")
		keys <- key
		answer(w, etag, "23456")
	}))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url+"/role")
	s := newStore(t, storage.Config{Profiles: map[string]storage.Profile{"default": {Endpoint: url, Region: "r"}}})
	for _, want := range []string{"KEY-1", "KEY-2"} {
		if err := s.ReadAt(t.Context(), "", stubFile, make([]byte, 5), 2); err != nil {
			t.Fatal(err)
		}
		if got := <-keys; got != want {
			t.Errorf("a request was signed with %s, want %s", got, want)
		}
	}
}

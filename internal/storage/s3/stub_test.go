package s3_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
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
	return storagetest.New(t, storage.Config{
		Profiles: map[string]storage.Profile{"default": &s3.Profile{
			Endpoint: endpoint, Region: "r",
			Credentials: "anonymous",
		}},
		// minio-go pauses for up to 200 ms
		Retry: storage.Retry{Attempts: 3, Delay: time.Millisecond, AttemptTimeout: 500 * time.Millisecond},
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
		// nobody renews it
		"expired":  {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 400, "ExpiredToken") }, errAny, 1},
		"internal": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, nil, 2},
		"unknown":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(524) }, nil, 2},
		"hung up":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, nil, 2},
		"lacking":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(501) }, errAny, 1},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			answer(w, etag, "23")
			panic(http.ErrAbortHandler)
		}, nil, 2},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 2},
		"hangs":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, 2},
		"changed": {
			func(w http.ResponseWriter, _ *http.Request) { refuse(w, 412, "PreconditionFailed") },
			storage.ErrChanged, 1,
		},
		"no match": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, "other", "23456") }, storage.ErrChanged,
			1,
		},
		"shorter": {
			func(w http.ResponseWriter, _ *http.Request) { refuse(w, 416, "InvalidRange") },
			storage.ErrChanged, 1,
		},
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
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
		"default": &s3.Profile{Region: "r", Credentials: "anonymous", Endpoint: serve(t, http.HandlerFunc(
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
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, etag, "23456") }))
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	profile := s3.Profile{Endpoint: server.URL, Region: "r", Credentials: "anonymous"}
	with := profile
	with.CAFile = ca
	missing := profile
	missing.CAFile = ca + ".missing"
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
		"with": &with, "without": &profile,
		"missing": &missing,
	}})
	buf := make([]byte, 5)
	if err := s.ReadAt(t.Context(), "with", stubFile, buf, 2); err != nil {
		t.Error(err)
	}
	other, err := os.ReadFile(rpctest.NewAuthority(t).CA)
	if err != nil {
		t.Fatal(err)
	}
	// the authority is replaced
	for i, text := range [][]byte{other, pem.EncodeToMemory(block), append(other, pem.EncodeToMemory(block)...)} {
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
		server.CloseClientConnections()
		if err := s.ReadAt(t.Context(), "with", stubFile, buf, 2); (err != nil) != (i == 0) {
			t.Errorf("the authorities of version %d: %v", i, err)
		}
	}
	for profile, want := range map[string]string{
		"without": "set the storage profile's ca_file",
		"missing": "ca.pem.missing",
	} {
		if err := s.ReadAt(t.Context(), profile, stubFile, buf, 2); err == nil ||
			!strings.Contains(err.Error(), want) || !storage.IsOurs(err) {
			t.Errorf("%s: error %v, of this process: %v; want one with %q", profile, err, storage.IsOurs(err), want)
		}
	}
}

func TestNoCredentials(t *testing.T) {
	withoutCredentials(t)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, etag, "23456") }))
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
		"default": &s3.Profile{Endpoint: url, Region: "r"},
		"unset":   &s3.Profile{Endpoint: url, AccessKeyEnv: "NO_SUCH_KEY", SecretKeyEnv: "NO_SUCH_SECRET"},
	}})
	for profile, want := range map[string]string{"": "no AWS credentials found", "unset": "_key_env names is not set"} {
		err := s.ReadAt(t.Context(), profile, stubFile, make([]byte, 5), 2)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "attempts") {
			t.Errorf("%q: error %v, want one with %q at the first attempt", profile, err, want)
		}
		if !storage.IsOurs(err) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: error %v is taken for one of the dataset's file", profile, err)
		}
	}
}

// Mistakes that time does not mend are reported at once.
func TestMistakes(t *testing.T) {
	page := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><html><head><meta charset="utf-8"></head><body>Sign in</body></html>`)
	}))
	for name, tc := range map[string]struct{ endpoint, want string }{
		"http": {
			strings.Replace(page, "http:", "https:", 1),
			"check whether the server speaks http or https",
		},
		"no S3": {page, "XML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stubStore(t, tc.endpoint).List(t.Context(), "", []string{"s3://bucket/data/"})
			if err == nil || storage.IsTransient(err) || strings.Contains(err.Error(), "attempts") ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, transient: %v; want one for good with %q", err, storage.IsTransient(err), tc.want)
			}
		})
	}
}

const listing = "<ListBucketResult><Contents><Key>data/x.parquet</Key><ETag>e</ETag><Size>1</Size></Contents></ListBucketResult>"

// A listing that is cut is tried again, however the service says where it ends.
func TestListingIsCut(t *testing.T) {
	for name, header := range map[string]http.Header{
		"chunked":     {},
		"counted":     {"Content-Length": {fmt.Sprint(len(listing))}},
		"until close": {"Transfer-Encoding": {"identity"}},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			s := stubStore(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if requests.Add(1) > 1 {
					fmt.Fprint(w, listing)
					return
				}
				maps.Copy(w.Header(), header)
				fmt.Fprint(w, listing[:len(listing)/2])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})))
			// the last looks for an Iceberg table's metadata
			if files, err := s.List(t.Context(), "", []string{"s3://bucket/data/"}); err != nil || len(files) != 1 ||
				requests.Load() != 3 {
				t.Errorf("listed %v, %v, by %d requests", files, err, requests.Load())
			}
		})
	}
}

// Who may read below a prefix only is denied what is no file, such as a directory.
func TestDirectoryOfPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		list http.HandlerFunc
		want string // of the error; "" for none
	}{
		"found": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, listing)
		}, ""},
		"nothing": {func(w http.ResponseWriter,
			_ *http.Request,
		) {
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
		}, "access denied"},
		"denied": {
			func(w http.ResponseWriter, _ *http.Request) { refuse(w, 403, "SignatureDoesNotMatch") },
			"and as a directory: m",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stubStore(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				tc.list(w, r)
			})))
			files, err := s.List(t.Context(), "", []string{"s3://bucket/data"})
			switch {
			case tc.want == "" && (err != nil || len(files) != 1):
				t.Errorf("listed %v, %v", files, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), "access denied")):
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// Readers pay for each kind of request, if they are to.
func TestRequestPayer(t *testing.T) {
	t.Setenv("KEY", "k")
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Request-Payer") != "requester" ||
			!strings.Contains(r.Header.Get("Authorization"), "x-amz-request-payer") {
			refuse(w, 403, "AccessDenied")
		} else if r.URL.Query().Has("list-type") {
			fmt.Fprint(w, listing)
		} else {
			answer(w, etag, "23456")
		}
	}))
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
		"default": &s3.Profile{
			Endpoint: url, Region: "r", AccessKeyEnv: "KEY", SecretKeyEnv: "KEY",
			RequestPayer: "requester",
		},
	}})
	if files, err := s.List(t.Context(), "", []string{stubFile.GetUri(), "s3://bucket/data/"}); err != nil ||
		len(files) != 2 {
		t.Errorf("listed %v, %v", files, err)
	}
	if err := s.ReadAt(t.Context(), "", stubFile, make([]byte, 5), 2); err != nil {
		t.Error(err)
	}
}

// withoutCredentials hides those of whoever runs the tests.
func withoutCredentials(t *testing.T) {
	t.Helper()
	for _, key := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE",
		"AWS_CONFIG_FILE",
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		t.Setenv(key, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// A credential_process that does not say when its credentials end is not started for each request.
func TestCredentialProcess(t *testing.T) {
	withoutCredentials(t)
	dir := t.TempDir()
	script := "echo started >> " + dir + "/starts\n" +
		`echo '{"Version": 1, "AccessKeyId": "KEY", "SecretAccessKey": "s"}'` + "\n"
	for name, text := range map[string]string{"process": script, "config": "[profile lab]\ncredential_process = sh " +
		dir + "/process\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=KEY/") {
			refuse(w, 403, "AccessDenied")
			return
		}
		answer(w, etag, "23456")
	}))
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &s3.Profile{
		Endpoint: url,
		Region:   "r", AWSProfile: "lab",
	}}})
	for range 3 {
		if err := s.ReadAt(t.Context(), "", stubFile, make([]byte, 5), 2); err != nil {
			t.Fatal(err)
		}
	}
	if starts, err := os.ReadFile(filepath.Join(dir, "starts")); err != nil || string(starts) != "started\n" {
		t.Errorf("starts of the process: %q, %v", starts, err)
	}
}

// Expired credentials are renewed by those who can; others are told. A HEAD that says neither is followed by a GET.
func TestExpired(t *testing.T) {
	withoutCredentials(t)
	var fetched atomic.Int64
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/role":
			fmt.Fprintf(w, `{"AccessKeyId":"KEY-%d","SecretAccessKey":"s","Token":"t","Expiration":"%s"}`,
				fetched.Add(1), time.Now().Add(time.Hour).Format(time.RFC3339))
		case strings.Contains(r.Header.Get("Authorization"), "KEY-2/"):
			answer(w, etag, "23456")
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusBadRequest)
		default:
			refuse(w, 400, "ExpiredToken")
		}
	}))
	list := func(p s3.Profile) error {
		p.Endpoint, p.Region = url, "r"
		s := storagetest.New(t, storage.Config{
			Profiles: map[string]storage.Profile{"default": &p},
			Retry:    storage.Retry{Attempts: 2, Delay: time.Millisecond},
		})
		_, err := s.List(t.Context(), "", []string{stubFile.GetUri()})
		return err
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url+"/role")
	if err := list(s3.Profile{}); err != nil || fetched.Load() != 2 {
		t.Errorf("a role that was fetched %d times: %v", fetched.Load(), err)
	}
	if err := list(s3.Profile{}); err == nil ||
		!strings.Contains(err.Error(), "renew the storage profile's credentials") || !storage.IsOurs(err) {
		t.Errorf("a role whose credentials stay expired: %v, of this process: %v", err, storage.IsOurs(err))
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "OLD")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	for name, p := range map[string]s3.Profile{
		"AWS's variables": {},
		"variables":       {AccessKeyEnv: "AWS_ACCESS_KEY_ID", SecretKeyEnv: "AWS_SECRET_ACCESS_KEY"},
	} {
		err := list(p)
		if err == nil || !strings.Contains(err.Error(), "renew the storage profile's credentials") ||
			!storage.IsOurs(err) || storage.IsTransient(err) {
			t.Errorf("%s: error %v, of this process: %v, transient: %v", name, err, storage.IsOurs(err),
				storage.IsTransient(err))
		}
	}
}

// Credentials of a role are fetched, and fetched again once they have expired.
func TestRoleIsRenewed(t *testing.T) {
	var fetched atomic.Int64
	keys := make(chan string, 2)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/role" {
			fmt.Fprintf(w,
				`{"AccessKeyId":"KEY-%d","SecretAccessKey":"s","Token":"t","Expiration":"2006-01-02T15:04:05Z"}`,
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
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &s3.Profile{
		Endpoint: url,
		Region:   "r",
	}}})
	for _, want := range []string{"KEY-1", "KEY-2"} {
		if err := s.ReadAt(t.Context(), "", stubFile, make([]byte, 5), 2); err != nil {
			t.Fatal(err)
		}
		if got := <-keys; got != want {
			t.Errorf("a request was signed with %s, want %s", got, want)
		}
	}
}

package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T, cfg storage.Config) *storage.Store {
	t.Helper()
	s, err := storage.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestMinIO(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	buckets := 0
	fixture := func(t *testing.T) storagetest.Fixture {
		buckets++
		bucket := fmt.Sprintf("bucket-%d", buckets)
		m.MakeBucket(t, bucket)
		return storagetest.Fixture{
			Storage: newStore(t, storage.Config{}),
			Base:    "s3://" + bucket + "/some/place",
			Put:     func(t *testing.T, name string, content []byte) { m.Put(t, bucket, "some/place/"+name, content) },
			Remove:  func(t *testing.T, name string) { m.Remove(t, bucket, "some/place/"+name) },
		}
	}
	storagetest.Run(t, fixture)
	t.Run("ManyFiles", func(t *testing.T) { testManyFiles(t, m) })
	t.Run("Refused", func(t *testing.T) { testRefused(t, m) })
}

// testManyFiles lists more than a page, through a proxy that fails every second request for one.
func testManyFiles(t *testing.T, m *storagetest.MinIO) {
	m.MakeBucket(t, "many")
	const files = 1100
	var writers sync.WaitGroup
	for w := range 50 {
		writers.Go(func() {
			for i := w; i < files; i += 50 {
				m.Put(t, "many", fmt.Sprintf("d/%04d.parquet", i), []byte("x"))
			}
		})
	}
	writers.Wait()
	var requests atomic.Int64
	proxy := newProxy(t, m.Endpoint, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("list-type") == "2" && requests.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	s := newStore(t, storage.Config{
		Profiles: map[string]storage.Profile{"default": {Endpoint: proxy}},
		Retry:    storage.Retry{Delay: time.Millisecond},
	})
	found, err := s.List(t.Context(), "", []string{"s3://many/d/", "s3://many/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != files {
		t.Errorf("%d files, want %d", len(found), files)
	}
	for i, f := range found {
		if want := fmt.Sprintf("s3://many/d/%04d.parquet", i); f.Uri != want {
			t.Fatalf("file %d is %s, want %s", i, f.Uri, want)
		}
	}
}

func testRefused(t *testing.T, m *storagetest.MinIO) {
	m.MakeBucket(t, "closed")
	m.Put(t, "closed", "x.parquet", []byte("x"))
	t.Setenv("WRONG_SECRET", "not-the-secret-of-the-server")
	t.Setenv("RIGHT_KEY", m.AccessKey)
	t.Setenv("RIGHT_SECRET", m.SecretKey)
	s := newStore(t, storage.Config{Profiles: map[string]storage.Profile{
		"anonymous": {Credentials: "anonymous"},
		"wrong":     {AccessKeyEnv: "RIGHT_KEY", SecretKeyEnv: "WRONG_SECRET"},
		"right":     {AccessKeyEnv: "RIGHT_KEY", SecretKeyEnv: "RIGHT_SECRET"},
		"dead":      {Endpoint: "http://127.0.0.1:1"},
	}, Retry: storage.Retry{Attempts: 2, Delay: time.Millisecond}})
	for profile, want := range map[string]string{
		"anonymous": "access denied",
		"wrong":     "signature",
		"dead":      "given up after 2 attempts",
	} {
		_, err := s.List(t.Context(), profile, []string{"s3://closed/x.parquet"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "s3://closed/x.parquet") {
			t.Errorf("%s: error %v, want one with %q that names the file", profile, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "not-the-secret") {
			t.Errorf("%s: the error holds the secret: %v", profile, err)
		}
	}
	if _, err := s.List(t.Context(), "right", []string{"s3://closed/x.parquet"}); err != nil {
		t.Errorf("right: %v", err)
	}
	if _, err := s.List(t.Context(), "right", []string{"s3://no-such-bucket/x/"}); err == nil || !strings.Contains(err.Error(), "no bucket no-such-bucket") {
		t.Errorf("error %v, want one that names the bucket", err)
	}
}

// newProxy starts a proxy before an endpoint; requests that intercept answers do not pass.
func newProxy(t *testing.T, endpoint string, intercept func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		// The Host header stays the proxy's, which the client signed.
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
	}
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !intercept(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

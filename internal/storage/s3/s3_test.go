package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
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
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMinIO(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	storagetest.Run(t, fixtures(m))
	t.Run("ManyFiles", func(t *testing.T) { testManyFiles(t, m) })
	t.Run("Refused", func(t *testing.T) { testRefused(t, m) })
	t.Run("FarAway", func(t *testing.T) { testFarAway(t, m) })
}

func TestVersityGW(t *testing.T) {
	m := storagetest.StartVersityGW(t)
	m.Setenv(t)
	storagetest.Run(t, fixtures(m))
}

// fixtures are buckets of a server.
func fixtures(m *storagetest.MinIO) func(t *testing.T) storagetest.Fixture {
	buckets := 0
	return func(t *testing.T) storagetest.Fixture {
		buckets++
		bucket := fmt.Sprintf("bucket-%d", buckets)
		m.MakeBucket(t, bucket)
		return storagetest.Fixture{
			Storage: storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
				"default": &s3.Profile{Write: []string{"s3://" + bucket + "/some/place"}},
			}}),
			Base:   "s3://" + bucket + "/some/place",
			Put:    func(t *testing.T, name string, content []byte) { m.Put(t, bucket, "some/place/"+name, content) },
			Remove: func(t *testing.T, name string) { m.Remove(t, bucket, "some/place/"+name) },
		}
	}
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
	s := storagetest.New(t, storage.Config{
		Profiles: map[string]storage.Profile{"default": &s3.Profile{Endpoint: proxy}},
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
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
		"anonymous": &s3.Profile{Credentials: "anonymous"},
		"wrong":     &s3.Profile{AccessKeyEnv: "RIGHT_KEY", SecretKeyEnv: "WRONG_SECRET"},
		"right":     &s3.Profile{AccessKeyEnv: "RIGHT_KEY", SecretKeyEnv: "RIGHT_SECRET"},
		"dead":      &s3.Profile{Endpoint: "http://127.0.0.1:1"},
	}, Retry: storage.Retry{Attempts: 2, Delay: time.Millisecond}})
	for profile, want := range map[string]string{
		"anonymous": "access denied",
		"wrong":     "signature",
		"dead":      "given up after 2 attempts",
	} {
		_, err := s.List(t.Context(), profile, []string{"s3://closed/x.parquet"})
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "s3://closed/x.parquet") {
			t.Errorf("%s: error %v, want one with %q that names the file", profile, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "not-the-secret") {
			t.Errorf("%s: the error holds the secret: %v", profile, err)
		}
	}
	if _, err := s.List(t.Context(), "right", []string{"s3://closed/x.parquet"}); err != nil {
		t.Errorf("right: %v", err)
	}
	if _, err := s.List(t.Context(), "right", []string{"s3://no-such-bucket/x/"}); err == nil ||
		!strings.Contains(err.Error(), "no bucket no-such-bucket") {
		t.Errorf("error %v, want one that names the bucket", err)
	}
}

// testFarAway reads through a proxy that lets no request pass before all that are wanted at once are there: what a
// round trip takes is paid once for all of them. Connections are kept, for a far one takes round trips to open.
func testFarAway(t *testing.T, m *storagetest.MinIO) {
	const parallel, part, rounds = 8, 64 << 10, 5
	content := make([]byte, parallel*part)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails
	m.MakeBucket(t, "far")
	m.Put(t, "far", "x.parquet", content)
	var together rendezvous
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(proxyTo(t, m.Endpoint, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			together.meet(r.Context(), parallel)
		}
		return false
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &s3.Profile{Endpoint: server.URL}}})
	files, err := s.List(t.Context(), "", []string{"s3://far/x.parquet"})
	if err != nil {
		t.Fatal(err)
	}
	f := files[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range rounds {
		got, err := storage.ReadRanges(ctx, s, "", f, []storage.Range{{Length: f.Size}},
			storage.Reading{Part: part, Parallel: parallel},
			func(size int64) ([]byte, error) { return make([]byte, size), nil })
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got[0], content) {
			t.Fatal("other bytes than were written")
		}
	}
	if n := opened.Load(); n > parallel {
		t.Errorf("%d connections for %d requests, %d at once", n, rounds*parallel, parallel)
	}
}

// rendezvous holds callers until enough of them are there.
type rendezvous struct {
	mu   sync.Mutex
	here int
	open chan struct{}
}

func (r *rendezvous) meet(ctx context.Context, wanted int) {
	r.mu.Lock()
	if r.here == 0 {
		r.open = make(chan struct{})
	}
	open := r.open
	if r.here++; r.here == wanted {
		r.here = 0
		close(open)
	}
	r.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
}

// newProxy starts a proxy before an endpoint; requests that intercept answers do not pass.
func newProxy(t *testing.T, endpoint string, intercept func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	return serve(t, proxyTo(t, endpoint, intercept))
}

func proxyTo(t *testing.T, endpoint string, intercept func(w http.ResponseWriter, r *http.Request) bool) http.Handler {
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !intercept(w, r) {
			proxy.ServeHTTP(w, r)
		}
	})
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

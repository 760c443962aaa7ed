package gs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/gs"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFakeServer(t *testing.T) {
	fake := storagetest.StartGCS(t)
	endpoint := serve(t, documented(t, fake.Endpoint))
	buckets := 0
	storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
		buckets++
		bucket := fmt.Sprintf("bucket-%d", buckets)
		fake.MakeBucket(t, bucket)
		return storagetest.Fixture{
			Storage: storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &gs.Profile{
				Endpoint: endpoint, Credentials: gs.Anonymous, Write: []string{"gs://" + bucket + "/some/place"},
			}}}),
			Base:   "gs://" + bucket + "/some/place",
			Put:    func(t *testing.T, name string, content []byte) { fake.Put(t, bucket, "some/place/"+name, content) },
			Remove: func(t *testing.T, name string) { fake.Remove(t, bucket, "some/place/"+name) },
		}
	})
	t.Run("ManyFiles", func(t *testing.T) { testManyFiles(t, fake) })
	t.Run("ManyParts", func(t *testing.T) { testManyParts(t, fake, endpoint) })
}

// documented stands before the fake server, which heeds conditions of uploads only, and takes each fault of composing for
// its own. Those of reads and of composing are checked here as the service's reference has them.
func documented(t *testing.T, endpoint string) http.Handler {
	t.Helper()
	var one sync.Mutex
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	generation := func(path string) string {
		resp, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, endpoint+path, nil))
		if err != nil {
			return "0"
		}
		defer resp.Body.Close()
		var o struct{ Generation string }
		if json.NewDecoder(resp.Body).Decode(&o) != nil || o.Generation == "" {
			return "0"
		}
		return o.Generation
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, composes := strings.CutSuffix(r.URL.EscapedPath(), "/compose")
		if composes {
			one.Lock()
			defer one.Unlock()
			body, _ := io.ReadAll(r.Body) // what is cut is no JSON
			r.Body = io.NopCloser(bytes.NewReader(body))
			var asked struct {
				SourceObjects []struct{ Name, Generation string }
			}
			if err := json.Unmarshal(body, &asked); err != nil || len(asked.SourceObjects) == 0 {
				refuse(w, http.StatusBadRequest, "required", "Required")
				return
			}
			for _, o := range asked.SourceObjects {
				if generation(path[:strings.Index(path, "/o/")+3]+url.PathEscape(o.Name)) != o.Generation {
					refuse(w, http.StatusNotFound, "notFound", "No such object: "+o.Name)
					return
				}
			}
		}
		if want := r.URL.Query().Get("ifGenerationMatch"); want != "" && !strings.HasPrefix(path, "/upload/") {
			live := generation(path)
			if live != want && (live != "0" || composes) {
				refuse(w, http.StatusPreconditionFailed, "conditionNotMet",
					"At least one of the pre-conditions you specified did not hold.")
				return
			}
		}
		proxy.ServeHTTP(w, r)
	})
}

// refuse answers as the JSON API does.
func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"message":%q,"domain":"global","reason":%q}]}}`,
		status, message, message, reason)
}

// testManyFiles lists more than a page, through a proxy that fails every second request for one.
func testManyFiles(t *testing.T, fake *storagetest.GCS) {
	fake.MakeBucket(t, "many")
	const files = 1100
	var writers sync.WaitGroup
	for w := range 10 {
		writers.Go(func() {
			for i := w; i < files; i += 10 {
				fake.Put(t, "many", fmt.Sprintf("d/%04d.parquet", i), []byte("x"))
			}
		})
	}
	writers.Wait()
	var requests atomic.Int64
	through := documented(t, fake.Endpoint)
	s := storagetest.New(t, storage.Config{
		Profiles: map[string]storage.Profile{"default": &gs.Profile{
			Credentials: gs.Anonymous,
			Endpoint: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("prefix") && requests.Add(1)%2 == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				through.ServeHTTP(w, r)
			})),
		}},
		Retry: storage.Retry{Delay: time.Millisecond},
	})
	found, err := s.List(t.Context(), "", []string{"gs://many/d/", "gs://many/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != files {
		t.Errorf("%d files, want %d", len(found), files)
	}
	for i, f := range found {
		if want := fmt.Sprintf("gs://many/d/%04d.parquet", i); f.GetUri() != want {
			t.Fatalf("file %d is %s, want %s", i, f.GetUri(), want)
		}
	}
	if _, err := s.List(t.Context(), "", []string{"gs://no-such-bucket/x/"}); err == nil ||
		!strings.Contains(err.Error(), "no bucket no-such-bucket") {
		t.Errorf("error %v, want one that names the bucket", err)
	}
}

// testManyParts composes a file of more parts than the service takes at once, and leaves nothing else.
func testManyParts(t *testing.T, fake *storagetest.GCS, endpoint string) {
	fake.MakeBucket(t, "parts")
	c, err := gs.New(&gs.Profile{Endpoint: endpoint, Credentials: gs.Anonymous})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	const uri, parts = "gs://parts/d/x.bin", 70
	upload, err := c.Begin(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for i := range parts {
		if _, err := c.Part(t.Context(), uri, upload, i+1, []byte("again")); err != nil {
			t.Fatal(err)
		}
		tag, err := c.Part(t.Context(), uri, upload, i+1, fmt.Appendf(nil, "%02d", i))
		if err != nil {
			t.Fatal(err)
		}
		tags = append(tags, tag)
	}
	if err := c.Finish(t.Context(), uri, upload, tags); err != nil {
		t.Fatal(err)
	}
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
		"default": &gs.Profile{Endpoint: endpoint, Credentials: gs.Anonymous},
	}})
	files, err := s.List(t.Context(), "", []string{"gs://parts/**/*", "gs://parts/d/_*/*"})
	if err == nil || !strings.Contains(err.Error(), "_*") { // nothing matches
		t.Errorf("its parts are there: %v, %v", files, err)
	}
	files, err = s.List(t.Context(), "", []string{uri})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2*parts)
	if err := s.ReadAt(t.Context(), "", files[0], got, 0); err != nil {
		t.Fatal(err)
	}
	for i := range parts {
		if want := fmt.Sprintf("%02d", i); string(got[2*i:2*i+2]) != want {
			t.Fatalf("part %d is %q", i, got[2*i:2*i+2])
		}
	}
	if _, err := c.Part(t.Context(), uri, "../other", 1, nil); err == nil {
		t.Error("a name with .. was taken for an upload's")
	}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// BenchmarkReadAt reads from a server in this process: what it takes is the server's, too.
func BenchmarkReadAt(b *testing.B) {
	content := make([]byte, 8<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Goog-Generation", "1")
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content) // the client may be gone
	}))
	defer server.Close()
	c, err := gs.New(&gs.Profile{Endpoint: server.URL, Credentials: gs.Anonymous})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	f := &pb.File{Uri: "gs://bucket/x.bin", Size: int64(len(content)), Etag: "1"}
	buf := make([]byte, len(content))
	b.SetBytes(f.GetSize())
	b.ReportAllocs()
	for b.Loop() {
		if err := c.ReadAt(b.Context(), f, buf, 0); err != nil {
			b.Fatal(err)
		}
	}
}

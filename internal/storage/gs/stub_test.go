package gs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/gs"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// The stub answers as https://cloud.google.com/storage/docs/json_api has it; of an object's content a refusal is text.

const generation = "1700000000000001"

var stubFile = &pb.File{Uri: "gs://bucket/x.parquet", Size: 10, Etag: generation}

// answer sends bytes 2 to 6 of an object.
func answer(w http.ResponseWriter, of, body string) {
	w.Header().Set("X-Goog-Generation", of)
	w.Header().Set("Content-Range", "bytes 2-6/10")
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write([]byte(body)) // the client may be gone
}

func stubStore(t *testing.T, p gs.Profile) *storage.Store {
	t.Helper()
	return impatientStore(t, p, 0)
}

func impatientStore(t *testing.T, p gs.Profile, patience time.Duration) *storage.Store {
	t.Helper()
	return storagetest.New(t, storage.Config{
		Profiles: map[string]storage.Profile{"default": &p},
		Retry:    storage.Retry{Attempts: 3, Delay: time.Millisecond, AttemptTimeout: patience},
	})
}

func TestFaults(t *testing.T) {
	errAny := errors.New("any")
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "why", status) }
	}
	for name, tc := range map[string]struct {
		first    http.HandlerFunc // answers the first request; later ones succeed
		want     error            // nil: none; errAny: any
		requests int64
	}{
		"busy":      {status(503), nil, 2},
		"throttled": {status(429), nil, 2},
		"timed out": {status(408), nil, 2},
		"hung up":   {status(499), nil, 2},
		"lacking":   {status(501), errAny, 1},
		"rate limit": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, 403, "rateLimitExceeded", "The total number of changes exceeds the rate limit")
		}, nil, 2},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			answer(w, generation, "23")
			panic(http.ErrAbortHandler)
		}, nil, 2},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 2},
		"hangs":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, 2},
		"changed":   {status(412), storage.ErrChanged, 1},
		"shorter":   {status(416), storage.ErrChanged, 1},
		"another": {
			func(w http.ResponseWriter, _ *http.Request) { answer(w, "2", "23456") }, storage.ErrChanged, 1,
		},
		"gone":      {status(404), fs.ErrNotExist, 1},
		"forbidden": {status(403), object.ErrDenied, 1},
		"unknown":   {status(401), object.ErrDenied, 1},
		"redirects": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
		}, errAny, 1},
		"other bytes": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Goog-Generation", generation)
			w.Header().Set("Content-Range", "bytes 0-4/10")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "01234")
		}, errAny, 1},
		"no generation": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "23456") }, errAny, 1},
		"no ranges": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Goog-Generation", generation)
			fmt.Fprint(w, "0123456789")
		}, errAny, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			p := gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					q := r.URL.Query()
					if q.Get("ifGenerationMatch") != generation || q.Get("alt") != "media" ||
						r.Header.Get("Range") != "bytes=2-6" || r.Header.Get("Accept-Encoding") != "gzip" {
						t.Errorf("it asks for %s, %v", r.URL, r.Header)
					}
					if requests.Add(1) == 1 {
						tc.first(w, r)
						return
					}
					answer(w, generation, "23456")
				}))}
			s := stubStore(t, p)
			if name == "hangs" {
				s = impatientStore(t, p, 500*time.Millisecond)
			}
			buf := make([]byte, 5)
			err := s.ReadAt(t.Context(), "", stubFile, buf, 2)
			switch {
			case tc.want == nil && (err != nil || string(buf) != "23456"):
				t.Errorf("read %q, %v", buf, err)
			case tc.want != nil && (err == nil || !strings.Contains(err.Error(), stubFile.GetUri())):
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

// What is stored compressed is read as it is stored, and its size is that.
func TestStoredCompressed(t *testing.T) {
	s := stubStore(t, gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("X-Goog-Stored-Content-Encoding", "gzip")
			answer(w, generation, "\x1f\x8b\x08\x00\x00")
		}))})
	buf := make([]byte, 5)
	if err := s.ReadAt(t.Context(), "", stubFile, buf, 2); err != nil || string(buf) != "\x1f\x8b\x08\x00\x00" {
		t.Errorf("read %q, %v", buf, err)
	}
}

// A hung service does not hold a caller that has given up.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := stubStore(t, gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		}))})
	if err := s.ReadAt(ctx, "", stubFile, make([]byte, 5), 2); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// What lists and describes is checked, and a fault that time does not mend is told at once.
func TestListings(t *testing.T) {
	one := `{"items":[{"name":"data/x.parquet","size":"1","generation":"7"}]}`
	for name, tc := range map[string]struct{ body, want string }{
		"found":         {one, ""},
		"page":          {"<!doctype html><html></html>", "endpoint is Google Cloud Storage"},
		"elsewhere":     {strings.Replace(one, "data/x", "other/x", 1), `"other/x.parquet", which is not below "data/"`},
		"no generation": {strings.Replace(one, `,"generation":"7"`, "", 1), "gs://bucket/data/x.parquet no generation"},
		"negative size": {strings.Replace(one, `"1"`, `"-1"`, 1), "no size"},
		"size of text":  {strings.Replace(one, `"1"`, `"x"`, 1), "endpoint is Google Cloud Storage"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stubStore(t, gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Get("prefix") != "data/" {
						fmt.Fprint(w, "{}")
						return
					}
					fmt.Fprint(w, tc.body)
				}))})
			files, err := s.List(t.Context(), "", []string{"gs://bucket/data/"})
			switch {
			case tc.want == "" && (err != nil || len(files) != 1 || files[0].GetEtag() != "7"):
				t.Errorf("listed %v, %v", files, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || storage.IsTransient(err)):
				t.Errorf("error %v, want one for good with %q", err, tc.want)
			}
		})
	}
}

// A listing that is cut is tried again.
func TestListingIsCut(t *testing.T) {
	var requests atomic.Int64
	s := stubStore(t, gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			text := `{"items":[{"name":"data/x.parquet","size":"1","generation":"7"}]}`
			switch requests.Add(1) {
			case 2:
				fmt.Fprint(w, text)
				return
			case 3: // for an Iceberg table's metadata
				fmt.Fprint(w, "{}")
				return
			}
			fmt.Fprint(w, text[:30])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}))})
	files, err := s.List(t.Context(), "", []string{"gs://bucket/data/"})
	if err != nil || len(files) != 1 || requests.Load() != 3 {
		t.Errorf("listed %v, %v, by %d requests", files, err, requests.Load())
	}
}

// An answer without end is read up to a bound, whatever it is the answer to.
func TestEndlessAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		want   string
	}{"refusal": {http.StatusForbidden, "access denied"}, "page": {http.StatusOK, "more than 8 MiB"}} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			s := stubStore(t, gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(tc.status)
					fill := strings.Repeat(" ", 64<<10)
					for err := error(nil); err == nil; sent.Add(int64(len(fill))) { // until nobody listens
						_, err = io.WriteString(w, fill)
					}
				}))})
			_, err := s.List(t.Context(), "", []string{"gs://bucket/d/"})
			if err == nil || !strings.Contains(err.Error(), tc.want) || storage.IsTransient(err) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if n := sent.Load(); n > 100<<20 { // what connections hold is much less
				t.Errorf("%d MiB were sent", n>>20)
			}
		})
	}
}

// Who finishes an upload twice finds it finished, and who comes second to a name is told; the parts go in both cases.
func TestFinishAgain(t *testing.T) {
	const name = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	for by, want := range map[string]error{name: nil, "": fs.ErrExist, "gone": fs.ErrNotExist, "late": storage.ErrChanged} {
		t.Run(by, func(t *testing.T) {
			c := newClient(t, gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					switch {
					case strings.HasSuffix(r.URL.Path, "/compose") && by == "gone":
						refuse(w, 404, "notFound", "No such object")
					case strings.HasSuffix(r.URL.Path, "/compose"):
						refuse(w, 412, "conditionNotMet", "Precondition Failed")
					case strings.HasSuffix(r.URL.Path, "/o"):
						fmt.Fprint(w, "{}")
					case by == "gone" || by == "late":
						refuse(w, 404, "notFound", "No such object")
					default:
						fmt.Fprintf(w, `{"name":"x","size":"1","generation":"1","metadata":{"penstock-upload":%q}}`, by)
					}
				}))})
			err := c.Finish(t.Context(), "gs://bucket/x", name, []string{"1"})
			if !errors.Is(err, want) || object.IsTransient(err) != (by == "late") {
				t.Errorf("error %v, want %v", err, want)
			}
		})
	}
}

func newClient(t *testing.T, p gs.Profile) *gs.Client {
	t.Helper()
	c, err := gs.New(&p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A listing that goes round in a circle is an error.
func TestCircle(t *testing.T) {
	var asked atomic.Int64
	s := stubStore(t, gs.Profile{Credentials: gs.Anonymous, Endpoint: serve(t, http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			fmt.Fprint(w, `{"nextPageToken":"again"}`)
		}))})
	storagetest.Circle(t, s, "gs://bucket/data/", asked.Load)
}

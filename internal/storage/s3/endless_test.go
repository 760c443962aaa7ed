package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// endless is a service that never ends a listing; each page has 1000 objects.
func endless(pages *atomic.Int64, suffix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		n := pages.Add(1)
		fmt.Fprintf(w,
			"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", n)
		for i := range 1000 {
			fmt.Fprintf(w, `<Contents><Key>d/%09d/%05d%s</Key><ETag>"e"</ETag><Size>10</Size></Contents>`, n, i, suffix)
		}
		fmt.Fprint(w, "</ListBucketResult>")
	})
}

// A listing without end costs what the configuration lets it cost, and says which setting that is.
func TestEndlessListing(t *testing.T) {
	for name, tc := range map[string]struct {
		suffix string
		limits storage.Listing
		want   string
		pages  int64 // at most; 0: any
	}{
		"files":  {".parquet", storage.Listing{MaxFiles: 2500}, "there are more than 2,500 files", 3},
		"memory": {".parquet", storage.Listing{MaxBytes: 200 << 10}, "take more than 200 KiB of memory", 2},
		"time":   {".json", storage.Listing{Timeout: 200 * time.Millisecond}, "0 files found and", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var pages atomic.Int64
			s := storagetest.New(t, storage.Config{
				Profiles: map[string]storage.Profile{
					"default": &s3.Profile{
						Endpoint: serve(t, endless(&pages, tc.suffix)), Region: "r",
						Credentials: "anonymous",
					},
				},
				Listing: tc.limits,
			})
			_, err := s.List(t.Context(), "", []string{"s3://bucket/d/"})
			setting := map[string]string{
				"files": "listing.max_files", "memory": "listing.max_bytes",
				"time": "listing.timeout",
			}[name]
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), setting) ||
				storage.IsTransient(err) {
				t.Errorf("error %v; want %q and %s", err, tc.want, setting)
			}
			if n := pages.Load(); tc.pages > 0 && n > tc.pages {
				t.Errorf("%d pages were asked for, want %d at most", n, tc.pages)
			}
		})
	}
}

// An answer without end is read up to a bound, whatever it is the answer to.
func TestEndlessAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		begin  string
		want   string
	}{
		"refusal":       {http.StatusForbidden, "", "access denied"},
		"refusal, XML":  {http.StatusForbidden, "<Error><Code>AccessDenied</Code><Message>", "access denied"},
		"page":          {http.StatusOK, "<ListBucketResult><Contents><Key>", "is an S3 service"},
		"page of pages": {http.StatusOK, "<ListBucketResult>", "is an S3 service"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			fill := strings.Repeat("x", 64<<10)
			if tc.begin == "<ListBucketResult>" {
				fill = strings.Repeat("<Contents><Key>d/x.json</Key></Contents>", 1000)
			}
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, err := io.WriteString(w, tc.begin)
				for err == nil { // until nobody listens
					_, err = io.WriteString(w, fill)
					sent.Add(int64(len(fill)))
				}
			}))
			s := storagetest.New(t, storage.Config{
				Profiles: map[string]storage.Profile{"default": &s3.Profile{
					Endpoint: url, Region: "r",
					Credentials: "anonymous",
				}},
			})
			_, err := s.List(t.Context(), "", []string{"s3://bucket/d/"})
			if err == nil || !strings.Contains(err.Error(), tc.want) || storage.IsTransient(err) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if n := sent.Load(); n > 100<<20 { // what connections hold is much less
				t.Errorf("%d MiB were sent", n>>20)
			}
		})
	}
}

// A listing that goes round in a circle is an error.
func TestCircle(t *testing.T) {
	var asked atomic.Int64
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &s3.Profile{
		Region: "r", Credentials: "anonymous",
		Endpoint: serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated>"+
				"<NextContinuationToken>again</NextContinuationToken></ListBucketResult>")
		})),
	}}})
	storagetest.Circle(t, s, "s3://bucket/d/", asked.Load)
}

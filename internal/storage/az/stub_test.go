package az_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/az"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// What Azurite does not do is answered here as Microsoft's reference of the Blob service's REST API says.

const etag = "0x8DC0FFEE"

var stubFile = &pb.File{Uri: "az://container/x.parquet", Size: 10, Etag: etag}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// answer writes a range of a blob.
func answer(w http.ResponseWriter, tag, body string) {
	w.Header().Set("ETag", `"`+tag+`"`)
	w.Header().Set("Content-Range", "bytes 2-6/10")
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write([]byte(body)) // the client may be gone
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.WriteHeader(status)
	fmt.Fprintf(w, "\uFEFF<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>m.\nRequestId:1\nTime:2</Message></Error>", code)
}

func stubStore(t *testing.T, endpoint string) *storage.Store {
	return stubWithin(t, endpoint, time.Minute)
}

func stubWithin(t *testing.T, endpoint string, timeout time.Duration) *storage.Store {
	t.Helper()
	return storagetest.New(t, storage.Config{
		Profiles: map[string]storage.Profile{"default": &az.Profile{
			Account: "account1", Endpoint: endpoint, Credentials: az.Anonymous,
		}},
		Retry: storage.Retry{Attempts: 3, Delay: time.Millisecond, AttemptTimeout: timeout},
	})
}

func TestFaults(t *testing.T) {
	errAny := errors.New("any")
	refusing := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { refuse(w, status, code) }
	}
	for name, tc := range map[string]struct {
		first    http.HandlerFunc // answers the first request; later ones succeed
		want     error            // nil: none; errAny: any
		says     string
		requests int64
	}{
		"busy":      {refusing(503, "ServerBusy"), nil, "", 2},
		"throttled": {refusing(429, "TooManyRequests"), nil, "", 2},
		"slow":      {refusing(408, ""), nil, "", 2},
		"timed out": {refusing(500, "OperationTimedOut"), nil, "", 2},
		"lacking":   {refusing(501, ""), errAny, "501", 1},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			answer(w, etag, "23")
			panic(http.ErrAbortHandler)
		}, nil, "", 2},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, "", 2},
		"hangs":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, "", 2},
		"changed":   {refusing(412, "ConditionNotMet"), storage.ErrChanged, "", 2}, // the second asks whether it is gone
		"no match":  {func(w http.ResponseWriter, _ *http.Request) { answer(w, "other", "23456") }, storage.ErrChanged, "", 1},
		"shorter":   {refusing(416, "InvalidRange"), storage.ErrChanged, "", 2},
		"gone":      {refusing(404, "BlobNotFound"), fs.ErrNotExist, "m.", 1},
		"no container": {
			refusing(404, "ContainerNotFound"), fs.ErrNotExist, "no container container in account account1", 1,
		},
		"forbidden": {refusing(403, "AuthorizationPermissionMismatch"), errAny, "Storage Blob Data Reader", 1},
		"network":   {refusing(403, "AuthorizationFailure"), errAny, "network rules", 1},
		"private":   {refusing(409, "PublicAccessNotPermitted"), errAny, "set the storage profile's credentials", 1},
		"no keys":   {refusing(403, "KeyBasedAuthenticationNotPermitted"), errAny, "credentials: default", 1},
		"archived":  {refusing(409, "BlobArchived"), errAny, "move it to hot", 1},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, errAny, "endpoint", 1},
		"no ranges": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"`+etag+`"`)
			fmt.Fprint(w, "0123456789")
		}, errAny, "ignores the Range header", 1},
		"other range": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"`+etag+`"`)
			w.Header().Set("Content-Range", "bytes 0-4/10")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "01234")
		}, errAny, "another range", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			timeout := time.Minute
			if name == "hangs" {
				timeout = 500 * time.Millisecond
			}
			s := stubWithin(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				if r.Method == http.MethodHead {
					w.Header().Set("ETag", `"other"`)
					return
				}
				if got := r.Header.Get("If-Match"); got != `"`+etag+`"` {
					t.Errorf("If-Match %s", got)
				}
				if got := r.Header.Get("Range"); got != "bytes=2-6" {
					t.Errorf("Range %s", got)
				}
				if n == 1 {
					tc.first(w, r)
					return
				}
				answer(w, etag, "23456")
			}), timeout)
			buf := make([]byte, 5)
			err := s.ReadAt(t.Context(), "", stubFile, buf, 2)
			switch {
			case tc.want == nil && (err != nil || string(buf) != "23456"):
				t.Errorf("read %q, %v", buf, err)
			case tc.want != nil && (err == nil || !strings.Contains(err.Error(), stubFile.GetUri()) ||
				!strings.Contains(err.Error(), tc.says)):
				t.Errorf("error %v, want one with %q that names the file", err, tc.says)
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
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &az.Profile{
		Account: "account1", Credentials: az.Anonymous,
		Endpoint: serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		}),
	}}})
	if err := s.ReadAt(ctx, "", stubFile, make([]byte, 5), 2); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// No error repeats what lets requests pass, whatever the service says, and no redirect takes it elsewhere.
func TestSecrets(t *testing.T) {
	const token = "the-token-of-the-identity"
	key := base64.StdEncoding.EncodeToString([]byte("the key of the account"))
	sas := "sv=2021-12-02&sp=rl&se=2999-01-01T00:00:00Z&sig=the%2Fsignature%3D"
	secrets := []string{token, key, "the%2Fsignature%3D", "the/signature="}
	t.Setenv("KEY", key)
	t.Setenv("SAS", "?"+sas)
	identity := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":%q,"expires_on":"%d","token_type":"Bearer","resource":"r"}`, token,
			time.Now().Add(time.Hour).Unix())
	})
	t.Setenv("IDENTITY_ENDPOINT", identity)
	t.Setenv("IDENTITY_HEADER", "h")
	var elsewhere atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	for name, p := range map[string]az.Profile{
		"key": {AccountKeyEnv: "KEY"}, "sas": {SASEnv: "SAS"}, "identity": {Credentials: az.ManagedIdentity},
	} {
		for how, h := range map[string]http.HandlerFunc{
			"echo": func(w http.ResponseWriter, r *http.Request) {
				if name == "key" && r.Header.Get("Authorization") == "" ||
					name == "sas" && r.URL.Query().Get("sig") != "the/signature=" ||
					name == "identity" && r.Header.Get("Authorization") != "Bearer "+token {
					t.Errorf("%s: the request is not signed", name)
				}
				all := r.Header.Get("Authorization") + " " + r.URL.String() + " " + map[string]string{"key": key}[name]
				code := map[string]string{http.MethodGet: "AuthenticationFailed"}[r.Method]
				if r.URL.Query().Has("comp") {
					code = "AuthorizationFailure " + all
				}
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprintf(w, "<Error><Code><![CDATA[%s]]></Code><Message><![CDATA[%s]]></Message>"+
					"<AuthenticationErrorDetail><![CDATA[%s]]></AuthenticationErrorDetail></Error>", code, all, all)
			},
			"redirect": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other+"?"+r.URL.RawQuery, http.StatusFound)
			},
			"hang up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"html":    func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "<html>%s</html>", r.URL) },
		} {
			p.Account, p.Endpoint = "account1", serve(t, h)
			s := storagetest.New(t, storage.Config{
				Profiles: map[string]storage.Profile{"default": &p},
				Retry:    storage.Retry{Attempts: 2, Delay: time.Millisecond},
			})
			err := s.ReadAt(t.Context(), "", stubFile, make([]byte, 5), 2)
			_, listed := s.List(t.Context(), "", []string{"az://container/data/"})
			for _, err := range []error{err, listed} {
				if err == nil || errors.Is(err, storage.ErrChanged) {
					t.Errorf("%s, %s: error %v", name, how, err)
				}
				for _, secret := range secrets {
					if err != nil && strings.Contains(err.Error(), secret) {
						t.Errorf("%s, %s: the error holds a secret: %v", name, how, err)
					}
				}
			}
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

const blobs = `<Blob><Name>data/a.parquet</Name><Properties><Etag>e1</Etag><Content-Length>3</Content-Length></Properties></Blob>`

func listing(blobs, next string) string {
	return "\uFEFF" + `<?xml version="1.0"?><EnumerationResults ContainerName="container"><Blobs>` + blobs +
		"</Blobs><NextMarker>" + next + "</NextMarker></EnumerationResults>"
}

// A listing of many pages goes on where it was cut, in whatever order its names come, and passes directories over.
func TestListing(t *testing.T) {
	entry := func(name string, size int, more string) string {
		return fmt.Sprintf("<Blob><Name>%s</Name><Properties><Etag>e</Etag><Content-Length>%d</Content-Length>"+
			"<ResourceType>%s</ResourceType></Properties></Blob>", name, size, more)
	}
	const folder = "<Blob><Name>data/hadoop</Name><Properties><Etag>e</Etag><Content-Length>0</Content-Length></Properties>" +
		"<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata></Blob>"
	const encoded = `<Blob><Name Encoded="true">data/x%EF%BF%BF.parquet</Name><Properties><Etag>e</Etag>` +
		"<Content-Length>1</Content-Length></Properties></Blob>"
	pages := map[string]string{
		"": listing(entry("data/dir", 0, "directory")+entry("data/dir/x.parquet", 1, "file")+
			entry("data/dir-2.parquet", 1, "file"), "p1"),
		"p1": listing(entry("data/empty.parquet", 0, ""), "p2"),
		"p2": listing("", "p3"),
		"p3": listing(folder+entry("data/hadoop/y.parquet", 1, "")+entry("data/folder/", 0, "")+encoded, ""),
	}
	var requests, repeated atomic.Int64
	var last atomic.Value
	s := stubStore(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case q.Get("delimiter") != "": // it looks for a table beside the data
			fmt.Fprint(w, listing("", ""))
		case requests.Add(1)%2 == 1:
			refuse(w, http.StatusServiceUnavailable, "ServerBusy")
		default:
			mark := q.Get("marker") + q.Get("include")
			if last.Swap(mark) == mark {
				repeated.Add(1)
			}
			page := pages[q.Get("marker")]
			if q.Get("include") != "metadata" {
				page = strings.ReplaceAll(page, "<hdi_isfolder>true</hdi_isfolder>", "")
			}
			fmt.Fprint(w, page)
		}
	}))
	files, left, err := storage.Tell(t.Context(), s, &pb.Dataset{Uri: []string{"az://container/data/"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, strings.TrimPrefix(f.GetUri(), "az://container/data/"))
	}
	if want := "dir-2.parquet dir/x.parquet hadoop/y.parquet x\uFFFF.parquet"; strings.Join(got, " ") != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	if left.Empty.Count != 1 || left.Unknown.Count != 0 {
		t.Errorf("it tells of %v", left)
	}
	if n := requests.Load(); repeated.Load() > 0 || n != 10 { // four pages, one twice, each after a refusal
		t.Errorf("%d requests, %d of them for a page that was there", n, repeated.Load())
	}
}

// A file's URI that names a directory stands for what lies in it.
func TestDirectoryByName(t *testing.T) {
	for _, header := range []http.Header{
		{"X-Ms-Resource-Type": {"directory"}}, {"X-Ms-Meta-Hdi_isfolder": {"true"}},
	} {
		s := stubStore(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				maps.Copy(w.Header(), header)
				w.Header().Set("ETag", `"e"`)
				return
			}
			if r.URL.Query().Get("prefix") == "data/metadata/" || r.URL.Query().Get("prefix") == "metadata/" {
				fmt.Fprint(w, listing("", ""))
				return
			}
			fmt.Fprint(w, listing(blobs, ""))
		}))
		files, err := s.List(t.Context(), "", []string{"az://container/data"})
		if err != nil || len(files) != 1 || files[0].GetUri() != "az://container/data/a.parquet" {
			t.Errorf("%v: %v, %v", header, files, err)
		}
	}
}

// Listings that are cut are tried again; those that are none, or lie, are errors at once.
func TestListingMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		first, want string
		requests    int64
	}{
		"cut":           {listing(blobs, "")[:150], "", 2},
		"cut to naught": {"", "", 2},
		"web page":      {"<!doctype html><html><body>Sign in</body></html>", "is a Blob service", 1},
		"other service": {"<ListBucketResult></ListBucketResult>", "is a Blob service", 1},
		"size":          {strings.Replace(listing(blobs, ""), ">3<", ">x<", 1), "is a Blob service", 1},
		"below naught":  {strings.Replace(listing(blobs, ""), ">3<", ">-3<", 1), "no size", 1},
		"outside":       {strings.Replace(listing(blobs, ""), "data/a", "other/a", 1), "does not begin with", 1},
		"no ETag":       {strings.Replace(listing(blobs, ""), "e1", "", 1), "no strong ETag", 1},
		"weak":          {strings.Replace(listing(blobs, ""), "e1", `W/"e1"`, 1), "no strong ETag", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			s := stubStore(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("delimiter") != "" {
					fmt.Fprint(w, listing("", ""))
					return
				}
				if requests.Add(1) > 1 {
					fmt.Fprint(w, listing(blobs, ""))
					return
				}
				fmt.Fprint(w, tc.first)
			}))
			files, err := s.List(t.Context(), "", []string{"az://container/data/"})
			switch {
			case tc.want == "" && (err != nil || len(files) != 1):
				t.Errorf("listed %v, %v", files, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || storage.IsTransient(err)):
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if n := requests.Load(); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
		})
	}
}

// A refusal without end is read up to a bound.
func TestEndlessRefusal(t *testing.T) {
	var sent atomic.Int64
	s := stubStore(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, err := io.WriteString(w, "<Error><Code>X</Code><Message>")
		for fill := strings.Repeat("x", 64<<10); err == nil; { // until nobody listens
			_, err = io.WriteString(w, fill)
			sent.Add(int64(len(fill)))
		}
	}))
	err := s.ReadAt(t.Context(), "", stubFile, make([]byte, 5), 2)
	if err == nil || !strings.Contains(err.Error(), "access denied") || len(err.Error()) > 1000 || sent.Load() > 100<<20 {
		t.Errorf("%d bytes were sent; error %v", sent.Load(), err)
	}
}

// A listing that goes round in a circle is an error.
func TestCircle(t *testing.T) {
	var asked atomic.Int64
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &az.Profile{
		Account: "account1", Credentials: az.Anonymous,
		Endpoint: serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			fmt.Fprint(w, listing("", "again"))
		}),
	}}})
	storagetest.Circle(t, s, "az://container/data/", asked.Load)
}

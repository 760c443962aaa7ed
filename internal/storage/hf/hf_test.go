package hf_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/hf"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// certificate is a file with that of the servers that httptest starts.
func certificate(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	at := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(at, pem.EncodeToMemory(block), 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

// store reads from a hub, with the token of the environment.
func store(t *testing.T, endpoint, cdn string) *storage.Store {
	t.Helper()
	s, err := storage.New(storage.Config{
		Profiles: map[string]storage.Profile{"default": &hf.Profile{
			Endpoint: endpoint, Hosts: []string{strings.TrimPrefix(cdn, "https://")},
			AllowAddresses: []string{"127.0.0.0/8"}, CAFile: certificate(t),
		}},
		Retry: storage.Retry{Attempts: 5, Delay: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestHub runs the suite against a hub as it is, and against one that is disturbed.
func TestHub(t *testing.T) {
	commit := regexp.MustCompile(`@[0-9a-f]{40}/`)
	for name, disturbed := range map[string]bool{"as it is": false, "disturbed": true} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HF_TOKEN", "hf_token")
			storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
				h := startHub(t)
				h.token = "hf_token"
				if disturbed {
					h.endpoint = serve(t, storagetest.Disturbed(h))
				}
				return storagetest.Fixture{
					Storage: store(t, h.endpoint, h.cdn), Base: "hf://datasets/org/name@main", ReadOnly: true,
					Put:      func(_ *testing.T, name string, content []byte) { h.put(name, content) },
					Remove:   func(_ *testing.T, name string) { h.remove(name) },
					Unpinned: func(text string) string { return commit.ReplaceAllString(text, "@main/") },
				}
			})
		})
	}
}

// TestRevisions: whatever names a revision, files are those of its commit, by a URI that names the commit.
func TestRevisions(t *testing.T) {
	h := startHub(t)
	t.Setenv("HF_TOKEN_PATH", filepath.Join(t.TempDir(), "none"))
	h.commit("v1.0", map[string][]byte{"a.parquet": []byte("tagged")})
	converted := h.commit("refs/convert/parquet", map[string][]byte{"a.parquet": []byte("converted")})
	h.put("a.parquet", []byte("main, changed"))
	s := store(t, h.endpoint, h.cdn)
	for at, want := range map[string]string{
		"": "main, changed", "@main": "main, changed", "@" + converted: "converted", "@refs%2Fconvert%2Fparquet": "converted",
		"@refs/convert/parquet": "converted", "@~parquet": "converted", "@v1.0": "tagged",
	} {
		uri := "hf://datasets/org/name" + at + "/a.parquet"
		files, err := s.List(t.Context(), "", []string{uri, uri})
		if err != nil || len(files) != 1 {
			t.Errorf("%s: %v, %v", uri, files, err)
			continue
		}
		h.put("a.parquet", []byte("main, once more"))
		got := make([]byte, files[0].GetSize())
		if err := s.ReadAt(t.Context(), "", files[0], got, 0); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", uri, got, err)
		}
		h.put("a.parquet", []byte("main, changed"))
	}
}

// TestRefused: what the hub refuses, and what it must not answer, is an error that says what to do.
func TestRefused(t *testing.T) {
	h := startHub(t)
	t.Setenv("HF_TOKEN", "hf_secret")
	h.put("a.parquet", []byte("content"))
	h.put("large.parquet", make([]byte, large))
	s := store(t, h.endpoint, h.cdn)
	for uri, want := range map[string]string{
		"hf://datasets/org/other/a.parquet":      "there is no dataset at " + h.endpoint + "/datasets/org/other",
		"hf://datasets/org/name@none/a.parquet":  "no revision none",
		"hf://datasets/org/name/none.parquet":    "nothing found",
		"hf://datasets/squad/a.parquet":          "there is no dataset at",
		"hf://datasets/squad":                    "ORG/NAME",
		"hf://datasets/org/*/a.parquet":          "without wildcards",
		"hf://datasets/org/{name,other}/a":       "without wildcards",
		"hf://org/model/a.parquet":               "datasets are read",
		"hf://spaces/org/name/a.parquet":         "datasets are read",
		"hf://datasets/org/name@a..b/a.parquet":  "a branch, a tag or a commit",
		"hf://datasets/org/name@/a.parquet":      "a branch, a tag or a commit",
		"hf://datasets/org/name/../other/a.json": "level ..",
		"hf://datasets/org/":                     "ORG/NAME",
	} {
		_, err := s.List(t.Context(), "", []string{uri})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hf_secret") {
			t.Errorf("%s: %v, want %q", uri, err, want)
		}
	}
	files, err := s.List(t.Context(), "", []string{"hf://datasets/org/name/"})
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	if err := s.ReadAt(t.Context(), "", files[1], make([]byte, large), 0); err != nil || h.tokens > 0 {
		t.Errorf("from the CDN, which was sent %d tokens: %v", h.tokens, err)
	}
	h.gated = true
	if err := s.ReadAt(t.Context(), "", files[0], make([]byte, 1), 0); !errors.Is(err, object.ErrDenied) ||
		!strings.Contains(err.Error(), "accept the terms of the dataset at "+h.endpoint+"/datasets/org/name") {
		t.Errorf("gated: %v", err)
	}
}

// TestPlaces: the hub is asked once where a large file is, until the URL that it gave is refused.
func TestPlaces(t *testing.T) {
	h := startHub(t)
	t.Setenv("HF_TOKEN", "hf_secret")
	h.put("large.parquet", make([]byte, large))
	s := store(t, h.endpoint, h.cdn)
	files, err := s.List(t.Context(), "", []string{"hf://datasets/org/name/"})
	if err != nil {
		t.Fatal(err)
	}
	for i, asked := range []int{1, 1, 2, 2} {
		h.mu.Lock()
		h.signed = i / 2 // the first signature ends
		h.mu.Unlock()
		if err := s.ReadAt(t.Context(), "", files[0], make([]byte, 10), 7); err != nil || h.asked != asked {
			t.Errorf("read %d: the hub was asked %d times, want %d: %v", i, h.asked, asked, err)
		}
	}
}

// TestHostile: a hub that is none, or leads elsewhere, gets no token, and none of its names leads out of the dataset.
func TestHostile(t *testing.T) {
	t.Setenv("HF_TOKEN", "hf_secret")
	sha := strings.Repeat("a", 40)
	stolen := false
	thief := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen = stolen || r.Header.Get("Authorization") != ""
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(thief.Close)
	for body, want := range map[string]string{
		`<html>`: "is not what the hub's API gives",
		`[{"type":"file","path":"../x.parquet","oid":"1","size":3}]`:   "check whether it is a hub",
		`[{"type":"file","path":"d/x.parquet","oid":"","size":3}]`:     "check whether it is a hub",
		`[{"type":"file","path":"d/x.parquet","oid":"1","size":-3}]`:   "check whether it is a hub",
		`[{"type":"file","path":"/x.parquet","oid":"1","size":3}]`:     "check whether it is a hub",
		`[{"type":"file","path":"d/y.parquet","oid":"1","size":3},{}]`: "goes on at another server",
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<"+thief.URL+`/more>; rel="next"`)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		_, err := store(t, server.URL, thief.URL).List(t.Context(), "", []string{"hf://datasets/org/name@" + sha + "/d/"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hf_secret") {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	if stolen {
		t.Error("another server was sent the token")
	}
}

// A listing whose later page is gone is no listing of the files before it.
func TestListingIsCut(t *testing.T) {
	h := startHub(t)
	for n := range 2 * page {
		h.put(fmt.Sprintf("d/%d.parquet", n), []byte("x"))
	}
	cut := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") != "" {
			refuse(w, http.StatusNotFound, "EntryNotFound")
			return
		}
		h.ServeHTTP(w, r)
	}))
	h.endpoint = cut
	files, err := store(t, cut, h.cdn).List(t.Context(), "", []string{"hf://datasets/org/name/d/"})
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "list again") {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// FuzzCanonical: a URI has one form, and that of a pinned file stays in its dataset.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{"@main/a", "@refs/convert/parquet/a", "@~parquet/", "@refs%2Fpr%2F1/a/../b", "/@b", "@a%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		uri, err := storage.Canonical("hf://datasets/org/name" + rest)
		if err != nil {
			return
		}
		if again, err := storage.Canonical(uri); err != nil || again != uri {
			t.Fatalf("%q becomes %q, %v", uri, again, err)
		}
	})
}

// A listing that goes round in a circle is an error.
func TestCircle(t *testing.T) {
	var asked atomic.Int64
	hub := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Link", fmt.Sprintf("<https://%s%s?cursor=again>; rel=\"next\"", r.Host, r.URL.EscapedPath()))
		fmt.Fprint(w, "[]")
	}))
	uri := "hf://datasets/org/name@" + strings.Repeat("a", 40) + "/data/"
	storagetest.Circle(t, store(t, hub, hub), uri, asked.Load)
}

// TestSplits: a whole dataset is read by its split, unless it is one, of one subset. The card is that of the revision.
func TestSplits(t *testing.T) {
	h := startHub(t)
	t.Setenv("HF_TOKEN_PATH", filepath.Join(t.TempDir(), "none"))
	card := func(configs string) []byte { return []byte("---\nconfigs:\n" + configs + "---\n") }
	train := "data/train-00000-of-00001.parquet"
	one := map[string][]byte{train: []byte("a"), "LICENSE": []byte("b"), ".gitattributes": []byte("c")}
	h.commit("one", one)
	h.commit("two", map[string][]byte{train: []byte("a"), "data/test-00000-of-00001.parquet": []byte("b")})
	h.commit("more", map[string][]byte{train: []byte("a"), "old.parquet": []byte("b")})
	h.commit("subsets", map[string][]byte{
		train: []byte("a"), "b.parquet": []byte("b"), "README.md": card("- {config_name: default, data_dir: .}\n" +
			"- {config_name: b, data_files: b.parquet}\n"),
	})
	s := store(t, h.endpoint, h.cdn)
	for _, of := range []struct{ at, split, subset, want string }{
		{"one", "", "", train},
		{"two", "", "", "dataset.split: there are the splits train and test: write dataset.split: train"},
		{"two/", "train", "", train},
		{"two/", "all", "", "data/test-00000-of-00001.parquet " + train},
		{"two/data", "", "", "data/test-00000-of-00001.parquet " + train},
		{"two/**/*.parquet", "", "", "data/test-00000-of-00001.parquet " + train},
		{"more", "", "", "the only split, train, leaves 1 file out"},
		{"more", "train", "", train},
		{"subsets", "", "", "dataset.subset: the dataset has the subsets default and b"},
		{"subsets", "train", "", train},
		{"subsets", "", "b", "b.parquet"},
	} {
		uri := "hf://datasets/org/name@" + of.at
		files, _, err := storage.Tell(t.Context(), s, &pb.Dataset{Uri: []string{uri}, Split: of.split, Subset: of.subset})
		var names []string
		for _, f := range files {
			_, name, _ := strings.Cut(strings.TrimPrefix(f.GetUri(), "hf://datasets/org/name@"), "/")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != of.want && (err == nil || !strings.Contains(err.Error(), of.want)) {
			t.Errorf("%+v: %q, %v", of, got, err)
		}
	}
}

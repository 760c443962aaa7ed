package hf_test

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// hub stands in for the Hugging Face Hub, as its documentation and huggingface_hub's requests have it: one dataset,
// org/name, of which each change is a commit. Large files are on a CDN, by redirects to signed URLs.
type hub struct {
	endpoint, cdn string
	token         string // that all must have; "": anybody may read
	gated         bool

	mu      sync.Mutex
	commits []map[string][]byte
	shas    map[string]int // commits, by the revisions that name them
	tokens  int            // those that the CDN was sent
	asked   int            // for files
	signed  int            // the signature that the CDN takes
}

const (
	large = 1000 // bytes of a file from which on it is on the CDN
	page  = 3    // entries
)

// startHub starts one with TLS, and a CDN that is another server.
func startHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{shas: map[string]int{}}
	h.commit("main", map[string][]byte{})
	h.endpoint, h.cdn = serve(t, h), serve(t, http.HandlerFunc(h.blob))
	return h
}

func serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are given up
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func (h *hub) commit(branch string, files map[string][]byte) (sha string) {
	h.commits = append(h.commits, files)
	sha = fmt.Sprintf("%x", sha1.Sum(fmt.Append(nil, len(h.commits))))
	h.shas[sha], h.shas[branch] = len(h.commits)-1, len(h.commits)-1
	return sha
}

func (h *hub) change(branch string, with func(map[string][]byte)) (sha string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := maps.Clone(h.commits[h.shas[branch]])
	with(next)
	return h.commit(branch, next)
}

func (h *hub) put(name string, content []byte) {
	h.change("main", func(files map[string][]byte) { files[name] = content })
}

func (h *hub) remove(name string) {
	h.change("main", func(files map[string][]byte) { delete(files, name) })
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Error-Code", code)
	w.WriteHeader(status)
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token {
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
		return
	}
	asked := r.URL.EscapedPath()
	question, rest, file := "resolve", "", false
	if rest, file = strings.CutPrefix(asked, "/datasets/org/name/resolve/"); !file {
		of, ok := strings.CutPrefix(asked, "/api/datasets/org/name/")
		if !ok {
			refuse(w, http.StatusUnauthorized, "RepoNotFound")
			return
		}
		question, rest, _ = strings.Cut(of, "/")
	}
	revision, in, _ := strings.Cut(rest, "/")
	revision, _ = url.PathUnescape(revision)
	in, _ = url.PathUnescape(in)
	at, ok := h.shas[revision]
	if !ok {
		refuse(w, http.StatusNotFound, "RevisionNotFound")
		return
	}
	h.answer(w, r, question, h.commits[at], revision, in)
}

func (h *hub) answer(w http.ResponseWriter, r *http.Request, question string, files map[string][]byte, rev, in string) {
	switch question {
	case "revision":
		for sha, at := range h.shas {
			if at == h.shas[rev] && len(sha) == 40 {
				_ = json.NewEncoder(w).Encode(map[string]any{"id": "org/name", "sha": sha})
			}
		}
	case "paths-info":
		entries := []map[string]any{}
		if r.ParseForm() == nil {
			for _, name := range r.PostForm["paths"] {
				if content, ok := files[name]; ok {
					entries = append(entries, entry(name, content))
				}
			}
		}
		_ = json.NewEncoder(w).Encode(entries)
	case "tree":
		h.tree(w, r, files, in)
	case "resolve":
		h.resolve(w, r, files, in)
	}
}

func (h *hub) tree(w http.ResponseWriter, r *http.Request, files map[string][]byte, dir string) {
	var entries []map[string]any
	folders := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		below, ok := name, true
		if dir != "" {
			below, ok = strings.CutPrefix(name, dir+"/")
		}
		if !ok {
			continue
		}
		for sub := path.Dir(below); sub != "."; sub = path.Dir(sub) {
			folders[path.Join(dir, sub)] = true
		}
		if r.URL.Query().Get("recursive") == "true" || !strings.Contains(below, "/") {
			entries = append(entries, entry(name, files[name]))
		}
	}
	if entries == nil && len(folders) == 0 && dir != "" {
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		entries = append(entries, map[string]any{"type": "directory", "oid": "0", "size": 0, "path": name})
	}
	from, _ := strconv.Atoi(cmp.Or(r.URL.Query().Get("cursor"), "0"))
	to := min(from+page, len(entries))
	if to < len(entries) {
		next := *r.URL
		q := next.Query()
		q.Set("cursor", strconv.Itoa(to))
		next.RawQuery = q.Encode()
		w.Header().Set("Link", fmt.Sprintf(`<%s%s>; rel="next"`, h.endpoint, next.RequestURI()))
	}
	_ = json.NewEncoder(w).Encode(append([]map[string]any{}, entries[min(from, to):to]...))
}

func entry(name string, content []byte) map[string]any {
	e := map[string]any{
		"type": "file", "path": name, "size": len(content), "oid": fmt.Sprintf("%x", sha1.Sum(content)),
	}
	if len(content) >= large {
		e["lfs"] = map[string]any{"oid": fmt.Sprintf("%x", sha256.Sum256(content)), "size": len(content), "pointerSize": 130}
	}
	return e
}

func (h *hub) resolve(w http.ResponseWriter, r *http.Request, files map[string][]byte, name string) {
	h.asked++
	content, ok := files[name]
	switch {
	case h.gated:
		refuse(w, http.StatusForbidden, "GatedRepo")
	case !ok:
		refuse(w, http.StatusNotFound, "EntryNotFound")
	case len(content) >= large:
		http.Redirect(w, r, fmt.Sprintf("%s/%x?X-Amz-Signature=%d", h.cdn, sha256.Sum256(content), h.signed), http.StatusFound)
	default:
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
	}
}

// blob is the CDN's answer: a file by its hash, for who has a signed URL.
func (h *hub) blob(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Header.Get("Authorization") != "" {
		h.tokens++
	}
	for _, files := range h.commits {
		for _, content := range files {
			if fmt.Sprintf("/%x", sha256.Sum256(content)) == r.URL.Path && r.URL.Query().Get("X-Amz-Signature") == strconv.Itoa(h.signed) {
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
				return
			}
		}
	}
	w.WriteHeader(http.StatusForbidden)
}

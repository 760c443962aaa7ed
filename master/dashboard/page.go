package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed page
var files embed.FS

// page serves the embedded files. Browsers ask each time whether they have the newest, and are told by the files'
// hashes.
func page() http.HandlerFunc {
	type file struct {
		content []byte
		tag     string
	}
	all := map[string]file{}
	err := fs.WalkDir(files, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		sum := sha256.Sum256(content)
		all[name[len("page"):]] = file{content, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	all["/"] = all["/index.html"]
	return func(w http.ResponseWriter, r *http.Request) {
		f, ok := all[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", f.tag)
		name := path.Base(r.URL.Path)
		if r.URL.Path == "/" {
			name = "index.html"
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
	}
}

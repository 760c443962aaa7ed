package tables

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables/iceberg/rest"
)

// TestCatalog reads a table where its catalogue says that it lies, and stays at a version while that moves on.
func TestCatalog(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("iceberg/testdata/tables/types")); err != nil {
		t.Fatal(err)
	}
	all, err := fs.Glob(os.DirFS(dir), "metadata/0*.metadata.json")
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	current, asked := all[1], 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked++; {
		case asked == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/v1/config":
			_, _ = fmt.Fprint(w, `{"defaults": {}, "overrides": {}}`)
		default:
			_, _ = fmt.Fprintf(w, `{"metadata-location": "file:%s", "metadata": {}}`, filepath.Join(dir, current))
		}
	}))
	defer server.Close()
	st, err := storage.New(storage.Config{Catalogs: map[string]rest.Config{"My-Lake": {URI: server.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	tell := func(uri string) (*Listing, error) {
		return Tell(t.Context(), st, &pb.Dataset{Uri: []string{uri}})
	}
	const uri = "iceberg+rest://my_lake/db.types"
	found, err := tell(uri)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Files) != 1 || !strings.HasPrefix(found.Files[0].GetUri(), "file://"+dir+"/data/") ||
		found.Table.URI != uri+"@"+found.Table.Version || asked != 3 {
		t.Errorf("after %d requests: %v of %s", asked, found.Files, found.Table.URI)
	}
	if again, err := tell(found.Table.URI); err != nil || again.Table.URI != found.Table.URI {
		t.Errorf("got %v, %v", again, err)
	}
	current = all[0] // as of a table that was dropped and made again: it has no such snapshot
	if again, err := tell(found.Table.URI); err == nil || !strings.Contains(err.Error(), found.Table.Version) {
		t.Errorf("got %v, %v", again, err)
	}
	current = "../elsewhere.metadata.json"
	for uri, want := range map[string]string{
		uri:                           "not in metadata/ of the table's folder",
		"delta+rest://my_lake/db.t":   "write iceberg+rest://my_lake/db.t",
		"iceberg+rest://other/db.t":   "the storage configuration has my_lake",
		"iceberg+rest://my_lake":      "names no table",
		"iceberg+rest://my_lake/t":    "names no namespace",
		"iceberg+rest://my_lake/db/t": "%2F for a /",
	} {
		if _, err := tell(uri); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", uri, err, want)
		}
	}
	_, err = Tell(t.Context(), st, &pb.Dataset{Uri: []string{uri}, Storage: "default"})
	if err == nil || strings.Contains(err.Error(), "dataset.storage") {
		t.Errorf("the profile default has another name: %v", err)
	}
}

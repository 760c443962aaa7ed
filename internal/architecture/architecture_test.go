// Package architecture holds the tests that keep imports running one way.
package architecture

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/penstock-ml/penstock"

// allowed says, for each part of the project, which parts it may import besides itself.
var allowed = map[string][]string{
	"api":      {},
	"internal": {"api"},
	"master":   {"api", "internal"},
	"worker":   {"api", "internal"},
	"client":   {"api", "internal"},
	"bench":    {"api", "internal", "master", "worker", "client", "cmd"},
	"deploy":   {"api", "internal", "master", "worker", "client"},
	"cmd":      {"api", "internal", "master", "worker", "client"},
	"main.go":  {"api", "internal", "master", "worker", "client", "cmd"},
}

// only says which packages alone may import a module.
var only = map[string][]string{
	"go.etcd.io/etcd/":            {"master/store"},
	"github.com/minio/minio-go/":  {"internal/storage"},
	"golang.org/x/oauth2":         {"internal/storage/gs", "internal/tables/iceberg/rest"},
	"github.com/Azure/":           {"internal/storage/az"},
	"cloud.google.com/go/":        {"internal/storage/gs"},
	"github.com/hashicorp/member": {"internal/fleet"},
	"github.com/spf13/viper":      {"internal/cli"},
	"text/tabwriter":              {"internal/terminal", "bench"}, // names in tables are quoted
	"k8s.io/":                     {"master/autoscale/kubernetes", "deploy/kubernetes"},
}

// offline packages know no network and no clock. zones is none of them: it reads tables, which the package time can.
var offline = []string{
	"master/plan", "master/session", "worker/transform", "worker/formats", "worker/tensor",
	"api/position", "api/spec", "api/expr", "api/filter",
}

// Of formats know those who describe files by them, plan by what these say, and decode them. One format is its own
// folders' affair.
var formats = map[string][]string{
	"internal/formats": {
		"internal/formats", "internal/fitted", "internal/tables", "master", "worker/formats", "worker/pipeline",
		"worker/excluded", "worker/tables", "worker/apply", "cmd", "bench/layout",
	},
	"worker/formats": {"worker/formats", "worker/pipeline", "worker/excluded", "worker/tables", "worker/apply", "cmd"},
	// fitted, encode: thrift alone
	"internal/formats/parquet": {"internal/formats", "internal/fitted", "internal/tables", "cmd/convert/encode", "worker/formats"},
	"internal/formats/arrow":   {"internal/formats", "worker/formats"},
	"worker/formats/parquet":   {"worker/formats"},
	"worker/formats/arrow":     {"worker/formats"},
}

const zones = "worker/transform/zoneinfo/"

func TestImportsRunOneWay(t *testing.T) {
	eachImport(t, func(file, imported string) {
		top, _, _ := strings.Cut(file, "/")
		inside, ours := strings.CutPrefix(imported, module+"/")
		if !ours {
			return
		}
		to, _, _ := strings.Cut(inside, "/")
		if to == top {
			return
		}
		for _, ok := range allowed[top] {
			if ok == to {
				return
			}
		}
		t.Errorf("%s imports %s: %s may import %v", file, imported, top, allowed[top])
	})
}

func TestOnePackageForEachOutsider(t *testing.T) {
	eachImport(t, func(file, imported string) {
		for prefix, owners := range only {
			owned := slices.ContainsFunc(owners, func(owner string) bool { return strings.HasPrefix(file, owner+"/") })
			if strings.HasPrefix(imported, prefix) && !owned {
				t.Errorf("%s imports %s: only %v may", file, imported, owners)
			}
		}
	})
}

func TestDecisionsAreOffline(t *testing.T) {
	eachImport(t, func(file, imported string) {
		for _, dir := range offline {
			if strings.HasPrefix(file, dir+"/") && !strings.HasPrefix(file, zones) &&
				!strings.HasSuffix(file, "_test.go") &&
				(imported == "net" || imported == "time" || imported == "os" ||
					strings.HasPrefix(imported, "google.golang.org/grpc")) {
				t.Errorf("%s imports %s: %s knows no network and no clock", file, imported, dir)
			}
		}
	})
}

func TestFormatsEndAtTheWindow(t *testing.T) {
	eachImport(t, func(file, imported string) {
		if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "test/") {
			return
		}
		for dir, users := range formats {
			ours := strings.HasPrefix(imported+"/", module+"/"+dir+"/")
			knows := slices.ContainsFunc(users, func(user string) bool { return strings.HasPrefix(file, user+"/") }) &&
				!strings.HasPrefix(file, "master/session/")
			if ours && !knows {
				t.Errorf("%s imports %s: only %v may, and not master/session", file, imported, users)
			}
		}
	})
}

// eachImport calls f with each Go file, relative to the root, and each path that it imports.
func eachImport(t *testing.T, f func(file, imported string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f(filepath.ToSlash(rel), imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("found %d Go files only; is %s the root?", files, root)
	}
}

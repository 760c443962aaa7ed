package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestMacOS checks the types of the binary for Macs, which users have and no machine of ours is. Without what is inside
// the functions of dependencies that takes a tenth of a compiler's time.
func TestMacOS(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pkgs, err := packages.Load(&packages.Config{
		Context: t.Context(),
		Mode:    packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
		Dir:     root,
		Env:     append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"),
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if file != nil && !ours(root, name) {
				dropBodies(file)
			}
			return file, err
		},
	}, module)
	if err != nil {
		t.Fatal(err)
	}
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		if p.PkgPath != module && !strings.HasPrefix(p.PkgPath, module+"/") {
			return // without their bodies they import what they do not use
		}
		for _, e := range p.Errors {
			t.Error(e)
		}
	})
}

// ours tells this module's files from those of others and of Go itself.
func ours(root, name string) bool { return strings.HasPrefix(name, root+string(filepath.Separator)) }

func dropBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}

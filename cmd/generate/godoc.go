package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

const module = "github.com/penstock-ml/penstock/"

// packages are those that programs outside this repository import.
func packages() []string {
	return []string{"client", "api/spec", "worker/transform", "worker/apply", "cmd"}
}

// golang is the page of the packages' exported names and their comments. root is the repository's.
func golang(root string) (string, error) {
	var b strings.Builder
	b.WriteString("# Go API\n\nThe packages that a trainer in Go, or a worker with ops of its own, imports.\n")
	for _, dir := range packages() {
		p, fset, err := parse(filepath.Join(root, dir), module+dir)
		if err != nil {
			return "", err
		}
		g := gopage{&b, fset, p}
		g.write()
	}
	return b.String(), nil
}

// parse reads the package in a folder.
func parse(dir, path string) (*doc.Package, *token.FileSet, error) {
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(filepath.Base(name), "example") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, path)
	return p, fset, err
}

// gopage writes one package's part of the page.
type gopage struct {
	*strings.Builder
	fset *token.FileSet
	of   *doc.Package
}

func (g gopage) write() {
	fmt.Fprintf(g, "\n## %s\n\n```go\nimport \"%s\"\n```\n\n", g.of.Name, g.of.ImportPath)
	g.comment(g.of.Doc)
	g.examples(g.of.Examples)
	g.values(g.of.Consts)
	g.values(g.of.Vars)
	for _, f := range g.of.Funcs {
		g.function("", f)
	}
	for _, t := range g.of.Types {
		fmt.Fprintf(g, "\n### %s.%s\n\n", g.of.Name, t.Name)
		g.code(t.Decl)
		g.comment(t.Doc)
		g.examples(t.Examples)
		g.values(t.Consts)
		g.values(t.Vars)
		for _, f := range t.Funcs {
			g.function("", f)
		}
		for _, f := range t.Methods {
			g.function(t.Name+".", f)
		}
	}
}

func (g gopage) values(all []*doc.Value) {
	for _, v := range all {
		g.WriteString("\n")
		g.code(v.Decl)
		g.comment(v.Doc)
	}
}

func (g gopage) function(of string, f *doc.Func) {
	fmt.Fprintf(g, "\n#### %s.%s%s\n\n", g.of.Name, of, f.Name)
	f.Decl.Body = nil
	g.code(f.Decl)
	g.comment(f.Doc)
	g.examples(f.Examples)
}

// code prints a declaration. Its comment follows as text.
func (g gopage) code(d ast.Decl) {
	switch d := d.(type) {
	case *ast.GenDecl:
		d.Doc = nil
	case *ast.FuncDecl:
		d.Doc = nil
	}
	g.block(d)
}

func (g gopage) block(node any) {
	var b bytes.Buffer
	format := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 4}
	if err := format.Fprint(&b, g.fset, node); err != nil {
		panic(err) // what was parsed can be printed
	}
	fmt.Fprintf(g, "\n```go\n%s\n```\n\n", strings.TrimSpace(b.String()))
}

func (g gopage) examples(all []*doc.Example) {
	for _, e := range all {
		var node any = &printer.CommentedNode{Node: e.Code, Comments: e.Comments}
		if e.Play != nil {
			node = e.Play
		}
		g.block(node)
	}
}

// comment prints a comment as Markdown, without links among Go's names.
func (g gopage) comment(text string) {
	p := g.of.Printer()
	p.HeadingLevel = 5
	p.HeadingID = func(*comment.Heading) string { return "" }
	p.DocLinkURL = func(*comment.DocLink) string { return "" }
	g.Write(p.Markdown(g.of.Parser().Parse(text)))
}

// Package expr is the language of expressions over the columns of a row (docs/reference/expressions.md): it parses text
// to a tree, prints it, and checks it against the types of columns. api/filter has the conditions among them that
// statistics tell of, api/spec checks specs with it, and worker/transform computes what Check returns. A tree is
// immutable: any number of goroutines may use it.
package expr

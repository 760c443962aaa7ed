// Package spec is the spec of a session: it reads the YAML or JSON that users write into a pb.Spec, resolves that
// against a dataset's schema and a catalog of ops into the pb.Program that workers run, and reports all mistakes at
// once. internal/formats supplies schemas, worker/transform the catalog; the master pins the program in its session.
// docs/reference/spec.md is the reference of the spec. Everything here is a pure function over its arguments: any
// number of goroutines may call it, as long as nobody changes the arguments meanwhile.
package spec

// Package transform holds the ops of a spec: a registry in which the master checks them and from which a worker
// compiles a Program's steps into a chain of kernels over columns. On the path it stands between worker/formats,
// which makes the source vectors of a window, and worker/tensor, which lays the resulting ones out as batches.
//
// An op's result is a pure function of its inputs, its parameters and, for ops that choose rows, of Rows: bit for
// bit the same on any worker, CPU and architecture, whatever else the window holds. Kernels work row by row, so
// that a caller may run them before or after rows were chosen.
//
// A Chain runs a column's steps one after another, while the column is in cache, and values that nobody reads any more
// lend their memory to the next step. Hot loops have a form in assembly (_amd64.s) for CPUs with AVX or AVX-512, beside
// one in plain Go that other CPUs run, that a vector's rest goes through, and that fuzz tests compare with, bit for
// bit.
//
// A Registry is immutable and safe for concurrent use. A Chain holds the memory of its results and belongs to one
// stream: it is not safe for concurrent use.
package transform

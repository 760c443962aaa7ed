//go:build !amd64

package parquet

// prefetch would ask for b to be brought into the caches; other CPUs than amd64's bring what they see being read.
func prefetch([]byte) {}

// Package filter is the predicate language of row filters and of hive partition filters (docs/reference/filters.md): it
// parses text to an Expr, checks it against column types, tells from statistics whether a row group can hold a match,
// and evaluates single rows. api/spec validates specs with it, the master prunes files and row groups, and
// worker/filter compiles an Expr for vectors. An Expr is immutable once parsed: any number of goroutines may use it.
package filter

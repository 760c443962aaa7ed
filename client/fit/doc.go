// Package fit computes what transforms ask of the data: mean and standard deviation, least and greatest value,
// quantiles, the most frequent value, and vocabularies. It is fed with the columns that a fit's session delivers
// (client), and writes a fitted file (internal/fitted), which specs then name.
//
// All results are functions of which values there are and how often, so that no order of rows, number of workers or
// split into parts changes a bit: sums are exact (exact.go), and all else comes from a counted set (set.go), which
// knows each distinct value with its count. Sets are bounded in memory: what is too much goes to sorted runs in the
// fit's folder, which are merged in the end.
//
//	Add ─ a bounded queue a column ─▶ column: tally and sums, set ─ runs ─▶ merge ─▶ results ─▶ fitted.Writer
//
// A column belongs to one goroutine, which Open starts and Close waits for. All methods of Fit belong to one goroutine
// of the caller's.
//
// The rules: a null is counted and nothing else. A NaN is counted, too, and is no value. -0 is 0. Infinities are
// values, but a column that has some has neither mean nor standard deviation. Of a list, its elements are the values.
package fit

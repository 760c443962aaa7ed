package reference

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Expected is what an epoch should deliver: of each file the rows that pass, with their hashes.
type Expected struct {
	files []expectedFile // by the file's index
}

type expectedFile struct {
	uri    string
	rows   []int64 // ascending
	hashes []uint64
}

// All yields what is expected, in order of file and row.
func (e *Expected) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for i, f := range e.files {
			for j, row := range f.rows {
				if !yield(Record{int32(i), row, f.hashes[j]}) {
					return
				}
			}
		}
	}
}

// name says which row a record is about.
func (e *Expected) name(r Record) string {
	if r.File < 0 || int(r.File) >= len(e.files) {
		return fmt.Sprintf("file number %d (of %d) row %d", r.File, len(e.files), r.Row)
	}
	return fmt.Sprintf("%s row %d", e.files[r.File].uri, r.Row)
}

// Report is the result of Compare.
type Report struct {
	// Rows that should have been delivered, and rows that were.
	Expected, Delivered int64
	// Expected rows that nobody got; deliveries of a row beyond its first; deliveries of other content than expected;
	// deliveries of rows that the filter leaves out or that do not exist.
	Missing, Doubled, Altered, Unexpected int64
	// Sums modulo 2^64 over (file, row, content), which do not depend on the order.
	ChecksumExpected, ChecksumDelivered uint64
	// Examples names the first few rows of each fault.
	Examples []string
}

// OK reports whether exactly the expected rows were delivered, each once and unaltered.
func (r Report) OK() bool {
	return r.Missing|r.Doubled|r.Altered|r.Unexpected == 0 &&
		r.Expected == r.Delivered && r.ChecksumExpected == r.ChecksumDelivered
}

// String is the report in a few lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rows: %d expected, %d delivered; checksums: %016x expected, %016x delivered",
		r.Expected, r.Delivered, r.ChecksumExpected, r.ChecksumDelivered)
	if !r.OK() {
		fmt.Fprintf(&b, "\n%d missing, %d doubled, %d altered, %d unexpected", r.Missing, r.Doubled, r.Altered,
			r.Unexpected)
	}
	for _, x := range r.Examples {
		fmt.Fprintf(&b, "\n  %s", x)
	}
	return b.String()
}

// examplesPerFault bounds Report.Examples.
const examplesPerFault = 5

// comparison is the state of Compare.
type comparison struct {
	expected *Expected
	seen     [][]bool // for each file, each of its expected rows
	report   Report
}

// Compare reads trainers' ledgers and compares what they were handed, together, with what one epoch should deliver.
// Faults of the delivery are in the report; an error means that the comparison could not be made.
func Compare(expected *Expected, ledgers ...string) (Report, error) {
	c := newComparison(expected)
	for _, path := range ledgers {
		if err := ReadLedger(path, c.delivered); err != nil {
			return Report{}, err
		}
	}
	return c.finish(), nil
}

func newComparison(expected *Expected) *comparison {
	c := &comparison{expected: expected}
	for _, f := range expected.files {
		c.seen = append(c.seen, make([]bool, len(f.rows)))
	}
	for r := range expected.All() {
		c.report.Expected++
		c.report.ChecksumExpected += r.checksum()
	}
	return c
}

func (c *comparison) delivered(r Record) {
	c.report.Delivered++
	c.report.ChecksumDelivered += r.checksum()
	at, found := c.find(r)
	if !found {
		c.fault(&c.report.Unexpected, "unexpected", r)
		return
	}
	if c.expected.files[r.File].hashes[at] != r.Hash {
		c.fault(&c.report.Altered, "altered", r)
	}
	if c.seen[r.File][at] {
		c.fault(&c.report.Doubled, "doubled", r)
	}
	c.seen[r.File][at] = true
}

// find returns the place of a record among its file's expected rows.
func (c *comparison) find(r Record) (at int, found bool) {
	if r.File < 0 || int(r.File) >= len(c.expected.files) {
		return 0, false
	}
	return slices.BinarySearchFunc(c.expected.files[r.File].rows, r.Row, cmp.Compare)
}

// finish finds what is missing.
func (c *comparison) finish() Report {
	for i, seen := range c.seen {
		for j, ok := range seen {
			if !ok {
				f := c.expected.files[i]
				c.fault(&c.report.Missing, "missing", Record{int32(i), f.rows[j], f.hashes[j]})
			}
		}
	}
	return c.report
}

func (c *comparison) fault(count *int64, what string, r Record) {
	if *count < examplesPerFault {
		c.report.Examples = append(c.report.Examples, what+": "+c.expected.name(r))
	}
	*count++
}

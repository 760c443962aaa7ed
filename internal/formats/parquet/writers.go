package parquet

import (
	"fmt"
	"slices"
	"strings"
)

// maxDictionaryHeader is more bytes than the header of a dictionary page has.
const maxDictionaryHeader = 100

// leavesHeadersOut reports whether files of a writer leave the headers of dictionary pages out of the lengths of column
// chunks: parquet-mr did before 1.2.9, whose files may not say which it is (PARQUET-816, IMPALA-694).
func leavesHeadersOut(createdBy string) bool {
	rest, ok := strings.CutPrefix(createdBy, "parquet-mr")
	if !ok {
		return false
	}
	version := make([]int, 3)
	// What is missing of a version is 0.
	_, _ = fmt.Sscanf(rest, " version %d.%d.%d", &version[0], &version[1], &version[2])
	return slices.Compare(version, []int{1, 2, 9}) < 0
}

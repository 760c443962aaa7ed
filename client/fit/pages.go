package fit

import "unsafe"

// pageSize is that of most systems' least pages.
const pageSize = 4096

// makeTable is make, with each page written once, in order. Tables are read before they are written, all over, and a
// page that is read first is mapped twice: once for reading, and once more when it is written.
func makeTable[T any](n int) []T {
	table := make([]T, n)
	var free T
	for i := 0; i < n; i += max(1, pageSize/int(unsafe.Sizeof(free))) {
		table[i] = free
	}
	return table
}

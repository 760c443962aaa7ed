package transform

import "strings"

// nearest returns the name with the least edit distance to what was written, the first of equals; one that starts
// with what was written counts as close.
func nearest(written string, names []string) string {
	best, least := "", 0
	for _, name := range names {
		d := editDistance(written, name)
		if strings.HasPrefix(name, written) {
			d = 1
		}
		if best == "" || d < least {
			best, least = name, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete or replace to make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

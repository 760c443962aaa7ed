package natural

import "iter"

// Nearest returns the candidate that name is most likely a misspelling of, or "". Among equally near ones it takes
// one of the same length, then the first in natural order.
func Nearest(name string, candidates iter.Seq[string]) string {
	if name == "" || len(name) > 200 {
		return ""
	}
	limit := max(1, len(name)/3)
	best, bestDistance := "", limit+1
	better := func(c string, d int) bool {
		if d != bestDistance || best == "" {
			return d < bestDistance
		}
		if same := len(c) == len(name); same != (len(best) == len(name)) {
			return same
		}
		return Compare(c, best) < 0
	}
	var rows [3][]int
	for c := range candidates {
		if c == "" || len(c)-len(name) > bestDistance || len(name)-len(c) > bestDistance {
			continue
		}
		if d := distance(name, c, bestDistance, &rows); d <= limit && better(c, d) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, substitutions and swaps of neighbours that make b of a, up to a limit
// above which it stops.
func distance(a, b string, limit int, rows *[3][]int) int {
	for i := range rows {
		if cap(rows[i]) <= len(b) {
			rows[i] = make([]int, len(b)+1, 2*len(b)+16)
		}
		rows[i] = rows[i][:len(b)+1]
	}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		lowest := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			lowest = min(lowest, row[j])
		}
		if lowest > limit {
			return lowest
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Package words writes numbers for people: reasons of the scaler, tables of commands. It is pure.
package words

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
)

// unbounded is a demand, in rows/s, that no training loop has: one that computes nothing takes all that comes.
const unbounded = 1e8

// Percent is a share: 0.0123 is "1.2%".
func Percent(share float64) string {
	if share > 0 && share < 0.0995 {
		return fmt.Sprintf("%.1f%%", 100*share)
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

// Size is a number of bytes.
func Size(bytes float64) string { return humanize.IBytes(uint64(max(0, bytes))) }

// Rate is a number of rows in a second.
func Rate(rows float64) string {
	return strings.TrimSpace(humanize.SIWithDigits(rows, 1, "")) + " rows/s"
}

// Unbounded tells of a demand that it is no number to go by: trainers take all that comes.
func Unbounded(demand float64) bool { return demand >= unbounded }

// Demand is what trainers could take in a second.
func Demand(rows float64) string {
	if Unbounded(rows) {
		return "all that comes"
	}
	return Rate(rows)
}

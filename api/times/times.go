// Package times reads dates and times as text, and counts them as columns of times do: for api/expr, whose comparisons
// have such text, and for what puts rows of JSON into columns (cmd/apply). It knows no clock. Everything is pure.
package times

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"time"
)

// Unit is what a column's integers count since 1970, UTC: "d", "s", "ms", "us" or "ns". That of other columns is "".
type Unit string

// Days is the unit of dates.
const Days Unit = "d"

func (u Unit) nanoseconds() int64 {
	return map[Unit]int64{Days: 24 * 60 * 60 * 1e9, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}[u]
}

// isTime is what ISO 8601 has of dates and times, its short forms aside. Digits beyond those of nanoseconds are none.
var isTime = regexp.MustCompile(
	`^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?` +
		`(?:Z|([+-](?:[01]\d|2[0-3]))(?::?([0-5]\d))?)?)?$`)

// Parse reads a date, or a date and a time, as ISO 8601 writes them. They are UTC, unless they name a zone.
func Parse(text string) (time.Time, error) {
	part := isTime.FindStringSubmatch(text)
	if part == nil {
		return time.Time{}, fmt.Errorf("%.40q is no time as ISO 8601 writes it", text)
	}
	zone := "Z"
	if part[5] != "" {
		zone = part[5] + ":" + cmp.Or(part[6], "00")
	}
	at, err := time.Parse(time.RFC3339Nano, part[1]+"T"+cmp.Or(part[2], "00:00")+":"+cmp.Or(part[3], "00")+"."+
		cmp.Or(part[4], "0")+zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time that there is", text)
	}
	return at.UTC(), nil
}

// String is the unit as messages have it.
func (u Unit) String() string {
	if u == Days {
		return "a date"
	}
	return "timestamp[" + string(u) + "]"
}

// Example is a time that columns of the unit are compared with.
func (u Unit) Example() string {
	if u == Days {
		return "2024-01-31"
	}
	return "2024-01-31 12:00:00"
}

// Count is how many of the unit have passed at a time, rounded down, and whether that left something.
func (u Unit) Count(at time.Time) (whole *big.Int, rest bool) {
	nanoseconds := new(big.Int).Mul(big.NewInt(at.Unix()), big.NewInt(1e9))
	nanoseconds.Add(nanoseconds, big.NewInt(int64(at.Nanosecond())))
	whole, left := nanoseconds.DivMod(nanoseconds, big.NewInt(u.nanoseconds()), new(big.Int))
	return whole, left.Sign() != 0
}

// Of is Count in 64 bits. It fails where it takes more.
func (u Unit) Of(at time.Time) (int64, error) {
	whole, _ := u.Count(at)
	if !whole.IsInt64() {
		return 0, fmt.Errorf("%s is beyond the 64 bits of %v", at.Format(time.RFC3339Nano), u)
	}
	return whole.Int64(), nil
}

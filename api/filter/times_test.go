package filter

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/times"
)

// nanoseconds are how many each unit has.
var nanoseconds = map[times.Unit]int64{"d": 24 * 3600e9, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}

// TestTimesCompareAsTheyAre compares counts of all units with times as text, in all ways and zones, finer than the unit
// and beyond it: as Go's times compare, with bounds of the one value, too.
func TestTimesCompareAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]times.Unit{"d", "s", "ms", "us", "ns"}).Draw(t, "unit")
		at, text := anyTime(t)
		count := new(big.Int).Add(new(big.Int).Mul(big.NewInt(at.Unix()), big.NewInt(1e9)),
			big.NewInt(int64(at.Nanosecond())))
		near := new(big.Int).Div(count, big.NewInt(nanoseconds[unit]))
		value := rapid.Int64().Draw(t, "value")
		if near.IsInt64() {
			value = near.Int64() + rapid.Int64Range(-1, 1).Draw(t, "beside")
		}
		sign := new(big.Int).Mul(big.NewInt(value), big.NewInt(nanoseconds[unit])).Cmp(count)
		for condition, want := range map[string]bool{
			"at < T": sign < 0, "at <= T": sign <= 0, "at > T": sign > 0, "at >= T": sign >= 0, "at == T": sign == 0,
			"at != T": sign != 0, "T < at": sign > 0, "T >= at": sign <= 0, "at between T and T": sign == 0,
			"T between at and at": sign == 0, "at in (T)": sign == 0, "at not in (T, T)": sign != 0,
			"not (at not between T and '9999-12-31' and at < '0000-01-01')": true,
		} {
			n, err := expr.Parse(strings.ReplaceAll(condition, "T", "'"+text+"'"))
			if err != nil {
				t.Fatal(err)
			}
			if n, err = n.Timed(func(string) times.Unit { return unit }); err != nil {
				t.Fatal(err)
			}
			e, err := Parse(n.String())
			if err != nil {
				t.Fatalf("%v: %v", n, err)
			}
			truth, err := e.Eval(func(string) (expr.Value, bool) { return expr.Int(value), true })
			if err != nil || (truth == True) != want {
				t.Fatalf("%s of %s, at %d %s: %v is %v, %v", condition, text, value, unit, e, truth, err)
			}
			may := e.MayMatch(func(string) (Stats, bool) {
				return Stats{Min: expr.Int(value), Max: expr.Int(value), HasMinMax: true, Rows: 1}, true
			})
			if simple := e.Op >= Eq; simple && may != want || want && !may {
				t.Fatalf("%s of %s, at %d %s: %v may match: %v", condition, text, value, unit, e, may)
			}
		}
	})
}

// anyTime is a time and what ISO 8601 writes for it.
func anyTime(t *rapid.T) (time.Time, string) {
	seconds := rapid.OneOf(rapid.Int64Range(-2, 200_000), rapid.Int64Range(-62_000_000_000, 253_000_000_000)).Draw(t, "seconds")
	fraction := rapid.SampledFrom([]int{0, 0, 1, 1000, 500_000_000, 999_999_999}).Draw(t, "fraction")
	at := time.Unix(seconds, int64(fraction)).UTC()
	if rapid.Bool().Draw(t, "a day") {
		at = at.Truncate(24 * time.Hour)
		return at, at.Format(time.DateOnly)
	}
	layout := rapid.SampledFrom([]string{
		"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02 15:04:05.000000000", "2006-01-02 15:04:05,999999999-0700",
		"2006-01-02T15:04:05.999999999Z",
	}).Draw(t, "layout")
	offset := rapid.SampledFrom([]int{0, 3600, -5*3600 - 1800, 14 * 3600}).Draw(t, "offset")
	if strings.Contains(layout, "07") {
		return at, at.In(time.FixedZone("", offset)).Format(layout)
	}
	return at, at.Format(layout)
}

package zoneinfo

import (
	"fmt"
	"math"
	"time"
)

// Spans are those of time in which a zone's clocks run evenly. They end with the cycle that begins in 2100: by then
// zones follow rules, and what a rule says of a date repeats with the calendar.
type Spans struct {
	Starts  []int64 // in Unix seconds; the first is the least int64
	Offsets []int64 // seconds that local time is ahead of UTC, modulo a day
}

// In Unix seconds.
const (
	Day = 24 * 60 * 60
	// Cycle is after what the calendar repeats: 400 years, which are whole weeks.
	Cycle      = 146_097 * Day
	CycleStart = 4_102_444_800 // 2100-01-01 00:00 UTC
	CycleEnd   = CycleStart + Cycle
)

// Zone returns a zone's spans; false if there is no zone of that name.
func Zone(name string) (Spans, bool, error) {
	data, ok, err := Load(name)
	if err != nil || !ok {
		return Spans{}, false, err
	}
	place, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return Spans{}, false, fmt.Errorf("time zone %s: %w", name, err)
	}
	z := Spans{}
	at, start := time.Unix(-1<<40, 0).In(place), int64(math.MinInt64)
	for start < CycleEnd {
		_, offset := at.Zone()
		ahead := int64((offset%Day + Day) % Day)
		if len(z.Offsets) == 0 || ahead != z.Offsets[len(z.Offsets)-1] {
			z.Starts, z.Offsets = append(z.Starts, start), append(z.Offsets, ahead)
		}
		_, end := at.ZoneBounds()
		if end.IsZero() {
			break
		}
		if !end.After(at) { // which Go says of the last day of leap years
			end = at.Add(time.Hour)
		}
		at, start = end, end.Unix()
	}
	return z, true, nil
}

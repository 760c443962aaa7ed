package literal

import (
	"bytes"
	"time"
)

const day = 24 * 60 * 60

// TimeKind is the narrowest kind of a text that is a date or a time by ISO 8601, or Unknown. One of midnight is a time
// if it says so.
func TimeKind(text []byte) Kind {
	t, ok := ParseTime(text)
	switch {
	case !ok:
		return Unknown
	case len(text) == len(time.DateOnly):
		return Date
	}
	return max(Micros, Needs(t))
}

// Needs is the narrowest kind that holds all of a time.
func Needs(t time.Time) Kind {
	switch {
	case t.Nanosecond()%1000 != 0:
		return Nanos
	case t.Truncate(day * time.Second).Equal(t): // since the year 1, in UTC
		return Date
	}
	return Micros
}

// ParseTime reads a date, or a date and a time of day after a T or a space, perhaps with fractions of a second and
// with a zone. Without one it is UTC.
func ParseTime(text []byte) (time.Time, bool) {
	const date = len(time.DateOnly)
	if len(text) < date || text[4] != '-' || text[7] != '-' { // as most texts
		return time.Time{}, false
	}
	if len(text) == date {
		t, err := time.Parse(time.DateOnly, view(text))
		return t, err == nil
	}
	if text[date] != ' ' && text[date] != 'T' || bytes.IndexByte(text, ',') >= 0 { // which Go takes for a point
		return time.Time{}, false
	}
	rest := string(text[:date]) + "T" + string(text[date+1:])
	for _, layout := range []string{
		"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
		"2006-01-02T15:04:05 UTC",
		"2006-01-02T15:04",
	} {
		if t, err := time.Parse(layout, rest); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Days reads a date as days since 1970.
func Days(text []byte) (int64, bool) {
	t, ok := ParseTime(text)
	return t.Unix() / day, ok && Needs(t) == Date // which divides
}

// MicrosOf reads a time as microseconds since 1970.
func MicrosOf(text []byte) (int64, bool) {
	t, ok := ParseTime(text)
	return t.UnixMicro(), ok && Needs(t) != Nanos
}

// NanosOf reads a time as nanoseconds since 1970, which an int64 holds for the years 1678 to 2261.
func NanosOf(text []byte) (int64, bool) {
	t, ok := ParseTime(text)
	n := t.UnixNano()
	return n, ok && t.Equal(time.Unix(0, n))
}

package convert

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/itchyny/timefmt-go"

	"github.com/penstock-ml/penstock/internal/formats/literal"
)

// times are the formats of dates and times, as of strptime; ISO 8601 if there are none.
type times []string

// checked fails if a format is none.
func (formats times) checked() error {
	for _, format := range formats {
		if strings.Contains(format, "%Z") {
			return fmt.Errorf("the time format %q reads names of zones, which say no offset (EST has several): write "+
				"%%z for offsets such as +0200, or the name itself if all times are UTC", format)
		}
		now := timefmt.Format(time.Unix(0, 0).UTC(), format)
		if _, err := timefmt.ParseInLocation(now, format, time.UTC); err != nil || now == format {
			return fmt.Errorf(
				"the time format %q is none; write such as %%d.%%m.%%Y %%H:%%M:%%S, or %%s for Unix time", format)
		}
	}
	return nil
}

// parse reads a date or a time, and says whether it is written without a time of day.
func (formats times) parse(text []byte) (t time.Time, date, ok bool) {
	if len(formats) == 0 {
		t, ok = literal.ParseTime(text)
		return t, len(text) == len(time.DateOnly), ok
	}
	for _, format := range formats {
		if t, err := timefmt.ParseInLocation(string(text), format, time.UTC); err == nil {
			return t.UTC(), isDate(format), !beyondMonth(t, string(text), format)
		}
	}
	return t, false, false
}

// beyondMonth reports whether a text has a day that its month lacks, such as 31.02., of which timefmt makes one of the
// next month.
func beyondMonth(t time.Time, text, format string) bool {
	if t.Day() > 3 {
		return false
	}
	day := strconv.Itoa(t.AddDate(0, 0, -t.Day()).Day() + t.Day())
	return strings.Count(text, day) > strings.Count(timefmt.Format(t, format), day)
}

// isDate reports whether a format has no time of day: two of them are written the same.
func isDate(format string) bool {
	noon := time.Date(2026, 1, 2, 12, 34, 56, 789, time.UTC)
	return timefmt.Format(noon, format) == timefmt.Format(noon.Truncate(24*time.Hour), format)
}

// appendTime adds a date or a time, or returns an error if the kind does not hold all of it.
func (k kind) appendTime(b array.Builder, text []byte, formats times) error {
	t, _, ok := formats.parse(text)
	if !ok {
		return errValue
	}
	needs := literal.Needs(t)
	switch b := b.(type) {
	case *array.Date32Builder:
		if needs != literal.Date {
			return errValue
		}
		b.Append(arrow.Date32FromTime(t))
	case *array.TimestampBuilder:
		switch {
		case k == timestampKind && needs != literal.Nanos:
			b.Append(arrow.Timestamp(t.UnixMicro()))
		// which an int64 holds for the years 1678 to 2261
		case k == nanosecondsKind && t.Equal(time.Unix(0, t.UnixNano())):
			b.Append(arrow.Timestamp(t.UnixNano()))
		default:
			return errValue
		}
	}
	return nil
}

// kind is the narrowest one of a text that is a time, or Unknown. One of midnight is a timestamp if it says so.
func (formats times) kind(text []byte) literal.Kind {
	t, date, ok := formats.parse(text)
	switch {
	case !ok:
		return literal.Unknown
	case date:
		return literal.Date
	}
	return max(literal.Micros, literal.Needs(t))
}

package observe

import "time"

// recent is the newest report of something, and two earlier ones to compare it with: each takes the place of the one
// before it when half a window has passed.
type recent[T any] struct {
	base, middle, newest T
	from, half, at       time.Time // when they came; at is zero before the first
}

// add takes a report. It begins anew where the one before is too long ago, or cannot be compared with.
func (r *recent[T]) add(now time.Time, report T, comparable func(before, after T) bool) {
	switch {
	case !r.fresh(now) || !comparable(r.newest, report):
		*r = recent[T]{base: report, middle: report, from: now, half: now}
	case now.Sub(r.half) >= window/2:
		r.base, r.from = r.middle, r.half
		r.middle, r.half = report, now
	}
	r.newest, r.at = report, now
}

// fresh reports whether there was a report lately.
func (r *recent[T]) fresh(now time.Time) bool { return !r.at.IsZero() && now.Sub(r.at) <= window }

// seconds is the time between the reports that are compared.
func (r *recent[T]) seconds() float64 { return r.at.Sub(r.from).Seconds() }

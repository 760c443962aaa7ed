package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Report is what the demo found.
type Report struct {
	OK                bool      `json:"ok"`
	RowsExpected      int64     `json:"rows_expected"`
	RowsDelivered     int64     `json:"rows_delivered"`
	ChecksumExpected  string    `json:"checksum_expected"`
	ChecksumDelivered string    `json:"checksum_delivered"`
	RowsMissing       int64     `json:"rows_missing"`
	RowsDoubled       int64     `json:"rows_doubled"`
	RowsAltered       int64     `json:"rows_altered"`
	RowsUnexpected    int64     `json:"rows_unexpected"`
	Seconds           float64   `json:"seconds"`
	RowsPerSecond     float64   `json:"rows_per_second"`
	BytesPerSecond    float64   `json:"bytes_per_second"`
	StallShare        []float64 `json:"stall_share"` // per trainer, of its time in the training loop
	Kills             int       `json:"kills"`
	Killed            []string  `json:"killed"`
	LongestPauseMs    float64   `json:"longest_pause_ms"`
	Resumes           []resume  `json:"resumes"`
	// ReplacementRows were served by the workers that were started after a kill.
	ReplacementRows int64 `json:"replacement_rows"`
	// Workers is how many served, one after the other, and Decisions are the scaler's, in words.
	Workers   []int    `json:"workers"`
	Decisions []string `json:"decisions"`
	Problems  []string `json:"problems,omitempty"`

	examples []string
	values   bool // were compared, not the rows' places alone
}

func (r *Report) take(c count) {
	r.RowsExpected, r.RowsDelivered = c.expected, c.delivered
	r.ChecksumExpected = fmt.Sprintf("%016x", c.checksumExpected)
	r.ChecksumDelivered = fmt.Sprintf("%016x", c.checksumDelivered)
	r.RowsMissing, r.RowsDoubled, r.RowsAltered, r.RowsUnexpected = c.missing, c.doubled, c.altered, c.unexpected
	r.examples = c.examples
	if !c.ok() {
		r.Problems = append(r.Problems, fmt.Sprintf("delivery: %d rows missing, %d doubled, %d altered, %d unexpected",
			c.missing, c.doubled, c.altered, c.unexpected))
	}
}

func (r *Report) trainers(last []trainerReport) {
	var bytes int64
	for _, t := range last {
		bytes += t.Bytes
		r.StallShare = append(r.StallShare, share(t.StallNs, t.StallNs+t.ComputeNs))
		r.LongestPauseMs = max(r.LongestPauseMs, float64(t.LongestPause)/float64(time.Millisecond))
		r.Resumes = append(r.Resumes, t.Resumes...)
		for worker, rows := range t.RowsByWorker {
			if strings.Contains(worker, ".") { // after the dot is the count of its processes
				r.ReplacementRows += rows
			}
		}
		r.RowsPerSecond += float64(t.Rows) / r.Seconds
	}
	r.BytesPerSecond = float64(bytes) / r.Seconds
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-20s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("rows", "%s expected, %s delivered", humanize.Comma(r.RowsExpected), humanize.Comma(r.RowsDelivered))
	line("checksum", "%s expected, %s delivered", r.ChecksumExpected, r.ChecksumDelivered)
	line("throughput", "%s rows/s, %s/s, over %.1f s", humanize.Comma(int64(r.RowsPerSecond)),
		humanize.Bytes(uint64(r.BytesPerSecond)), r.Seconds)
	for i, s := range r.StallShare {
		line(fmt.Sprintf("trainer %d stalled", i), "%.0f%% of its time", 100*s)
	}
	line("longest pause", "%.0f ms", r.LongestPauseMs)
	if r.Kills > 0 {
		line("killed (SIGKILL)", "%s; %s went on elsewhere, replacements served %s rows",
			strings.Join(r.Killed, ", "), english.Plural(len(r.Resumes), "stream", ""),
			humanize.Comma(r.ReplacementRows))
	}
	for i, s := range r.Resumes {
		if i == 8 {
			line("", "and %d more", len(r.Resumes)-i)
			break
		}
		line("  resumed at", "%s: %s → %s after %d ms", s.Cursor, s.From, s.To, s.Pause.Milliseconds())
	}
	sizes := make([]string, len(r.Workers))
	for i, n := range r.Workers {
		sizes[i] = strconv.Itoa(n)
	}
	line("workers", "%s", strings.Join(sizes, " → "))
	for _, x := range r.examples {
		line("", "%s", x)
	}
	for _, p := range r.Problems {
		line("PROBLEM", "%s", p)
	}
	switch {
	case r.OK && r.values:
		b.WriteString("\nEvery row arrived exactly once, with the values that were written.\n")
	case r.OK:
		b.WriteString("\nEvery row arrived exactly once.\n")
	}
	return b.String()
}

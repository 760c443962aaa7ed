// Package words writes numbers for people: reasons of the scaler, tables of commands. It is pure.
package words

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
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

// Ways is how bytes went to trainers: "75% by link, 25% by gRPC". What is neither lent nor linked went by gRPC.
func Ways(sent, lent, linked float64) string {
	var parts []string
	for _, way := range []struct {
		name  string
		bytes float64
	}{{"in memory", lent}, {"by link", linked}, {"by gRPC", sent - lent - linked}} {
		switch share := way.bytes / max(1, sent); {
		case share > 1-1e-6: // it is a rate: what is left may be no whole byte
			return "all " + way.name
		case share > 1e-6:
			parts = append(parts, Percent(share)+" "+way.name)
		}
	}
	return strings.Join(parts, ", ")
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

// Count is a number of things: "1,234 rows".
func Count(n int64, thing string) string {
	return humanize.Comma(n) + " " + english.PluralWord(int(n), thing, "")
}

// Duration is a time in one number: "12 s", "3 min", "1.5 h", "2 days".
func Duration(d time.Duration) string {
	switch s := max(0, d.Seconds()); {
	case s < 100:
		return fmt.Sprintf("%.0f s", s)
	case s < 100*60:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.1f h", s/3600)
	default:
		return fmt.Sprintf("%.0f days", s/86400)
	}
}

// State is what a session's state is called: "running", "abandoned".
func State(s pb.SessionState) string {
	if s == pb.SessionState_SESSION_STATE_UNSPECIFIED {
		return "no answer"
	}
	return strings.ToLower(s.String())
}

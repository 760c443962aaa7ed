package observe

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/words"
)

// Unread says why nothing is read of a session that is in a state since a time; "" if its trainers read.
func Unread(state pb.SessionState, since, now time.Time, world int) string {
	lasts := words.Duration(now.Sub(since))
	switch state {
	case pb.SessionState_WAITING:
		return fmt.Sprintf("it waits for its %s: none has joined for %s", english.Plural(world, "trainer", ""), lasts)
	case pb.SessionState_IDLE:
		return fmt.Sprintf("its trainers ask for nothing: none has taken rows, or waited for some, for %s", lasts)
	case pb.SessionState_ABANDONED:
		return fmt.Sprintf("it has no trainer any more: the last one left, or was given up, %s ago", lasts)
	}
	return ""
}

// unread is the cause of a session, or of a fleet, of which nothing is read.
func unread(verdict string) Cause { return Cause{Bottleneck: pb.Bottleneck_NONE, Verdict: verdict} }

// unplanned is the cause of a session whose trainers wait for what the master cannot plan.
func unplanned(s *Session, why string) Cause {
	c := Cause{
		Bottleneck: pb.Bottleneck_STORAGE, Stage: "storage",
		Why: "the master cannot plan what comes next, and tries on: " + why,
	}
	c.Verdict = fmt.Sprintf("trainers waited %s of the time; %s", percent(s.Stall), c.Why)
	return c
}

// allUnread says of sessions of which none is read why not.
func allUnread(sessions []Session) Cause {
	if len(sessions) == 1 {
		return unread(fmt.Sprintf("session %s is %s: %s", sessions[0].ID, words.State(sessions[0].State),
			sessions[0].Verdict))
	}
	counts := map[pb.SessionState]int{}
	for i := range sessions {
		counts[sessions[i].State]++
	}
	var parts []string
	for _, state := range []pb.SessionState{pb.SessionState_WAITING, pb.SessionState_IDLE, pb.SessionState_ABANDONED} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words.State(state)))
		}
	}
	if len(parts) == 0 {
		return unread("no session is read")
	}
	return unread(fmt.Sprintf("no session is read: %s", strings.Join(parts, ", ")))
}

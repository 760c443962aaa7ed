package object

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestMarks has pages that go round after some: that is found in time, and never earlier.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, round := rapid.IntRange(0, 100).Draw(t, "before"), rapid.IntRange(1, 100).Draw(t, "round")
		var m Marks
		for page := range 3*(before+round) + 1 {
			mark := page
			if page >= before {
				mark = before + (page-before)%round
			}
			if err := m.Next(fmt.Sprint(mark)); err == nil {
				continue
			}
			if page < before+round || round == 1 && page != before+1 {
				t.Fatalf("found at page %d", page)
			}
			return
		}
		t.Fatal("not found")
	})
}

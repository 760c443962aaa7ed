package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestBraces expands texts that are put together of parts of which it is known what they stand for.
func TestBraces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, want := anyBraces(t, 3)
		got := slices.Collect(names(text))
		if !slices.Equal(got, want) {
			t.Fatalf("%q stands for %q, want %q", text, got, want)
		}
		if n := countNames(text); n != len(want) {
			t.Fatalf("%q: counted %d, want %d", text, n, len(want))
		}
	})
}

// anyBraces draws a text with braces, and what it stands for.
func anyBraces(t *rapid.T, depth int) (text string, all []string) {
	all = []string{""}
	for range rapid.IntRange(0, 3).Draw(t, "pieces") {
		var piece string
		var of []string
		switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
		case kind == 0 || depth == 0:
			piece = rapid.SampledFrom([]string{"a", "b/", `\{x`, "{z}", `\,`, "*", "0..1", "é", "{1..}"}).Draw(t, "letters")
			of = []string{piece}
		case kind == 1:
			from, to := rapid.IntRange(0, 120).Draw(t, "from"), rapid.IntRange(0, 120).Draw(t, "to")
			width := rapid.SampledFrom([]int{0, 3, 6}).Draw(t, "digits")
			piece = fmt.Sprintf("{%0*d..%0*d}", width, from, width, to)
			for i := from; ; {
				of = append(of, fmt.Sprintf("%0*d", width, i))
				if i == to {
					break
				}
				i += map[bool]int{true: 1, false: -1}[from < to]
			}
		default:
			var parts []string
			for range rapid.IntRange(2, 3).Draw(t, "parts") {
				part, stands := anyBraces(t, depth-1)
				parts, of = append(parts, part), append(of, stands...)
			}
			piece = "{" + strings.Join(parts, ",") + "}"
		}
		if len(all)*len(of) > 2000 {
			break
		}
		text += piece
		var longer []string
		for _, before := range all {
			for _, after := range of {
				longer = append(longer, before+after)
			}
		}
		all = longer
	}
	return text, all
}

func FuzzBraces(f *testing.F) {
	f.Add("s3://b/{train,val}-{000000..000099}.tar")
	f.Add(`{a,{b,\},c}{9..1..3}`)
	f.Add("{{{0..99999999999999999999},}{,}")
	f.Fuzz(func(t *testing.T, text string) {
		n := countNames(text)
		if n > 10_000 {
			return
		}
		count := 0
		for range names(text) {
			count++
		}
		if count != n {
			t.Errorf("%q stands for %d names, counted %d", text, count, n)
		}
		if quoted := slices.Collect(names(Quote(text))); len(quoted) != 1 || quoted[0] != Quote(text) {
			t.Errorf("%q, quoted, stands for %q", text, quoted)
		}
	})
}

package storage

import (
	"context"
	"errors"
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

// TestBracesAreBounded: a URI that would take long to expand is refused before it is, and the time of a listing ends
// the expansion of others.
func TestBracesAreBounded(t *testing.T) {
	limits, err := Listing{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	nested := func(n int) string { return strings.Repeat("{a,", n) + strings.Repeat("}", n) }
	letters := strings.Repeat("x", maxBracedBytes)
	for _, c := range []struct{ name, want string }{
		{letters, ""},
		{letters[len("s3://bkt/{a,b}"):] + "{a,b}", ""},
		{letters + "{a,b}", "it has braces and 4,110 bytes, of which it may have 4,096"},
		{strings.Repeat("{", 400_000), "bytes, of which it may have 4,096"},
		{strings.Repeat("{", maxNested), ""},
		{strings.Repeat("{", maxNested+1), "more than 16 of its braces"},
		{strings.Repeat(`\{`, 1000), ""},
		{nested(maxNested), ""},
		{nested(maxNested + 1), "more than 16 of its braces"},
		{strings.Repeat("}{a}", 1000), ""},
	} {
		cost := &spent{limits: limits}
		_, err := cost.namesOf(t.Context(), "s3://bkt/"+c.name)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.50s: %.200v, want %q", c.name, err, c.want)
		}
	}
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, err := (&spent{limits: limits}).namesOf(ctx, "s3://bkt/{0..9}"); !errors.Is(err, over) {
		t.Errorf("of a listing that is over: %v", err)
	}
}

func FuzzBraces(f *testing.F) {
	f.Add("s3://b/{train,val}-{000000..000099}.tar")
	f.Add(`{a,{b,\},c}{9..1..3}`)
	f.Add("{{{0..99999999999999999999},}{,}")
	f.Fuzz(func(t *testing.T, text string) {
		if checkBraces(text) != nil {
			return
		}
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

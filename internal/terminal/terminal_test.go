package terminal

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestPrintf(t *testing.T) {
	var b strings.Builder
	table := Table(&b)
	for _, args := range [][]any{
		{"plain 'é\"\\", 7, Cells("%s\t%d", "x\ty", 1)},
		{"a\x1b[31m", errors.New("two\nlines"), Cells("%v\t%d", []string{"x", "\u202e"}, 2)},
	} {
		if _, err := Printf(table, "%s\t%v\t%s\n", args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `plain 'é"\   7             "x\ty"        1` + "\n" + `"a\x1b[31m"  "two\nlines"  "[x \u202e]"  2` + "\n"
	if b.String() != want {
		t.Errorf("%s\nwant %s", &b, want)
	}
}

// TestNothingCommandsATerminal prints whatever bytes there are.
func TestNothingCommandsATerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		line, lines := Quoted(text), string(Lines(text))
		for _, r := range line + strings.ReplaceAll(strings.ReplaceAll(lines, "\n", ""), "\t", "") {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q prints %q", text, r)
			}
		}
		if strings.Count(lines, "\n") != strings.Count(text, "\n") {
			t.Fatalf("%q has other lines than %q", lines, text)
		}
		if Quoted(line) != line || string(Lines(lines)) != lines {
			t.Fatalf("%q is not what is printed of %q", line, text)
		}
	})
}

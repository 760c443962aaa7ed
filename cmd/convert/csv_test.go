package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// show writes lines as {a|b}{"c"}, quoted fields in quotes, with the number of each line.
func show(in io.Reader, delimiter byte) (string, error) {
	l := newLines(in, delimiter, '"')
	var b strings.Builder
	for {
		fields, err := l.next()
		if errors.Is(err, errEnd) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), fmt.Errorf("line %d: %w", l.line, err)
		}
		fmt.Fprintf(&b, "%d{", l.line)
		for i, f := range fields {
			if i > 0 {
				b.WriteByte('|')
			}
			if f.quoted {
				fmt.Fprintf(&b, "%q", f.text)
			} else {
				b.Write(f.text)
			}
		}
		b.WriteByte('}')
	}
}

func TestLines(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "",
		"a":                                   "1{a}",
		"a,b\nc,d\n":                          "1{a|b}2{c|d}",
		"a,b\r\nc,d\r\n":                      "1{a|b}2{c|d}",
		",\n,":                                "1{|}2{|}",
		"\n\na":                               "1{}2{}3{a}",
		`"a"`:                                 `1{"a"}`,
		`"a,b",c` + "\n":                      `1{"a,b"|c}`,
		"\"a\nb\",c\nd":                       `1{"a\nb"|c}3{d}`,
		"\"a\r\nb\"\r\nd":                     `1{"a\r\nb"}3{d}`,
		`"a""b"""`:                            `1{"a\"b\""}`,
		`"",""""`:                             `1{""|"\""}`,
		`a"b,c""d`:                            `1{a"b|c""d}`,
		`a,"b"` + "\r\n" + `c`:                `1{a|"b"}2{c}`,
		"a,b\rc,d\r":                          "1{a|b}2{c|d}",
		"a,b\rc,d":                            "1{a|b}2{c|d}",
		"a\rb\nc\r\nd":                        "1{a}2{b}3{c}4{d}",
		"\r\ra\n\rb":                          "1{}2{}3{a}4{}5{b}",
		"a\r\r\nb\r\n\r\n":                    "1{a}2{}3{b}4{}",
		"\"a\rb\"\r\"c\"\r\n\"d\"":            `1{"a\rb"}3{"c"}4{"d"}`,
		"\r":                                  "1{}",
		"\r\n":                                "1{}",
		"\"\n\n\n\"\n\"\n\"":                  `1{"\n\n\n"}5{"\n"}`,
		`a,"`:                                 "error: line 1: a quoted field does not end",
		"x\n\"a\nb":                           "error: line 2: a quoted field does not end",
		`"a"b`:                                "error: line 1: a quoted field goes on",
		"\"a\"\rb":                            `1{"a"}2{b}`,
		`"a" ,b`:                              "error: line 1: a quoted field goes on",
		"x,y\n\"a\"\"\n":                      "error: line 2: a quoted field does not end",
		"\"a\"\r":                             `1{"a"}`,
		"ä,ö\n\"ü\",ß":                        `1{ä|ö}2{"ü"|ß}`,
		strings.Repeat("x", 300_000):          "1{" + strings.Repeat("x", 300_000) + "}",
		"\"" + strings.Repeat("\n", 9) + "\"": `1{"\n\n\n\n\n\n\n\n\n"}`,
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			got, err := show(r, ',')
			if err != nil {
				got = "error: " + err.Error()
			}
			if strings.HasPrefix(want, "error") {
				got = got[:min(len(got), len(want))]
			}
			if got != want {
				t.Errorf("%.40q %s: got %.80s; want %.80s", in, name, got, want)
			}
		}
	}
}

func TestLinesReportReadErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := show(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), ','); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestTooLongLine(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`"`), endlessReader{})
	if _, err := show(endless, ','); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// What is written with quotes as RFC 4180 has it reads back.
func TestLinesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab\",\t\n\r;ü ")))
		table := rapid.SliceOfN(rapid.SliceOfN(text, 1, 4), 1, 5).Draw(t, "table")
		ends := rapid.SampledFrom([]string{"\n", "\r\n", "\r"})
		var b bytes.Buffer
		for _, row := range table {
			for i, s := range row {
				if i > 0 {
					b.WriteByte(';')
				}
				b.WriteString(`"` + strings.ReplaceAll(s, `"`, `""`) + `"`)
			}
			b.WriteString(ends.Draw(t, "end"))
		}
		var in io.Reader = &b
		if rapid.Bool().Draw(t, "slow") {
			in = iotest.OneByteReader(in)
		}
		l := newLines(in, ';', '"')
		for i, row := range table {
			fields, err := l.next()
			if err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
			var got []string
			for _, f := range fields {
				got = append(got, string(f.text))
			}
			if !slices.Equal(got, row) {
				t.Fatalf("row %d: got %q; want %q", i, got, row)
			}
		}
		if _, err := l.next(); !errors.Is(err, errEnd) {
			t.Fatalf("after the last row: %v", err)
		}
	})
}

// Whatever the text: no panic, the same result however it arrives, and no field that was not there.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{"a,b\nc,d\n", "\"a\"\"b\",c\r\n", "\"", "\"a\nb", "a\"b\n", ",,\n\n", "\"a\"x", "\"\r\n\"\r\n", "a\rb\r"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		whole, err := show(strings.NewReader(text), ',')
		slowly, slowErr := show(iotest.OneByteReader(strings.NewReader(text)), ',')
		if whole != slowly || fmt.Sprint(err) != fmt.Sprint(slowErr) {
			t.Errorf("whole: %q, %v; byte by byte: %q, %v", whole, err, slowly, slowErr)
		}
		for k := range kindNames() {
			b := newBuilder(kindNames()[k])
			l := newLines(strings.NewReader(text), ',', '"')
			for rows := 0; ; rows++ {
				fields, err := l.next()
				if err != nil {
					break
				}
				if kindNames()[k].appendTo(b, fields[0], nil) != nil {
					break
				}
				if b.Len() != rows+1 {
					t.Fatalf("%v: %d values after %d rows", k, b.Len(), rows+1)
				}
			}
		}
	})
}

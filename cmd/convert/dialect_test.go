package convert

import "testing"

// What else text files may say: how they quote, and what stands for nothing and for a time.
func TestDialects(t *testing.T) {
	in := write(t, "a.csv", `day;at;s;n
31.12.2025;31.12.2025 23:59:58.5;'a;''b''';NA
 NA ;;'NA';3
01.02.2026;NA;x"y;-
`)
	o := Options{
		Inputs: []string{in}, Delimiter: ";", Quote: "'", Nulls: []string{"NA", "-"},
		TimeFormats: []string{"%d.%m.%Y %H:%M:%S.%f", "%d.%m.%Y"},
	}
	expect(t, table(t, run(t, o).Files...), "day date32, at timestamp[us, tz=UTC], s utf8, n int64",
		"2025-12-31|2025-12-31 23:59:58.5Z|a;'b'|(null)", "(null)|(null)|NA|3", `2026-02-01|(null)|x"y|(null)`)
	plain := Options{Inputs: []string{write(t, "a.csv", "s,at\n\"a,1767225600\nb\"\"c,\n")}, Quote: "none"}
	plain.Columns, plain.TimeFormats = []string{"at:timestamp"}, []string{"%s"}
	expect(t, table(t, run(t, plain).Files...), "s utf8, at timestamp[us, tz=UTC]",
		`"a|2026-01-01 00:00:00Z`, `b""c|(null)`)
}

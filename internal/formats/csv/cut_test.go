package csv_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/formats/csv"
)

// dialects are some that differ in how a record is cut.
func dialects() map[string]csv.Dialect {
	return map[string]csv.Dialect{
		"quotes": {Delimiter: ',', Quote: '"'},
		"none":   {Delimiter: ','},
		"escape": {Delimiter: ',', Quote: '"', Escape: '\\'},
		"blank":  {Delimiter: ',', Quote: '"', Comment: '#', Blank: true},
	}
}

// TestCutAndFieldsAgreeWithOneStepAtATime: records and fields are those that a machine finds that looks at one
// character after the other, whatever the text.
func TestCutAndFieldsAgreeWithOneStepAtATime(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("ab,,\"\"\"\n\n\r\\#")))
	for name, d := range dialects() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			data := []byte(text.Draw(t, "text"))
			got, err := read(&d, data)
			want, closed := oneStepAtATime(&d, data)
			switch {
			case (err == nil) != closed:
				t.Fatalf("%q: error %v, and quotes are closed: %v", data, err, closed)
			case !slices.Equal(got, want):
				t.Fatalf("%q: got %q, want %q", data, got, want)
			}
		}))
	}
}

// read cuts a text to its end, or to what is wrong.
func read(d *csv.Dialect, data []byte) (records []string, err error) {
	fields := csv.NewFields(d)
	for len(data) > 0 {
		n, row, err := d.Cut(data, 0, true)
		if err != nil {
			return records, err
		}
		if n == 0 {
			return records, fmt.Errorf("nothing was cut of %q", data)
		}
		if row {
			records = append(records, split(fields, data[:n]))
		}
		data = data[n:]
	}
	return records, nil
}

// split shows the fields of a record.
func split(fields *csv.Fields, record []byte) (shown string) {
	for fields.Reset(record); fields.More(); {
		text, quoted, err := fields.Next()
		if err != nil {
			return shown + "bad"
		}
		shown += fmt.Sprintf("%q %v;", text, quoted)
	}
	return shown
}

// oneStepAtATime reads records, and tells whether the last one's quotes are closed.
func oneStepAtATime(d *csv.Dialect, data []byte) (records []string, closed bool) {
	var shown, field string
	begins, quoted, inside, bad := true, false, false, false
	end := func() {
		if !bad {
			shown += fmt.Sprintf("%q %v;", field, quoted)
		}
		field, begins, quoted = "", true, false
	}
	endRecord := func(blank bool) {
		end()
		if bad {
			shown += "bad"
		}
		if !blank || d.Blank {
			records = append(records, shown)
		}
		shown, bad = "", false
	}
	begun := 0 // where the record did
	for i := 0; i < len(data); i++ {
		c := data[i]
		next := byte(0)
		if i+1 < len(data) {
			next = data[i+1]
		}
		lineEnd := c == '\n' || c == '\r'
		switch {
		case i == begun && d.Comment != 0 && c == d.Comment:
			for i < len(data) && data[i] != '\n' && data[i] != '\r' {
				i++
			}
			if i+1 < len(data) && data[i] == '\r' && data[i+1] == '\n' {
				i++
			}
			begun = i + 1
			continue
		case d.Escape != 0 && c == d.Escape && i+1 < len(data):
			if quoted && !inside {
				bad = true
			}
			i++
			field += string(data[i])
			begins = false
		case inside && c == d.Quote && next == d.Quote && i+1 < len(data):
			i++
			field += string(c)
		case inside && c == d.Quote:
			inside = false
		case inside:
			field += string(c)
		case lineEnd:
			blank := i == begun
			if c == '\r' && next == '\n' && i+1 < len(data) {
				i++
			}
			endRecord(blank)
			begun = i + 1
		case begins && d.Quote != 0 && c == d.Quote:
			inside, quoted, begins = true, true, false
		case c == d.Delimiter:
			end()
		default:
			bad = bad || quoted
			field += string(c)
			begins = false
		}
	}
	if begun < len(data) && !inside {
		endRecord(false)
	}
	return records, !inside
}

// TestCutDoesNotDependOnHowMuchThereIs: what is cut of a part of a text is what is cut of the whole, or nothing.
func TestCutDoesNotDependOnHowMuchThereIs(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("ab,\"\n\r\\#")))
	for name, d := range dialects() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			data := []byte(text.Draw(t, "text"))
			part := rapid.IntRange(0, len(data)).Draw(t, "part")
			n, row, err := d.Cut(data[:part], 0, false)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return
			}
			if m, other, err := d.Cut(data, 0, true); m != n || other != row || err != nil {
				t.Fatalf("%q: %d %v %v of the whole, and %d %v of %d bytes", data, m, other, err, n, row, part)
			}
		}))
	}
}

package delta

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
)

// statistics are those of a file, as the log has them.
type statistics struct {
	Rows  *int64          `json:"numRecords"`
	Min   json.RawMessage `json:"minValues"`
	Max   json.RawMessage `json:"maxValues"`
	Nulls json.RawMessage `json:"nullCount"`
}

// rowsOf is how many rows a file has; -1: nobody says.
func rowsOf(a *add) int64 {
	n := a.rows
	if ahead, ok := rowsAhead(a.Stats); ok {
		n = &ahead
	} else if a.Stats != "" {
		var s struct {
			Rows *int64 `json:"numRecords"`
		}
		if json.Unmarshal([]byte(a.Stats), &s) == nil && s.Rows != nil {
			n = s.Rows
		}
	}
	if n == nil || *n < 0 {
		return -1
	}
	return *n
}

// rowsAhead is the number of rows where it stands in front of all other statistics, as writers have it. To decode them
// all would take half of the time in which a table is opened.
func rowsAhead(text string) (n int64, ok bool) {
	rest, ok := strings.CutPrefix(text, `{"numRecords":`)
	end := strings.IndexAny(rest, ",}")
	if !ok || end < 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(rest[:end]), 10, 64)
	return n, err == nil
}

// stats is what a file's statistics tell of a column; false: nothing, or nothing that can be believed.
func stats(text string, of *scalar, rows int64, deletes bool) (filter.Stats, bool) {
	var s statistics
	if text == "" || rows <= 0 || json.Unmarshal([]byte(text), &s) != nil {
		return filter.Stats{}, false
	}
	out := filter.Stats{Nulls: -1, Rows: rows}
	if n, err := strconv.ParseInt(string(at(s.Nulls, of.path)), 10, 64); err == nil && n >= 0 && n <= rows {
		if !deletes || n == 0 || n == rows { // else it may count rows that are deleted, or not
			out.Nulls = n
		}
	}
	lowest, okLow := bound(at(s.Min, of.path), of.typ, false)
	highest, okHigh := bound(at(s.Max, of.path), of.typ, true)
	if okLow && okHigh {
		if of.wasFloat {
			lowest = expr.Float64(min(lowest.Float, float64(float32(lowest.Float))))
			highest = expr.Float64(max(highest.Float, float64(float32(highest.Float))))
		}
		out.Min, out.Max, out.HasMinMax = lowest, highest, true
	}
	return out, out.HasMinMax || out.Nulls >= 0
}

// at is what valid JSON has at the end of a path of names; nil: nothing.
func at(raw json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		raw = member(raw, name)
	}
	return raw
}

// member is the value of a name in an object of valid JSON; nil: there is none, or it is no object. Decoding maps takes
// three times as long.
func member(object json.RawMessage, name string) (value json.RawMessage) {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	for rest := object[1:]; ; {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			return value
		}
		key := rest[start:]
		key = key[:stringEnd(key)]
		rest = rest[start+len(key):]
		rest = bytes.TrimLeft(rest[bytes.IndexByte(rest, ':')+1:], " \t\r\n")
		end := valueEnd(rest)
		if isName(key, name) {
			value = bytes.TrimRight(rest[:end], " \t\r\n")
		}
		rest = rest[end:]
	}
}

// isName compares a name with one as JSON has it.
func isName(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key[1:len(key)-1]) == name
	}
	var text string
	return json.Unmarshal(key, &text) == nil && text == name
}

// stringEnd is where a string ends that JSON begins with.
func stringEnd(json []byte) int {
	for i := 1; ; i++ {
		switch json[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueEnd is where a member's value ends: at a comma, or the end of the object.
func valueEnd(json []byte) int {
	for i, depth := 0, 0; ; i++ {
		switch json[i] {
		case '"':
			i += stringEnd(json[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
}

// bound reads a bound of a column's values, widened by what writers cut off.
func bound(raw json.RawMessage, typ string, upper bool) (v expr.Value, ok bool) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return v, false
	}
	var text string
	quoted := json.Unmarshal(raw, &text) == nil
	if !quoted {
		text = string(raw)
	}
	switch typ {
	case "string":
		if upper && quoted {
			text, quoted = after(text)
		}
		return expr.Text(text), quoted
	case "boolean":
		return expr.Bool(text == "true"), text == "true" || text == "false"
	case "date":
		days, err := timeOf(text, typ)
		return expr.Int(days), err == nil && len(text) == len("2006-01-02")
	case "timestamp", "timestamp_ntz":
		at, err := timeOf(text, typ)
		if upper { // of times milliseconds are kept
			at += 999
		}
		return expr.Int(at), err == nil && at < math.MaxInt64-999 && (typ == "timestamp_ntz" || zoned(text))
	case "float":
		f, err := floatOf(text, typ)
		return expr.Float32(float32(f)), err == nil && !math.IsNaN(f)
	case "double":
		f, err := floatOf(text, typ)
		return expr.Float64(f), err == nil && !math.IsNaN(f)
	}
	if bits := bitsOf(typ); bits > 0 {
		i, err := strconv.ParseInt(text, 10, bits)
		return expr.Int(i), err == nil
	}
	if _, _, ok := decimalType(typ); ok {
		f, err := floatOf(text, typ)
		slack := math.Abs(f) * 0x1p-48 // however it is rounded elsewhere
		if !upper {
			slack = -slack
		}
		return expr.Float64(f + slack), err == nil && !math.IsNaN(f)
	}
	return v, false
}

// after is a text above all those that begin with one: writers cut long ones.
func after(text string) (string, bool) {
	if !utf8.ValidString(text) {
		return "", false
	}
	for text != "" {
		r, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
		switch {
		case r == 0xd7ff: // surrogates follow, which are no characters
			return text + "\ue000", true
		case r < utf8.MaxRune:
			return text + string(r+1), true
		}
	}
	return "", false
}

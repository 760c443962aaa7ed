// Package literal reads values as tables of text write them, and infers from texts what their column is. Packages
// convert and csv have it in common, and the worker's half of the latter. It keeps no state.
package literal

import (
	"bytes"
	"unicode/utf8"
)

// Kind is what the texts of a column are. Of times, each kind takes those of the kinds before it.
type Kind uint8

// The kinds.
const (
	Unknown Kind = iota // only nulls so far
	Bool
	Int
	Float
	String
	Binary // not UTF-8
	Date
	Micros
	Nanos
)

// String is the kind's name, as columns are declared.
func (k Kind) String() string {
	return [...]string{
		"unknown", "bool", "int64", "float64", "string", "binary", "date", "timestamp", "timestamp[ns]",
	}[k]
}

// Guess is the narrowest kind that users mean by a text, which is not null, and has no blanks around it. A number with
// leading zeros is an identifier and so a string, and so is an integer that no int64 holds: as floats, different ones
// would be the same. TimeOf tells the kind of times, and is Unknown of all else.
func Guess(text []byte, timeOf func([]byte) Kind) Kind {
	if _, ok := ParseBool(text); ok && !Integer(text) {
		return Bool
	}
	if leadingZero(text) {
		return String
	}
	if Integer(text) {
		if _, ok := ParseInt(text); ok {
			return Int
		}
	} else if _, ok := ParseFloat(text, 64); ok {
		return Float
	}
	if k := timeOf(text); k != Unknown {
		return k
	}
	return GuessText(text)
}

// GuessText is what a text is that is none but text.
func GuessText(text []byte) Kind {
	if utf8.Valid(text) {
		return String
	}
	return Binary
}

// Integer reports whether a text has nothing but digits and signs.
func Integer(text []byte) bool {
	return len(bytes.TrimLeft(text, "+-0123456789")) == 0
}

func leadingZero(text []byte) bool {
	text = bytes.TrimLeft(text, "+-")
	return len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9'
}

// Wide is the kind that takes the texts of both.
func Wide(a, b Kind) Kind {
	numbers := func(k Kind) bool { return k == Int || k == Float }
	times := func(k Kind) bool { return k >= Date }
	switch {
	case a == Unknown || a == b:
		return b
	case b == Unknown:
		return a
	case numbers(a) && numbers(b):
		return Float
	case times(a) && times(b):
		return max(a, b)
	case a == Binary || b == Binary:
		return Binary
	}
	return String
}

package spec

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// maxLeftOut bounds the values that a document leaves out, such as that of {a}: for each the parser moves all tokens
// that follow.
const maxLeftOut = 1 << 10

// leftOut counts values that are left out. A key after a question mark counts, whether it has a value or not.
type leftOut struct {
	flow         []part
	last, before *token.Token
	count        int
}

// part is of a list in brackets or a mapping in braces: what stands between two commas.
type part struct{ braces, begun, colon bool }

func checkLeftOut(tokens token.Tokens) error {
	var l leftOut
	for _, t := range tokens {
		if t.Type == token.CommentType {
			continue
		}
		if l.take(t); l.count > maxLeftOut {
			return fmt.Errorf("line %d: more than %d values are left out; write null where none is meant",
				t.Position.Line, maxLeftOut)
		}
		l.before, l.last = l.last, t
	}
	return nil
}

func (l *leftOut) take(t *token.Token) {
	if t.Type == token.MappingKeyType {
		l.count++
	}
	if len(l.flow) == 0 && l.endsBlock(t) {
		l.count++
	}
	var in *part
	if n := len(l.flow); n > 0 {
		in = &l.flow[n-1]
	}
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		if in != nil {
			in.begun = true
		}
		l.flow = append(l.flow, part{braces: t.Type == token.MappingStartType})
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
		if in == nil {
			break
		}
		if in.colon && l.last.Type == token.MappingValueType || in.braces && in.begun && !in.colon {
			l.count++
		}
		*in = part{braces: in.braces}
		if t.Type != token.CollectEntryType {
			l.flow = l.flow[:len(l.flow)-1]
		}
	case token.MappingValueType:
		if in != nil {
			in.colon = true
		}
	default:
		if in != nil {
			in.begun = true
		}
	}
}

// endsBlock reports whether the item or the key before a token has no value: the token stands on a line of its own, and
// not further right.
func (l *leftOut) endsBlock(t *token.Token) bool {
	if l.last == nil || l.last.Position.Line == t.Position.Line {
		return false
	}
	switch l.last.Type {
	case token.SequenceEntryType:
		return t.Position.Column <= l.last.Position.Column
	case token.MappingValueType:
		column := t.Position.Column
		if t.Type == token.SequenceEntryType {
			column++ // a list may begin below its key
		}
		return l.before != nil && column <= l.before.Position.Column
	}
	return false
}

package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// nodeKind is what stands in a place of a YAML or JSON text.
type nodeKind uint8

const (
	nullNode nodeKind = iota
	boolNode
	intNode
	floatNode
	textNode
	listNode
	mapNode
)

// node is a value of a YAML or JSON text.
type node struct {
	kind  nodeKind
	line  int    // 0: unknown
	text  string // of texts; of numbers as they can be parsed by strconv
	truth bool
	keys  []string // of mappings: items[i] stands at keys[i]
	items []*node
	// height is how many levels lie below this one.
	height int
}

func (n *node) add(item *node) {
	n.items = append(n.items, item)
	n.height = max(n.height, item.height+1)
}

// Bounds of what Parse reads.
const (
	maxBytes = 4 << 20
	maxDepth = 32
	// maxNodes bounds what YAML aliases may multiply to, as maxBytes bounds their texts.
	maxNodes = 1 << 20
	maxKey   = 256
)

// parseTree reads JSON if the text is JSON, else YAML.
func parseTree(data []byte) (*node, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("the spec has %d bytes; the limit is %d", len(data), maxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // the byte order mark that some editors write
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return nil, errors.New("the spec is UTF-16; save it as UTF-8")
	case !utf8.Valid(data):
		return nil, errors.New("the spec is not UTF-8; save it as that")
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		if n, err := parseJSON(data); err == nil || errors.Is(err, errTooDeep) {
			return n, err
		}
	}
	return parseYAML(data)
}

var errTooDeep = fmt.Errorf("the spec nests deeper than %d levels", maxDepth)

func parseJSON(data []byte) (*node, error) {
	j := jsonReader{decoder: json.NewDecoder(bytes.NewReader(data)), data: data}
	j.decoder.UseNumber()
	n, err := j.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := j.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the spec goes on after its closing brace")
	}
	return n, nil
}

// jsonReader counts lines as it goes.
type jsonReader struct {
	decoder *json.Decoder
	data    []byte
	at      int
	line    int
}

func (j *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	token, err := j.decoder.Token()
	if err != nil {
		return nil, err
	}
	to := int(j.decoder.InputOffset())
	j.line += bytes.Count(j.data[j.at:to], []byte("\n"))
	j.at = to
	n := &node{line: j.line + 1}
	switch t := token.(type) {
	case json.Delim:
		return n, j.nested(n, t, depth)
	case bool:
		n.kind, n.truth = boolNode, t
	case string:
		n.kind, n.text = textNode, t
	case json.Number:
		n.kind, n.text = numberKind(t.String()), t.String()
	}
	return n, nil
}

func (j *jsonReader) nested(n *node, open json.Delim, depth int) error {
	n.kind = listNode
	if open == '{' {
		n.kind = mapNode
	}
	for j.decoder.More() {
		if n.kind == mapNode {
			key, err := j.value(depth + 1)
			if err != nil {
				return err
			}
			n.keys = append(n.keys, key.text)
		}
		item, err := j.value(depth + 1)
		if err != nil {
			return err
		}
		n.add(item)
	}
	_, err := j.decoder.Token()
	return err
}

// numberKind is the kind of a number that is written so, or textNode if it is none.
func numberKind(s string) nodeKind {
	if strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) }) >= 0 ||
		!strings.ContainsAny(s, "0123456789") {
		return textNode
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return textNode
	}
	if strings.ContainsAny(s, ".eE") {
		return floatNode
	}
	return intNode
}

// integer is the value of an intNode, if it fits.
func (n *node) integer() (int64, bool) {
	i, err := strconv.ParseInt(n.text, 10, 64)
	return i, n.kind == intNode && err == nil
}

// float is the value of a floatNode or an intNode, if it fits.
func (n *node) float() (float64, bool) {
	f, err := strconv.ParseFloat(n.text, 64)
	return f, (n.kind == floatNode || n.kind == intNode) && err == nil
}

// found describes the node in messages.
func (n *node) found() string {
	switch n.kind {
	case boolNode:
		return strconv.FormatBool(n.truth)
	case intNode, floatNode:
		return n.text
	case textNode:
		if len(n.text) > 60 {
			return strconv.Quote(n.text[:57]) + "..."
		}
		return strconv.Quote(n.text)
	case listNode:
		return "a list"
	case mapNode:
		return "a mapping"
	}
	return "nothing"
}

// formatFloat writes a float so that it is read back as one, by any reader of YAML.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return ".nan"
	case math.IsInf(f, 1):
		return ".inf"
	case math.IsInf(f, -1):
		return "-.inf"
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	mantissa, exponent, hasExponent := strings.Cut(s, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if hasExponent {
		return mantissa + "e" + exponent
	}
	return mantissa
}

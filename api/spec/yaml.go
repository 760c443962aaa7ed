package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxMarks bounds the marks of a document's begin and end: a spec has one of each at most, and one more to be told of.
const maxMarks = 3

// maxKeys bounds the keys of a mapping that is not in braces: the parser spends the square of their number on them, 4
// seconds on so many. Of several mappings it bounds the sum of the squares.
const maxKeys = 1 << 15

var errSecondDocument = errors.New("a second document; a spec is one")

// parseYAML reads one YAML document.
func parseYAML(data []byte) (*node, error) {
	tokens := lexer.Tokenize(string(data))
	if err := checkNesting(tokens); err != nil {
		return nil, err
	}
	if err := checkLeftOut(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, yamlError(err)
	}
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			return nil, fmt.Errorf("line %d: %w", doc.Body.GetToken().Position.Line, errSecondDocument)
		}
		y := yamlReader{anchors: map[string]*node{}}
		if root, err = y.node(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	if root == nil {
		return nil, errors.New("the spec is empty; it needs at least dataset, features and batch_size")
	}
	return root, nil
}

// checkNesting keeps the parser, which recurses, from texts that nest too deep, and from what it recurses into beside:
// tags, anchors of anchors and documents, which no spec has.
func checkNesting(tokens token.Tokens) error {
	flow, inLine, line, documents, spent := 0, 0, 0, 0, 0
	var mappings []mapping // that are open, by column
	for i, t := range tokens {
		if t.Position.Line != line {
			inLine, line = 0, t.Position.Line
			if flow <= 0 && t.Type != token.CommentType {
				mappings = mappingsAt(mappings, t.Position.Column)
			}
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if flow > 0 {
				break
			}
			inLine++
			if m := len(mappings) - 1; m >= 0 && inLine == 1 && t.Type != token.SequenceEntryType {
				mappings[m].keys++
				if spent += mappings[m].keys; spent > maxKeys*(maxKeys+1)/2 {
					return fmt.Errorf("line %d: mappings of more than %d keys; put long ones into braces: "+
						"{a: ..., b: ...}", line, maxKeys)
				}
			}
		case token.TagType:
			return fmt.Errorf("line %d: YAML of type %v has no place in a spec", line, ast.TagType)
		case token.AnchorType:
			if i >= 2 && tokens[i-2].Type == token.AnchorType {
				return fmt.Errorf("line %d: an anchor of an anchor has no place in a spec", line)
			}
		case token.DocumentHeaderType, token.DocumentEndType:
			if documents++; documents > maxMarks {
				return fmt.Errorf("line %d: %w", line, errSecondDocument)
			}
		}
		if flow > maxDepth || inLine > maxDepth {
			return fmt.Errorf("line %d: %w", line, errTooDeep)
		}
	}
	return nil
}

// mapping is one that may be open.
type mapping struct{ column, keys int }

// mappingsAt are the open mappings of a line that begins in a column: it is outside of those further right, and may
// begin one.
func mappingsAt(open []mapping, column int) []mapping {
	for len(open) > 0 && open[len(open)-1].column > column {
		open = open[:len(open)-1]
	}
	if len(open) == 0 || open[len(open)-1].column < column {
		open = append(open, mapping{column: column})
	}
	return open
}

// yamlError takes line and message out of the parser's error, which also draws the source.
func yamlError(err error) error {
	var positioned interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &positioned) && positioned.GetToken() != nil {
		return fmt.Errorf("line %d: %s", positioned.GetToken().Position.Line, positioned.GetMessage())
	}
	return fmt.Errorf("not YAML: %w", err)
}

// yamlReader turns the parser's tree into nodes. An alias stands for an anchor before it, so that there are no cycles.
type yamlReader struct {
	anchors map[string]*node
}

func (y *yamlReader) node(from ast.Node, depth int) (*node, error) {
	n := &node{line: from.GetToken().Position.Line}
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: %w", n.line, errTooDeep)
	}
	switch v := from.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.kind, n.truth = boolNode, v.Value
	case *ast.IntegerNode:
		n.kind, n.text = intNode, integerText(v)
	case *ast.FloatNode:
		n.kind, n.text = floatNode, formatFloat(v.Value)
	case *ast.InfinityNode:
		n.kind, n.text = floatNode, strconv.FormatFloat(v.Value, 'g', -1, 64)
	case *ast.NanNode:
		n.kind, n.text = floatNode, "NaN"
	case *ast.LiteralNode:
		n.kind, n.text = textNode, v.Value.Value
	case *ast.StringNode:
		n.kind, n.text = textNode, v.Value
		if v.Token.Type == token.StringType { // unquoted: the parser takes 1e3 for text
			n.kind = numberKind(v.Value)
		}
	case *ast.SequenceNode:
		return y.list(n, v, depth)
	case *ast.MappingNode:
		return y.mapping(n, v.Values, depth)
	case *ast.MappingValueNode:
		return y.mapping(n, []*ast.MappingValueNode{v}, depth)
	case *ast.AnchorNode:
		item, err := y.node(v.Value, depth)
		y.anchors[v.Name.GetToken().Value] = item
		return item, err
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		item, ok := y.anchors[name]
		if !ok {
			return nil, fmt.Errorf(
				"line %d: *%s is a YAML alias without an anchor; text that begins with * goes in quotes", n.line, name)
		}
		if depth+item.height > maxDepth {
			return nil, fmt.Errorf("line %d: %w", n.line, errTooDeep)
		}
		return item, nil
	default:
		return nil, fmt.Errorf("line %d: YAML of type %v has no place in a spec", n.line, from.Type())
	}
	return n, nil
}

func (y *yamlReader) list(n *node, from *ast.SequenceNode, depth int) (*node, error) {
	n.kind = listNode
	for _, v := range from.Values {
		item, err := y.node(v, depth+1)
		if err != nil {
			return nil, err
		}
		n.add(item)
	}
	return n, nil
}

func (y *yamlReader) mapping(n *node, entries []*ast.MappingValueNode, depth int) (*node, error) {
	n.kind = mapNode
	for _, e := range entries {
		item, err := y.node(e.Value, depth+1)
		if err != nil {
			return nil, err
		}
		n.keys = append(n.keys, e.Key.GetToken().Value)
		n.add(item)
	}
	return n, nil
}

// integerText writes an integer in decimal. Leading zeros do not make it octal.
func integerText(v *ast.IntegerNode) string {
	plain := strings.ReplaceAll(v.Token.Value, "_", "")
	if numberKind(plain) == intNode {
		return plain
	}
	return fmt.Sprint(v.Value)
}

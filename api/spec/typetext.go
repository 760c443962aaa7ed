package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// Types of functions' results as specs that are written as text say them: "int32", "string", "list<list<int64>>",
// "tensor<3x224x224xfloat32>". Type.String shows types in the same words, but for text and shapes.
const (
	textKind    = "string" // bytes that are text
	listOpens   = "list<"
	tensorOpens = "tensor<"
)

// maxDims bounds the dimensions of a tensor in text.
const maxDims = 16

// resultText is a result's type, in text.
func resultText(r *pb.Result) string {
	t := TypeFromProto(r.GetType())
	if shape := r.GetShape(); len(shape) > 0 {
		var b strings.Builder
		for _, n := range shape {
			fmt.Fprintf(&b, "%dx", n)
		}
		return tensorOpens + b.String() + KindName(t.Kind) + ">"
	}
	text := t.String()
	if r.GetText() {
		text = strings.Replace(text, KindName(pb.Kind_BINARY), textKind, 1)
	}
	return text
}

// ParseColumn reads the type that a column is declared to have, in the words of resultText; false if the text is none.
func ParseColumn(text string) (c Column, ok bool) {
	r := parseResult(text)
	if r == nil {
		return Column{}, false
	}
	c = Column{Type: TypeFromProto(r.GetType()), Text: r.GetText(), Shape: r.GetShape()}
	if kind := c.Type.Kind; Small(kind) {
		c.Own, c.Type.Kind = kind, StandIn(kind)
	}
	return c, true
}

// parseResult reads a result's type, nil if the text is none. It is the inverse of resultText.
func parseResult(text string) *pb.Result {
	if inner, ok := within(text, tensorOpens); ok {
		return parseTensor(inner)
	}
	t, inner := Type{}, text
	for levels := 0; ; levels++ {
		next, ok := within(inner, listOpens)
		if !ok {
			break
		}
		if levels > MaxNested {
			return nil
		}
		t.List, t.Nested, inner = true, uint32(levels), next
	}
	out := &pb.Result{Text: inner == textKind}
	if t.Kind = KindNamed(inner); out.Text {
		t.Kind = pb.Kind_BINARY
	}
	if !isResult(t.Kind) {
		return nil
	}
	out.Type = t.Proto()
	return out
}

// parseTensor reads a shape and a kind: "3x224x224xfloat32".
func parseTensor(text string) *pb.Result {
	out := &pb.Result{}
	for len(out.Shape) < maxDims {
		dim, rest, ok := strings.Cut(text, "x")
		n, err := strconv.ParseInt(dim, 10, 32)
		if !ok || err != nil || n < 1 || strconv.FormatInt(n, 10) != dim {
			break
		}
		out.Shape, text = append(out.Shape, int32(n)), rest
	}
	kind := KindNamed(text)
	if len(out.GetShape()) == 0 || !isResult(kind) || Width(kind) == 0 {
		return nil
	}
	out.Type = Type{Kind: kind, List: true}.Proto()
	return out
}

// within is what stands between a text's begin and its closing bracket.
func within(text, begin string) (inner string, ok bool) {
	if inner, ok = strings.CutPrefix(text, begin); ok {
		inner, ok = strings.CutSuffix(inner, ">")
	}
	return inner, ok
}

// typeNames are the types that are no lists, as text says them.
func typeNames() []string {
	var names []string
	for k := range pb.Kind_name {
		if kind := pb.Kind(k); isResult(kind) {
			names = append(names, KindName(kind))
		}
	}
	slices.Sort(names)
	return append(names, textKind)
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/worker/transform"
)

// columns is how long a line of Python may be.
const columns = 120

// builders are functions in Python, one an op, as ruff formats them.
func builders(r *transform.Registry) string {
	var b strings.Builder
	described := r.Describe()
	for i, op := range r.Ops() {
		b.WriteString("\n\n@_builder\n")
		b.WriteString(signature(op))
		b.WriteString(docstring(op, described[i].Parameters))
		b.WriteString(body(op))
	}
	return b.String() + "\n\n"
}

// parameter is one of a builder's, as Python declares it.
type parameter struct {
	name, typ, def string // def is empty if it must be given
}

func (p parameter) String() string {
	if p.def == "" {
		return p.name + ": " + p.typ
	}
	return p.name + ": " + p.typ + " = " + p.def
}

// signature declares the function: on one line, or else with its parameters on the next, or else with a line for each.
func signature(op transform.Op) string {
	positional, keywords := parameters(op)
	all := make([]string, 0, len(positional)+len(keywords)+1)
	for _, p := range positional {
		all = append(all, p.String())
	}
	if len(keywords) > 0 {
		all = append(all, "*")
	}
	shadows := slices.Contains(pythons(), op.Name)
	for _, p := range keywords {
		all = append(all, p.String())
	}
	hides := slices.ContainsFunc(append(positional, keywords...), parameter.hides)
	one := fmt.Sprintf("def %s(%s) -> Transform:", op.Name, strings.Join(all, ", "))
	next := "    " + strings.Join(all, ", ")
	switch {
	case len(one) <= columns && hides:
		return one + "  # noqa: A002\n"
	case len(one) <= columns && shadows:
		return one + "  # noqa: A001\n"
	case len(one) <= columns:
		return one + "\n"
	case len(next) <= columns && !hides:
		return fmt.Sprintf("def %s(\n%s\n) -> Transform:\n", op.Name, next)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "def %s(\n", op.Name)
	for _, p := range all {
		b.WriteString("    " + p + ",")
		if name, _, _ := strings.Cut(p, ":"); slices.Contains(pythons(), name) {
			b.WriteString("  # noqa: A002")
		}
		b.WriteByte('\n')
	}
	return b.String() + ") -> Transform:\n"
}

// pythons are names of Python's own that ops and parameters may have all the same; ruff is told so.
func pythons() []string {
	return []string{
		"abs", "all", "any", "bin", "bytes", "chr", "dict", "divmod", "enumerate", "filter", "float", "format", "hash",
		"hex", "id", "input", "int", "len", "list", "map", "max", "min", "next", "object", "oct", "open", "ord", "pow",
		"range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
	}
}

func (p parameter) hides() bool { return slices.Contains(pythons(), p.name) }

// keyword reports whether Python takes a name for its own syntax; a parameter has a "_" more then.
func keyword(name string) bool {
	return slices.Contains([]string{
		"and", "as", "assert", "class", "def", "del", "for", "from", "global", "if", "import", "in", "is", "lambda",
		"not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
	}, name)
}

// takesNames reports whether the op's inputs are named one by one, and not by an expression.
func takesNames(op transform.Op) bool { return op.Select == nil && op.Names == "" }

// parameters are those before and after "*": what must be given first, and the result's name last.
func parameters(op transform.Op) (positional, keywords []parameter) {
	var optional []parameter
	if takesNames(op) {
		positional = append(positional, parameter{name: "in_", typ: "Names"})
	}
	if op.Select == nil && !op.Maps && op.Out == "" {
		keywords = append(keywords, parameter{name: "out", typ: "str"})
	}
	for _, p := range op.Params {
		declared := parameter{name: python(p.Name), typ: typeOf(p), def: literal(p.Default)}
		if p.Fitted {
			declared.typ += " | Fit"
		}
		_, isFitted := op.Fitting.Params[p.Name]
		if p.Default == nil && (!p.Required || isFitted) {
			declared.typ, declared.def = declared.typ+" | None", "None"
		}
		switch {
		case p.Positional:
			positional = append(positional, declared)
		case p.Required && !isFitted:
			keywords = append(keywords, declared)
		default:
			optional = append(optional, declared)
		}
	}
	keywords = append(keywords, optional...)
	if op.Maps || op.Out != "" {
		keywords = append(keywords, parameter{name: "out", typ: "str | None", def: "None"})
	}
	return positional, keywords
}

func python(name string) string {
	if keyword(name) {
		return name + "_"
	}
	return name
}

func typeOf(p transform.Param) string {
	if p.Python != "" {
		return p.Python
	}
	switch p.Want {
	case transform.Int, transform.PositiveInt:
		return "int"
	case transform.Number, transform.Share:
		return "float"
	case transform.Numbers:
		return "Sequence[float]"
	case transform.NumberOrMore:
		return "float | Sequence[float]"
	case transform.Text:
		return "str"
	case transform.Bool:
		return "bool"
	case transform.Scalar:
		return "Scalar"
	case transform.Scalars:
		return "Sequence[Scalar]"
	case transform.Texts:
		return "str | Sequence[str]"
	}
	return "Value"
}

// literal writes a default in Python; "" for none.
func literal(x any) string {
	switch x := x.(type) {
	case nil:
		return ""
	case bool:
		if x {
			return "True"
		}
		return "False"
	case string:
		return strconv.Quote(x)
	case float64:
		return float(x)
	case []float64:
		parts := make([]string, len(x))
		for i, n := range x {
			parts[i] = float(n)
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprint(x)
}

func float(x float64) string {
	text := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// docstring says what the op does, takes and makes. Its first line is the summary's first sentence.
func docstring(op transform.Op, params []transform.ParamDescription) string {
	var b strings.Builder
	first, rest, more := strings.Cut(op.Summary, ". ")
	if more {
		first += "."
	}
	b.WriteString(`    """` + first + "\n")
	if op.Fails != "" {
		rest += " Reading fails at " + op.Fails + "."
	}
	if rest != "" {
		b.WriteString("\n" + paragraph("    ", "    ", rest))
	}
	var args []string
	if takesNames(op) {
		in := "in_: " + op.Inputs
		if op.Maps {
			in += "; of several names each by itself"
		}
		args = append(args, in+".")
	}
	for i, p := range params {
		args = append(args, describe(op.Params[i], p))
	}
	switch {
	case op.Select != nil:
	case op.Maps:
		args = append(args, "out: name of the result; by default it replaces the input.")
	default:
		args = append(args, "out: "+cmp.Or(op.Out, "name of the result")+".")
	}
	b.WriteString("\n    Args:\n")
	for _, a := range args {
		b.WriteString(paragraph("        ", "            ", a))
	}
	b.WriteString("\n    Returns:\n")
	b.WriteString(paragraph("        ", "            ",
		"A transform whose result is "+strings.ReplaceAll(op.Output, "`", "")+"."))
	return b.String() + `    """` + "\n"
}

// describe says what a parameter takes: "salt: an int, by default 0: makes hashes of the same id differ."
func describe(p transform.Param, d transform.ParamDescription) string {
	text := python(p.Name) + ": " + d.Type
	if p.Want == transform.Bool {
		text = python(p.Name) + ": True or False"
	}
	switch {
	case p.Default != nil:
		text += ", by default " + literal(p.Default)
	case !p.Required:
		text += ", or None"
	}
	if p.Doc != "" {
		text += ": " + p.Doc
	}
	return text + "."
}

// paragraph breaks text into lines of a docstring: the first one after one indent, further ones after another.
func paragraph(first, further, text string) string {
	var b strings.Builder
	words := strings.Fields(text)
	line := first + words[0]
	for _, word := range words[1:] {
		if len(line)+1+len(word) > columns {
			b.WriteString(line + "\n")
			line = further + word
			continue
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// body makes the Transform by op.
func body(op transform.Op) string {
	args := []string{strconv.Quote(op.Name)}
	if takesNames(op) {
		args = append(args, "in_")
	} else {
		args = append(args, "()")
	}
	if op.Select == nil {
		args = append(args, "out=out")
	}
	var odd []string
	for _, p := range op.Params {
		if keyword(p.Name) {
			odd = append(odd, fmt.Sprintf("%q: %s", p.Name, python(p.Name)))
			continue
		}
		args = append(args, p.Name+"="+p.Name)
	}
	if len(odd) > 0 {
		args = append(args, "**{"+strings.Join(odd, ", ")+"}")
	}
	one := "    return op(" + strings.Join(args, ", ") + ")\n"
	if len(one)-1 <= columns {
		return one
	}
	if next := "        " + strings.Join(args, ", "); len(next) <= columns {
		return "    return op(\n" + next + "\n    )\n"
	}
	return "    return op(\n        " + strings.Join(args, ",\n        ") + ",\n    )\n"
}

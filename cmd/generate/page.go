package main

import (
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/worker/transform"
)

// table is the reference of all ops in Markdown.
func table(r *transform.Registry) string {
	var b strings.Builder
	b.WriteString("\n| op | in | result |\n| --- | --- | --- |\n")
	for _, op := range r.Ops() {
		in := op.Inputs
		if in == "none" {
			in = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", call(op), in, op.Exact)
	}
	return b.String() + "\n"
}

// call is an op with its parameters: "sigrid_hash(max, salt = 0)", "clamp([min], [max])".
func call(op transform.Op) string {
	if len(op.Params) == 0 {
		return op.Name
	}
	var params []string
	for _, p := range op.Params {
		switch {
		case p.Required:
			params = append(params, p.Name)
		case p.Default == nil:
			params = append(params, "["+p.Name+"]")
		default:
			params = append(params, fmt.Sprintf("%s = %s", p.Name, plain(p.Default)))
		}
	}
	return op.Name + "(" + strings.Join(params, ", ") + ")"
}

// plain writes a default as YAML has it.
func plain(x any) string {
	numbers, ok := x.([]float64)
	if !ok {
		return fmt.Sprint(x)
	}
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = fmt.Sprintf("%.6g", n)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

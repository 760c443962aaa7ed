package transform

import (
	"fmt"
	"io"
	"strings"

	"github.com/penstock-ml/penstock/internal/terminal"
)

// Description is an op as `penstock ops` shows it.
type Description struct {
	Name       string             `json:"name"`
	Version    uint32             `json:"version"`
	Summary    string             `json:"summary"`
	Inputs     string             `json:"inputs"`
	Output     string             `json:"output"`
	Each       bool               `json:"each_input_by_itself"`
	Out        string             `json:"out,omitempty"` // see Op.Out
	Parameters []ParamDescription `json:"parameters"`
	Example    string             `json:"example"`
}

// ParamDescription is a parameter as `penstock ops` shows it.
type ParamDescription struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
	Default  any    `json:"default,omitempty"`
	Doc      string `json:"doc,omitempty"`
}

// Describe returns the catalogue, sorted by name; it marshals to JSON.
func (r *Registry) Describe() []Description {
	all := make([]Description, 0, len(r.ops))
	for _, op := range r.Ops() {
		d := Description{
			Name: op.Name, Version: op.Version, Summary: op.Summary, Inputs: op.Inputs, Output: op.Output,
			Each: op.Maps, Out: op.Out, Parameters: []ParamDescription{}, Example: op.Example,
		}
		for _, p := range op.Params {
			_, fitted := op.Fitting.Params[p.Name]
			d.Parameters = append(d.Parameters, ParamDescription{
				Name: p.Name, Type: p.want(), Required: p.Required && !fitted, Default: p.Default, Doc: p.Doc,
			})
		}
		all = append(all, d)
	}
	return all
}

// String is the parameter on one line: "salt: an int, default 0 (makes hashes of the same id differ)".
func (p ParamDescription) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", p.Name, p.Type)
	switch {
	case p.Required:
	case p.Default != nil:
		fmt.Fprintf(&b, ", default %v", p.Default)
	default:
		b.WriteString(", optional")
	}
	if p.Doc != "" {
		fmt.Fprintf(&b, " (%s)", p.Doc)
	}
	return b.String()
}

// WriteTable writes the catalogue as text: for each op a heading and one line for each of its properties.
func (r *Registry) WriteTable(w io.Writer) error {
	t := terminal.Table(w)
	for i, d := range r.Describe() {
		if i > 0 {
			fmt.Fprintln(t)
		}
		fmt.Fprintf(t, "%s\tversion %d. %s\n", d.Name, d.Version, d.Summary)
		fmt.Fprintf(t, "  inputs\t%s\n  output\t%s\n", d.Inputs, d.Output)
		for j, p := range d.Parameters {
			label := "parameters"
			if j > 0 {
				label = ""
			}
			fmt.Fprintf(t, "  %s\t%s\n", label, p)
		}
		fmt.Fprintf(t, "  example\t%s\n", d.Example)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the table of ops: %w", err)
	}
	return nil
}

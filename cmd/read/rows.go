package read

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// field is one value of a row.
type field struct {
	name  string
	value any
}

// PrintRow prints row i of a batch: a JSON object, or name=value pairs.
func PrintRow(out io.Writer, b *client.Batch, i int, format string) error {
	fields := rowOf(b, i, format != "json")
	var line strings.Builder
	for k, f := range fields {
		value, err := json.Marshal(f.value)
		if err != nil {
			return fmt.Errorf("print %s: %w", f.name, err)
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return fmt.Errorf("print %s: %w", f.name, err)
		}
		switch {
		case format == "json" && k == 0:
			fmt.Fprintf(&line, "{%s:%s", name, value)
		case format == "json":
			fmt.Fprintf(&line, ",%s:%s", name, value)
		default:
			terminal.Printf(&line, "%s=%s ", f.name, value)
		}
	}
	if format == "json" {
		line.WriteByte('}')
	}
	_, err := fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	return err
}

// mostShown is how many values of a tensor a line has that people read.
const mostShown = 16

// rowOf has tensors of more values as their type and shape if it is to be brief, and as images are always.
func rowOf(b *client.Batch, i int, brief bool) []field {
	var out []field
	for _, l := range b.Labels {
		out = append(out, field{l.Name, labelValue(l, i)})
	}
	for j, name := range b.DenseNames {
		out = append(out, field{name, number(b.Dense[i*len(b.DenseNames)+j])})
	}
	for _, s := range b.Sparse {
		from, to := s.Offsets[i], s.Offsets[i+1]
		if s.Values != nil {
			out = append(out, field{s.Name, s.Values[from:to]})
		} else {
			out = append(out, field{s.Name, numbers(s.Floats[from:to])})
		}
		if s.Weights != nil {
			out = append(out, field{s.Name + ".weight", numbers(s.Weights[from:to])})
		}
	}
	for _, x := range b.Bytes {
		out = append(out, field{x.Name, textValue(x, i)})
	}
	for _, im := range b.Images {
		kind := "uint8"
		if im.Floats != nil {
			kind = "float32"
		}
		out = append(out, field{im.Name, fmt.Sprintf("%s %v", kind, im.Shape)})
	}
	for _, t := range b.Tensors {
		out = append(out, field{t.Name, tensorValue(t, i, b.Rows, brief)})
	}
	for _, p := range b.Padded {
		size := len(p.Data) / b.Rows
		own := unpadded(p.Data[i*size:][:size], p.Length, p.Lengths[i], p.Left)
		out = append(out, field{p.Name, cells(p.Dtype, own)})
	}
	if b.Files != nil {
		out = append(out, field{"_file", b.Files[i]}, field{"_row", b.RowIDs[i]})
	}
	if b.Parts != nil {
		out = append(out, field{"_part", b.Parts[i]})
	}
	return out
}

func labelValue(l client.Label, i int) any {
	switch {
	case l.Bool != nil:
		return l.Bool[i]
	case l.I32 != nil:
		return l.I32[i]
	case l.I64 != nil:
		return l.I64[i]
	case l.F32 != nil:
		return number(l.F32[i])
	}
	return number(l.F64[i])
}

// number is x as JSON can write it, with the digits of its own type: NaN is null, infinities are text.
func number[F float32 | float64](x F) any {
	switch {
	case math.IsNaN(float64(x)):
		return nil
	case math.IsInf(float64(x), 0):
		return fmt.Sprint(x)
	}
	return x
}

// textValue is a row's byte string, or list of them.
func textValue(b client.Bytes, i int) any {
	if b.RowOffsets == nil {
		return text(b.Data[b.Offsets[i]:b.Offsets[i+1]])
	}
	list := []string{}
	for j := b.RowOffsets[i]; j < b.RowOffsets[i+1]; j++ {
		list = append(list, text(b.Data[b.Offsets[j]:b.Offsets[j+1]]))
	}
	return list
}

// text is a byte string as JSON can write it: what is no UTF-8 is written as hexadecimal digits.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "0x" + hex.EncodeToString(b)
}

func numbers(xs []float32) []any {
	out := make([]any, len(xs))
	for i, x := range xs {
		out[i] = number(x)
	}
	return out
}

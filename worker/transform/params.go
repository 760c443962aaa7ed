package transform

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Want is what a parameter takes.
type Want int

// Integers may be written as floats without a fraction (1e6), and one value stands for a list of one.
const (
	Int          Want = iota + 1 // any int64
	PositiveInt                  // an int from 1
	Number                       // an int or a float, not NaN
	Share                        // a number from 0 to 1
	Numbers                      // a list of numbers
	NumberOrMore                 // a number, or a list of some, which stay what they are
	Text                         // a string
	Bool                         // true or false
	Scalar                       // a number, string or bool: what a value of a feature may be
	Scalars                      // a list of such
	Texts                        // a list of strings
)

// String names what is wanted, with its article, for messages.
func (w Want) String() string {
	switch w {
	case Int:
		return "an int"
	case PositiveInt:
		return "a positive int"
	case Number:
		return "a number"
	case Share:
		return "a number from 0 to 1"
	case Numbers:
		return "a list of numbers"
	case NumberOrMore:
		return "a number or a list of numbers"
	case Text:
		return "a text"
	case Bool:
		return "true or false"
	case Scalar:
		return "a number, text or bool"
	case Scalars:
		return "a list of numbers, texts or bools"
	case Texts:
		return "a list of texts"
	}
	return "an undeclared type"
}

// Param declares a parameter of an op. One that is neither Required nor has a Default is optional: see Params.Has.
type Param struct {
	Name     string
	Want     Want
	Required bool
	// Default is an int, float64, []float64, string or bool, as Want asks for.
	Default any
	// OneOf lists the texts that Text takes; empty: any.
	OneOf []string
	Doc   string
	// Fitted: builders in Python say that the data may be asked for it. In texts any parameter may ask.
	Fitted bool
	// Positional: the builder in Python takes it by its place, too. Such parameters come first.
	Positional bool
	// Python is its type there, where that is narrower than what Want says.
	Python string
}

// want is what the parameter takes, in words.
func (p Param) want() string {
	if len(p.OneOf) > 0 {
		return "one of " + strings.Join(p.OneOf, ", ")
	}
	return p.Want.String()
}

// Params are an op's parameters, checked against their declarations, defaults filled in.
type Params struct {
	values map[string]*pb.Value
}

// Has reports whether an optional parameter was given.
func (p Params) Has(name string) bool { return p.values[name] != nil }

// Int returns an Int or PositiveInt, 0 if it was left out.
func (p Params) Int(name string) int64 { return p.values[name].GetInt() }

// Number returns a Number or Share, 0 if it was left out.
func (p Params) Number(name string) float64 {
	x, _ := spec.Number(p.values[name])
	return x
}

// Numbers returns a list of numbers, of which a single one is one, too. It is for reading.
func (p Params) Numbers(name string) []float64 {
	if x, ok := spec.Number(p.values[name]); ok {
		return []float64{x}
	}
	if floats := p.values[name].GetFloats(); floats != nil {
		return floats.GetValues()
	}
	if ints := p.values[name].GetInts().GetValues(); ints != nil {
		numbers := make([]float64, len(ints))
		for i, n := range ints {
			numbers[i] = float64(n)
		}
		return numbers
	}
	values := spec.Elements(p.values[name])
	numbers := make([]float64, len(values))
	for i, v := range values {
		numbers[i], _ = spec.Number(v)
	}
	return numbers
}

// ints returns a list of whole numbers, for reading, or else the first element that is none.
func (p Params) ints(name string) (all []int64, other *pb.Value) {
	if packed := p.values[name].GetInts(); packed != nil {
		return packed.GetValues(), nil
	}
	for _, e := range spec.Elements(p.values[name]) {
		n, ok := integer(e)
		if !ok {
			return nil, e
		}
		all = append(all, n)
	}
	return all, nil
}

// Text returns a text, "" if it was left out.
func (p Params) Text(name string) string { return p.values[name].GetText() }

// Bool returns a bool, false if it was left out.
func (p Params) Bool(name string) bool { return p.values[name].GetBool() }

// Value returns a parameter as it crosses the wire, nil if it was left out.
func (p Params) Value(name string) *pb.Value { return p.values[name] }

// newParams checks values against their declarations; the error names every mistake.
func newParams(op *Op, given map[string]*pb.Value) (Params, error) {
	p := Params{values: make(map[string]*pb.Value, len(op.Params))}
	var mistakes []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(op.Params, func(d Param) bool { return d.Name == name }) {
			mistakes = append(mistakes, unknownParam(op, name))
		}
	}
	for _, d := range op.Params {
		v, err := d.check(given[d.Name])
		if err != nil {
			mistakes = append(mistakes, err.Error())
		} else if v != nil {
			p.values[d.Name] = v
		}
	}
	if len(mistakes) > 0 {
		return Params{}, errors.New(strings.Join(mistakes, "; "))
	}
	return p, nil
}

func unknownParam(op *Op, name string) string {
	names := make([]string, len(op.Params))
	for i, d := range op.Params {
		names[i] = d.Name
	}
	if len(names) == 0 {
		return fmt.Sprintf("%s: %s has no parameters", name, op.Name)
	}
	hint := "it has " + strings.Join(names, ", ")
	if near := natural.Nearest(name, slices.Values(names)); near != "" {
		hint = "nearest: " + near
	}
	return fmt.Sprintf("%s: no such parameter of %s; %s", name, op.Name, hint)
}

// check returns the value in its canonical form, the default if it is nil.
func (p Param) check(v *pb.Value) (*pb.Value, error) {
	if v.GetKind() == nil {
		switch {
		case p.Required:
			return nil, fmt.Errorf("%s: missing; want %s", p.Name, p.want())
		case p.Default == nil:
			return nil, nil
		}
		v = literal(p.Default)
	}
	if c := p.canonical(v); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%s: want %s, found %s", p.Name, p.want(), show(v))
}

// canonical is v in the one form that a parameter's value has in a Program, nil if it is none that p takes.
func (p Param) canonical(v *pb.Value) *pb.Value {
	switch p.Want {
	case Int, PositiveInt:
		n, ok := integer(v)
		if !ok || p.Want == PositiveInt && n < 1 {
			return nil
		}
		return &pb.Value{Kind: &pb.Value_Int{Int: n}}
	case Number, Share:
		if x, ok := spec.Number(v); !ok || p.Want == Share && (x < 0 || x > 1) {
			return nil
		}
		return v
	case NumberOrMore:
		if _, ok := spec.Number(v); ok {
			return v
		}
		return numbers(v)
	case Numbers:
		return numbers(v)
	case Text:
		s, ok := v.GetKind().(*pb.Value_Text)
		if !ok || len(p.OneOf) > 0 && !slices.Contains(p.OneOf, s.Text) {
			return nil
		}
		return v
	case Bool:
		if _, ok := v.GetKind().(*pb.Value_Bool); !ok {
			return nil
		}
		return v
	case Scalar:
		if v.GetKind() == nil || spec.IsList(v) {
			return nil
		}
		return v
	case Scalars:
		return scalars(v)
	case Texts:
		noText := func(e *pb.Value) bool {
			_, ok := e.GetKind().(*pb.Value_Text)
			return !ok
		}
		if list := spec.AsList(v); len(list) > 0 && !slices.ContainsFunc(list, noText) {
			return spec.ListOf(list)
		}
	}
	return nil
}

// literal makes a value of a Go one, nil if it can be none.
func literal(x any) *pb.Value {
	switch x := x.(type) {
	case int:
		return &pb.Value{Kind: &pb.Value_Int{Int: int64(x)}}
	case float64:
		return &pb.Value{Kind: &pb.Value_Float{Float: x}}
	case []float64:
		return spec.FloatsOf(x)
	case string:
		return &pb.Value{Kind: &pb.Value_Text{Text: x}}
	case bool:
		return &pb.Value{Kind: &pb.Value_Bool{Bool: x}}
	}
	return nil
}

// integer reads an int, or a float without a fraction.
func integer(v *pb.Value) (int64, bool) {
	switch n := v.GetKind().(type) {
	case *pb.Value_Int:
		return n.Int, true
	case *pb.Value_Float:
		if n.Float == math.Trunc(n.Float) && n.Float >= -1<<63 && n.Float < 1<<63 {
			return int64(n.Float), true
		}
	}
	return 0, false
}

// numbers returns v as a list of numbers, nil if it is none.
func numbers(v *pb.Value) *pb.Value {
	if spec.Packed(v) {
		if slices.ContainsFunc(v.GetFloats().GetValues(), math.IsNaN) {
			return nil
		}
		return v
	}
	list := spec.AsList(v)
	for _, e := range list {
		if _, ok := spec.Number(e); !ok {
			return nil
		}
	}
	return spec.ListOf(list)
}

// scalars returns v as a list, nil if it is one of lists.
func scalars(v *pb.Value) *pb.Value {
	if spec.Packed(v) {
		return v
	}
	list := spec.AsList(v)
	for _, e := range list {
		if e.GetKind() == nil || spec.IsList(e) {
			return nil
		}
	}
	return spec.ListOf(list)
}

// show writes a value for messages: 'abc', 1.5, [1, 2].
func show(v *pb.Value) string {
	switch k := v.GetKind().(type) {
	case *pb.Value_Int:
		return strconv.FormatInt(k.Int, 10)
	case *pb.Value_Float:
		return strconv.FormatFloat(k.Float, 'g', -1, 64)
	case *pb.Value_Text:
		return "'" + k.Text + "'"
	case *pb.Value_Bool:
		return strconv.FormatBool(k.Bool)
	case *pb.Value_List, *pb.Value_Floats, *pb.Value_Ints:
		var parts []string
		for _, e := range spec.Elements(v) {
			parts = append(parts, show(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "nothing"
}

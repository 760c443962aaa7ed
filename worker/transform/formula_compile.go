package transform

import (
	"bytes"
	"math"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
)

// formulaCompiler makes the parts of a formula.
type formulaCompiler struct {
	*Formula
	slot   func(column string) int
	uses   map[*expr.Node]int // places at which a node stands
	shared map[*expr.Node]*sharedPart
}

func (c *formulaCompiler) count(n *expr.Node) {
	if c.uses[n]++; c.uses[n] > 1 {
		return
	}
	for _, arg := range n.Args {
		c.count(arg)
	}
}

func (c *formulaCompiler) part(n *expr.Node) part {
	if p := c.shared[n]; p != nil {
		return p
	}
	args := make([]part, len(n.Args))
	for i, arg := range n.Args {
		args[i] = c.part(arg)
	}
	p := c.made(n, args)
	if _, writes := p.(interface{ writes() }); writes {
		c.makes++
	}
	c.bytes += stretchRows * 24
	if c.uses[n] > 1 {
		c.shared[n] = &sharedPart{part: p}
		return c.shared[n]
	}
	return p
}

func (c *formulaCompiler) made(n *expr.Node, args []part) part {
	switch n.Op {
	case expr.Literal:
		c.texts = max(c.texts, len(n.Values[0].Text))
		return newConstant(n.Values[0], n.Kind)
	case expr.Null:
		return newNothing(n.Kind)
	case expr.Column:
		return newColumn(c.slot(n.Name), n.Kind)
	case expr.Hash:
		h := &hashes{kind: n.Args[0].Kind, hash: filter.NewHash(n.Values[0].Int), out: newChunk(n.Kind)}
		if n.Args[0].Op != expr.Row {
			h.of = args[0]
		}
		return h
	case expr.And, expr.Or:
		return &truthsPart{n.Op == expr.And, args, newChunk(n.Kind)}
	case expr.Not:
		return &opposite{args[0], newChunk(n.Kind)}
	case expr.IsNull, expr.IsNotNull:
		return &nulls{args[0], all(n.Op == expr.IsNull), newChunk(n.Kind)}
	case expr.In, expr.NotIn:
		return memberOf(n, args[0])
	case expr.Cast, expr.Convert:
		return casting(args[0], n.Args[0].Kind, n.Kind)
	case expr.Case, expr.Coalesce, expr.NullIf, expr.Least, expr.Greatest:
		return choosing(n, args)
	case expr.Length:
		return newEach(args[0], n.Kind, lengths)
	case expr.OctetLength:
		return newEach(args[0], n.Kind, byteLengths)
	case expr.Lower:
		return newWriting(args[0], lowered())
	case expr.Upper:
		return newWriting(args[0], raised())
	case expr.Row: // hashes know where rows are
		return nil
	}
	if n.Op <= expr.Ge {
		return comparing(n.Op, n.Args, args)
	}
	switch n.Kind {
	case pb.Kind_FLOAT32:
		return computing[float32](n, args)
	case pb.Kind_FLOAT64:
		return computing[float64](n, args)
	}
	return computingInts(n.Op, args)
}

// writes marks parts that have memory for texts.
func (p *writing[S]) writes() {}

func all(set bool) uint64 {
	if set {
		return ^uint64(0)
	}
	return 0
}

// comparing knows the kinds that expr.Node's Check leaves.
func comparing(op expr.Op, nodes []*expr.Node, args []part) part {
	a, b := nodes[0].Kind, nodes[1].Kind
	wholes := func(k pb.Kind) bool { return k == pb.Kind_INT32 || k == pb.Kind_INT64 }
	bits := newChunk(pb.Kind_BOOL)
	switch {
	case a == pb.Kind_BOOL:
		return &sameTruth{args[0], args[1], all(op == expr.Ne), bits}
	case a == pb.Kind_BINARY:
		return &compared[[]byte, []byte]{args[0], args[1], bits, comparingTexts(op)}
	case wholes(a) && wholes(b):
		return newComparison[int64](op, args[0], args[1])
	case wholes(a):
		return &compared[int64, float64]{args[0], args[1], bits, mixed(op)}
	case wholes(b):
		return &compared[int64, float64]{args[1], args[0], bits, mixed(mirrored(op))}
	case a == pb.Kind_FLOAT32:
		return newComparison[float32](op, args[0], args[1])
	}
	return newComparison[float64](op, args[0], args[1])
}

func memberOf(n *expr.Node, of part) part {
	flip, bits := all(n.Op == expr.NotIn), newChunk(pb.Kind_BOOL)
	var ints []int64
	var f32 []float32
	var f64 []float64
	var texts [][]byte
	var truths [2]bool
	for _, v := range n.Values {
		ints, f32, f64 = append(ints, v.Int), append(f32, float32(v.Float)), append(f64, v.Float)
		texts = append(texts, []byte(v.Text))
		truths[bit(v.Bool)] = true
	}
	switch n.Args[0].Kind {
	case pb.Kind_BOOL:
		return &memberBits{of, truths, flip, bits}
	case pb.Kind_INT32, pb.Kind_INT64:
		return &member[int64]{of, flip, among(ints), bits}
	case pb.Kind_FLOAT32:
		return &member[float32]{of, flip, among(f32), bits}
	case pb.Kind_FLOAT64:
		return &member[float64]{of, flip, among(f64), bits}
	}
	return &member[[]byte]{of, flip, amongTexts(texts), bits}
}

func amongTexts(values [][]byte) func(x []byte) bool {
	if len(values) > 8 {
		set := make(map[string]struct{}, len(values))
		for _, v := range values {
			set[string(v)] = struct{}{}
		}
		return func(x []byte) bool {
			_, in := set[string(x)]
			return in
		}
	}
	return func(x []byte) (in bool) {
		for _, v := range values {
			in = in || bytes.Equal(x, v)
		}
		return in
	}
}

// memberBits looks for bools in a set.
type memberBits struct {
	of   part
	in   [2]bool
	flip uint64
	out  chunk
}

func (p *memberBits) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid = of.valid
	for i := range s.words() {
		p.out.bits[i] = of.bits[i]&all(p.in[1]) | ^of.bits[i]&all(p.in[0]) ^ p.flip
	}
	return &p.out
}

func choosing(n *expr.Node, args []part) part {
	out, blend, mask := newChunk(n.Kind), blender(n.Kind), make([]uint64, stretchRows/64)
	switch n.Op {
	case expr.Case:
		c := &choice{otherwise: newNothing(n.Kind), out: out, mask: mask, blend: blend}
		if len(args)%2 == 1 {
			c.otherwise = args[len(args)-1]
		}
		for i := 0; i+1 < len(args); i += 2 {
			c.conditions, c.values = append(c.conditions, args[i]), append(c.values, args[i+1])
		}
		return c
	case expr.Coalesce:
		return &firstKnown{args, out, mask, blend}
	case expr.NullIf:
		return &nullWhere{value: args[0], condition: args[1], own: mask}
	}
	switch n.Kind {
	case pb.Kind_FLOAT32:
		return &extreme[float32]{args, picker[float32](n.Op), out}
	case pb.Kind_FLOAT64:
		return &extreme[float64]{args, picker[float64](n.Op), out}
	}
	return &extreme[int64]{args, picker[int64](n.Op), out}
}

// picker is Go's min and max: NaN wins, and -0 is below 0.
func picker[T int64 | float32 | float64](op expr.Op) func(a, b T) T {
	if op == expr.Least {
		return func(a, b T) T { return min(a, b) }
	}
	return func(a, b T) T { return max(a, b) }
}

func computingInts(op expr.Op, args []part) part {
	loop := map[expr.Op]func(dst, a, b []int64) bool{
		expr.Neg: negateInts, expr.Abs: absInts, expr.Add: addInts, expr.Sub: subtractInts, expr.Mul: multiplyInts,
		expr.Mod: floorMods,
	}[op]
	return &checked{op, args[0], args[len(args)-1], newChunk(pb.Kind_INT64), loop}
}

// computing is for arithmetic and functions of floats.
func computing[T float32 | float64](n *expr.Node, args []part) part {
	if loop := map[expr.Op]func(dst, a, b []T){
		expr.Add: addFloats[T], expr.Sub: subtractFloats[T], expr.Mul: multiplyFloats[T], expr.Div: divideFloats[T],
		expr.Pow: powers[T],
	}[n.Op]; loop != nil {
		return &pairs[T]{args[0], args[1], newChunk(n.Kind), loop}
	}
	loop := map[expr.Op]func(dst, src []T){
		expr.Neg: negateFloats[T], expr.Abs: mapping[T](math.Abs), expr.Floor: mapping[T](math.Floor),
		expr.Ceil: mapping[T](math.Ceil), expr.Round: mapping[T](math.Round), expr.Sqrt: mapping[T](math.Sqrt),
		expr.Exp: mapping[T](exp64), expr.Ln: mapping[T](ln64), expr.Log1p: mapping[T](log1p64),
	}[n.Op]
	if logs, narrow := any(logs32).(func(dst, src []T)); narrow && n.Op == expr.Log1p {
		loop = logs
	}
	return newEach(args[0], n.Kind, loop)
}

func powers[T float32 | float64](dst, a, b []T) {
	for i := range dst {
		dst[i] = T(pow64(float64(a[i]), float64(b[i])))
	}
}

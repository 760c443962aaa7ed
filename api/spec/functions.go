package spec

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// FunctionOp is the op of transforms that call a Python function. It is in no catalog: what it makes, the transform
// says itself.
const FunctionOp = "python"

// FunctionVersion is that of how functions are called.
const FunctionVersion = 1

// DefaultMost is how many rows a flat_map makes at most, for each row of a window, where a spec does not say.
const DefaultMost = 1 << 10

// Bounds of what a function may ask for.
const (
	maxResults = 64
	maxThreads = 256
	minMemory  = 64 << 20
	maxMemory  = 1 << 40
	maxTimeout = 24 * 60 * 60 * 1000 // ms
	maxMost    = 1 << 16

	defaultTimeout = 5 * 60 * 1000
)

// Bounds of a session's code, which stands in each of its states.
const (
	maxFunctions     = 1 << 10
	maxDistributions = 1 << 10
	maxLabel         = 128 // bytes of a name for people
)

// MaxNested bounds how many levels of lists the elements of a list may be: as many as arrays have dimensions, and more.
const MaxNested = 7

// checkCode checks what a spec says of the code of its functions.
func (r *resolver) checkCode(c *pb.Code) {
	if c == nil {
		return
	}
	const again = "; open the session with this release's Python package"
	if n := len(c.GetDigest()); n != sha256.Size {
		r.problems.add("code.digest", "found %d bytes; want the %d of a SHA-256%s", n, sha256.Size, again)
	}
	if !isLabel(c.GetPython()) {
		r.problems.add("code.python",
			"found %.40q; want the interpreter's version, such as 3.12%s", c.GetPython(), again)
	}
	if n := len(c.GetDistributions()); n > maxDistributions {
		r.problems.add("code.distributions", "found %d; want at most %d", n, maxDistributions)
	}
	if i := slices.IndexFunc(c.GetDistributions(), func(d string) bool { return !isLabel(d) }); i >= 0 {
		r.problems.add(fmt.Sprintf("code.distributions[%d]", i),
			"found %.40q; want a distribution and its version, such as numpy==2.1.0%s", c.GetDistributions()[i], again)
	}
	if n := len(c.GetFunctions()); n == 0 || n > maxFunctions {
		r.problems.add("code.functions", "found %d; want 1 to %d", n, maxFunctions)
	}
	for i, f := range c.GetFunctions() {
		if !isLabel(f.GetName()) || len(f.GetDigest()) != sha256.Size {
			r.problems.add(fmt.Sprintf("code.functions[%d]", i),
				"found %.40q with a digest of %d bytes; want a name and the %d bytes of a SHA-256%s",
				f.GetName(), len(f.GetDigest()), sha256.Size, again)
			return
		}
	}
}

// isLabel reports whether a name can be shown to people.
func isLabel(s string) bool {
	return s != "" && len(s) <= maxLabel && utf8.ValidString(s) &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// call is a transform that calls a function, and is being resolved.
type call struct {
	*resolver
	path      string
	transform *pb.Transform
	name      string // of the function, for messages
}

// function adds the step of a transform that calls a function.
func (r *resolver) function(path string, t *pb.Transform) {
	c := &call{resolver: r, path: path, transform: t, name: "the function"}
	f := settledFunction(t.GetPython())
	if f == nil || r.code == nil && f.GetCall() == "" {
		c.unknown()
		return
	}
	if isLabel(f.GetName()) {
		c.name = f.GetName()
	}
	if t.GetOut() != "" || len(t.GetParams()) > 0 {
		r.problems.add(path, "a call of %s has neither `out` nor parameters; `outs` says what it makes", c.name)
	}
	if f.GetCall() != "" {
		f.Index = r.named.number(f)
	}
	r.oneKind(path, f)
	c.check(f)
	in, outs := c.inputs(f.GetStyle()), c.results(f.GetKind())
	if !c.lack(in, outs) && !c.waits(f, in, outs) {
		c.step(f, in, outs)
	}
	c.define(in, outs)
}

// waits reports whether an input is unknown, because of a mistake, or until it is fitted. Then all results are unknown,
// too.
func (c *call) waits(f *pb.Function, in, outs []*feature) bool {
	i := slices.IndexFunc(in, (*feature).unknown)
	if i < 0 {
		return false
	}
	for _, out := range outs {
		out.typ = Type{}
	}
	if c.pass != nil && f.GetKind() != pb.FunctionKind_MAP {
		c.problems.add(c.path, "%s decides which rows there are by %s, which has to be fitted before, to these rows; "+
			"put it before what is fitted, or write a value there", c.name, in[i].name)
	}
	return true
}

// unknown refuses a call of what nobody knows, and defines what it would make.
func (c *call) unknown() {
	c.problems.add(c.path+".op", "python without a function and its code; name a function of the workers, as in "+
		"call: %q, or make the transform in Python, by penstock.op", exampleCall)
	made := []*feature{{name: c.transform.GetOut(), at: c.path}}
	for _, out := range c.transform.GetOuts() {
		made = append(made, &feature{name: out.GetName(), at: c.path})
	}
	c.put(made)
}

// step appends the step of a call.
func (c *call) step(f *pb.Function, in, outs []*feature) {
	f.Texts = nil
	for i, input := range in {
		if input.text {
			f.Texts = append(f.Texts, uint32(i))
		}
	}
	st := &step{in: in, transform: c.transform, behind: c.behind, proto: &pb.Step{
		Op: FunctionOp, Version: FunctionVersion, Name: strings.Join(names(outs), ", "), At: c.path, Python: f,
		Results: c.transform.GetOuts(),
	}}
	st.makes(outs...)
	c.steps = append(c.steps, st)
	if RowsOfStep(st.proto) != SameRows {
		c.barrier = cmp.Or(c.barrier, fmt.Sprintf("%s (%s)", c.path, c.name))
		c.behind = st
	}
}

// settledFunction is a copy that has written out what kind and style it has, and what it may take where all workers
// agree on it. How much memory a process has that does not say is a worker's matter.
func settledFunction(f *pb.Function) *pb.Function {
	if f == nil {
		return nil
	}
	f = proto.CloneOf(f)
	if f.GetCall() != "" {
		name := f.GetCall()[strings.LastIndexByte(f.GetCall(), ':')+1:]
		f.Name, f.Index = cmp.Or(f.GetName(), name), 0
	}
	if f.Kind == pb.FunctionKind_FUNCTION_KIND_UNSPECIFIED {
		f.Kind = pb.FunctionKind_MAP
	}
	if f.Style == pb.Style_STYLE_UNSPECIFIED {
		f.Style = pb.Style_ARROW
	}
	if f.Threads == 0 {
		f.Threads = 1
	}
	if f.TimeoutMs == 0 {
		f.TimeoutMs = defaultTimeout
	}
	if f.Kind == pb.FunctionKind_FLAT_MAP && f.Most == 0 {
		f.Most = DefaultMost
	}
	return f
}

// check checks a settled function by itself.
func (c *call) check(f *pb.Function) {
	wrong := func(field, format string, args ...any) { c.problems.add(c.at(f, field), format, args...) }
	if !isLabel(f.GetName()) {
		wrong("name", "found %.40q; want a name of 1 to %d printable bytes", f.GetName(), maxLabel)
	}
	c.checkNamed(f)
	c.bounds(f, wrong)
	if _, known := pb.FunctionKind_name[int32(f.GetKind())]; !known {
		wrong("kind", "%s is of kind %d; want map, filter or flat_map", c.name, f.GetKind())
	}
	if _, known := pb.Style_name[int32(f.GetStyle())]; !known {
		wrong("style", "%s has style %d; want arrow, numpy or rows", c.name, f.GetStyle())
	}
	if len(f.GetTexts()) > 0 {
		wrong("texts", "found %v; which inputs are text, the files say", f.GetTexts())
	}
}

// bounds checks what a function asks for.
func (c *call) bounds(f *pb.Function, wrong func(field, format string, args ...any)) {
	switch most := f.GetMost(); {
	case f.GetKind() != pb.FunctionKind_FLAT_MAP && most != 0:
		wrong("most", "found %d; only functions of kind flat_map make more rows than they get, and %s is of another",
			most, c.name)
	case most > maxMost:
		wrong("most", "%s asks for %d; want at most %d rows for each row that it gets", c.name, most, maxMost)
	}
	if m := f.GetMemory(); m != 0 && (m < minMemory || m > maxMemory) {
		wrong("memory", "%s asks for %d bytes; want %d (64 MiB) to %d (1 TiB) for each process", c.name, m, minMemory,
			int64(maxMemory))
	}
	if f.GetThreads() > maxThreads {
		wrong("threads", "%s asks for %d; want at most %d", c.name, f.GetThreads(), maxThreads)
	}
	if ms := f.GetTimeoutMs(); ms < 0 || ms > maxTimeout {
		wrong("timeout_ms", "%s asks for %d ms; want 1 to %d (a day) for each call", c.name, ms, maxTimeout)
	}
}

// inputs are the features that a function is called with, as the files have them.
func (c *call) inputs(style pb.Style) (in []*feature) {
	path := c.path + ".in"
	if len(c.transform.GetIn()) == 0 {
		c.problems.add(path, "found nothing; want the features that %s is called with", c.name)
	}
	seen := map[string]bool{}
	for _, name := range c.transform.GetIn() {
		f, err := c.find(name)
		switch {
		case name == "":
			c.problems.add(path, "found an empty name; want a feature's name")
		case seen[name]:
			c.problems.add(path, "%s stands here twice; %s gets a feature once", name, c.name)
		case err != nil:
			c.problems.add(path, "%v", err)
		case f == nil && isGlob(name):
			c.problems.add(path, "found %s; want the name of a feature for each argument of %s, and no glob", name,
				c.name)
		case f == nil:
			c.problems.add(path, "no feature %s%s", name, c.suggestColumn(name, c.names()))
		case f.typ.Kind == pb.Kind_PICTURE && f.typ.Picture.Floats:
			c.problems.add(path, "%s, which normalize made; functions take pictures of bytes: call %s before it",
				typed(f), c.name)
		case f.typ.Kind == pb.Kind_PICTURE && style == pb.Style_ARROW:
			c.problems.add(path, "%s, for which Arrow has no arrays; have %s called with NumPy arrays, by=\"numpy\", "+
				"or with each picture by itself, by=\"rows\"", typed(f), c.name)
		default:
			in = append(in, c.own(f))
		}
		seen[name] = true
	}
	return in
}

// results are the features that a function of a kind makes. One whose type is a mistake is unknown.
func (c *call) results(kind pb.FunctionKind) []*feature {
	path, outs := c.at(c.transform.GetPython(), "outs"), c.transform.GetOuts()
	switch n := len(outs); {
	case kind == pb.FunctionKind_FILTER && n > 0:
		c.problems.add(path, "found %d; %s is of kind filter, which chooses rows and makes nothing of them; "+
			"leave them out", n, c.name)
	case kind == pb.FunctionKind_FILTER:
		return nil
	case n == 0:
		c.problems.add(path, "found nothing; want what %s makes of each row: one result or more", c.name)
	case n > maxResults:
		c.problems.add(path, "%s makes %d results; want at most %d", c.name, n, maxResults)
		return nil
	}
	features := make([]*feature, len(outs))
	for i, out := range outs {
		at := c.atResult(i)
		features[i] = &feature{name: out.GetName(), at: c.path}
		if mistake := resultMistake(out); mistake != "" {
			c.problems.add(at, "%s", mistake)
			continue
		}
		features[i].typ, features[i].text = TypeFromProto(out.GetType()), out.GetText()
		features[i].shape = out.GetShape()
	}
	return features
}

// resultMistake says what is wrong with a result by itself.
func resultMistake(out *pb.Result) string {
	name, t, shape := out.GetName(), TypeFromProto(out.GetType()), out.GetShape()
	plain := Type{Kind: t.Kind, List: t.List, Nested: t.Nested}
	switch {
	case isGlob(name) || !isLabel(name):
		return fmt.Sprintf("found the name %.40q; want 1 to %d printable bytes without *, ?, [ and \\", name, maxLabel)
	case !isResult(t.Kind) || t != plain:
		return fmt.Sprintf("%s is %v; want a bool, a number (not bfloat16), binary, or lists of such", name, t)
	case !t.List && t.Nested > 0:
		return fmt.Sprintf("%s has %d levels of lists in a list, and is none", name, t.Nested)
	case t.Nested > MaxNested:
		return fmt.Sprintf("%s has %d levels of lists within a list; want at most %d", name, t.Nested, MaxNested)
	case out.GetText() && t.Kind != pb.Kind_BINARY:
		return fmt.Sprintf("%s is %v, and text; only binary is", name, t)
	case len(shape) == 0:
		return ""
	case !t.List || t.Nested > 0 || Width(t.Kind) == 0:
		return fmt.Sprintf("%s is %v with shape %v; want a list of numbers or bools, row by row", name, t, shape)
	case Count(shape, Width(t.Kind)) == 0:
		return fmt.Sprintf("%s has shape %v; want numbers above 0, and less than 2 GiB in each row", name, shape)
	}
	return ""
}

// isResult reports whether a function may make values of a kind.
func isResult(k pb.Kind) bool {
	return Width(k) > 0 && k != pb.Kind_BFLOAT16 || k == pb.Kind_BINARY
}

// define defines results, which may replace inputs and must clash with nothing else.
func (c *call) define(in, results []*feature) {
	seen := map[string]bool{}
	for i, result := range results {
		at := c.atResult(i)
		switch {
		case seen[result.name]:
			c.problems.add(at, "%s stands here twice; want a name for each result of %s", result.name, c.name)
		case !slices.Contains(c.transform.GetIn(), result.name):
			c.checkNew(at, result.name)
		}
		seen[result.name] = true
	}
	c.put(slices.DeleteFunc(results, func(result *feature) bool {
		replaced := slices.IndexFunc(in, func(f *feature) bool { return f.name == result.name })
		if replaced < 0 {
			return !c.keeps(c.path, c.transform, result, nil)
		}
		return !c.keeps(c.path, c.transform, result, in[replaced])
	}))
}

// put puts features under their names.
func (c *call) put(features []*feature) {
	for _, f := range features {
		if f.name != "" {
			c.derived[f.name] = f
		}
	}
}

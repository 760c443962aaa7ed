package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// A spec's functions are all by value, and then its code is in the session, or all by name, and then it is in an
// environment of the workers. A spec of functions by name has no code until a session is opened: Pin says then which
// one it is.

const (
	// maxArgs bounds the keywords of a call by name.
	maxArgs = 256
	// maxArgBytes bounds them with their values: a process takes them in one message, as text, with others.
	maxArgBytes = 128 << 10
)

// ByName reports whether a spec calls functions by their names.
func ByName(s *pb.Spec) bool {
	return slices.ContainsFunc(s.GetTransforms(), func(t *pb.Transform) bool { return t.GetPython().GetCall() != "" })
}

// named numbers functions by name: one that is called with other arguments is another one.
type named struct {
	calls []string
	index map[string]uint32
}

// number is the index of a function in the session's code.
func (n *named) number(f *pb.Function) uint32 {
	key, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.Function{Call: f.GetCall(), Args: f.GetArgs()})
	if i, ok := n.index[string(key)]; ok {
		return i
	}
	if n.index == nil {
		n.index = map[string]uint32{}
	}
	i := uint32(len(n.calls))
	n.index[string(key)], n.calls = i, append(n.calls, f.GetCall())
	return i
}

// NamedCalls are the names of a spec's functions, by Function.index: one that is called with several arguments stands
// here several times.
func NamedCalls(s *pb.Spec) []string {
	var n named
	for _, t := range s.GetTransforms() {
		if t.GetPython().GetCall() != "" {
			n.number(t.GetPython())
		}
	}
	return n.calls
}

// CalledCode are the digests of the functions by name that a pinned spec calls, by their names with their arguments.
func CalledCode(s *pb.Spec) map[string][]byte {
	var n named
	out := map[string][]byte{}
	for _, t := range s.GetTransforms() {
		f := t.GetPython()
		if f.GetCall() == "" {
			continue
		}
		if i := int(n.number(f)); i < len(s.GetCode().GetFunctions()) {
			out[f.GetCall()+argsText(f.GetArgs())] = s.GetCode().GetFunctions()[i].GetDigest()
		}
	}
	return out
}

// argsText writes the keywords of a call.
func argsText(args map[string]*pb.Value) string {
	parts := make([]string, 0, len(args))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, name+"="+valueText(args[name]))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// caller is a transform that calls a function.
type caller struct {
	path, name string
	named      bool
}

// oneKind refuses functions by value beside such by name.
func (r *resolver) oneKind(path string, f *pb.Function) {
	c := caller{path, f.GetName(), f.GetCall() != ""}
	if r.first.path == "" {
		r.first = c
	}
	if c.named == r.first.named {
		return
	}
	how := map[bool]string{true: "by name", false: "by value"}
	r.problems.add(path, "calls %s %s, and %s calls %s %s; want all functions of a session the same way: put them all "+
		"into modules that the workers have, or give penstock.op the functions themselves", c.name, how[c.named],
		r.first.path, r.first.name, how[r.first.named])
}

// at is where a field of a function stands: of one by name, as text has it.
func (c *call) at(f *pb.Function, field string) string {
	switch {
	case f.GetCall() == "" && field == "outs":
		return c.path + ".outs"
	case f.GetCall() == "":
		return c.path + ".python." + field
	}
	text := map[string]string{"outs": "out", "style": "by", "timeout_ms": "timeout"}
	return c.path + "." + cmp.Or(text[field], field)
}

// atResult is where a result stands.
func (c *call) atResult(i int) string {
	if f := c.transform.GetPython(); f.GetCall() != "" {
		return join(c.at(f, "outs"), c.transform.GetOuts()[i].GetName())
	}
	return fmt.Sprintf("%s.outs[%d]", c.path, i)
}

// checkNamed checks what says which function is called, and with what.
func (c *call) checkNamed(f *pb.Function) {
	switch n := len(c.code.GetFunctions()); {
	case f.GetCall() != "" && !isCallName(f.GetCall()):
		c.problems.add(c.at(f, "call"), "found %.80q; want a module and a name in it, of %d bytes at most, such as %s",
			f.GetCall(), maxLabel, exampleCall)
	case f.GetCall() == "" && int64(f.GetIndex()) >= int64(n):
		c.problems.add(c.at(f, "index"), "found %d for %s; want less than %d: the spec's code has so many functions",
			f.GetIndex(), c.name, n)
	}
	if f.GetCall() == "" && len(f.GetArgs()) > 0 {
		c.problems.add(c.at(f, "args"), "found arguments of %s, which is by value; its code has them", c.name)
	}
	if n := len(f.GetArgs()); n > maxArgs {
		c.problems.add(c.at(f, "args"), "%s has %d; want at most %d", c.name, n, maxArgs)
	}
	if n := proto.Size(&pb.Function{Args: f.GetArgs()}); n > maxArgBytes {
		c.problems.add(c.at(f, "args"), "those of %s take %d bytes; want at most %d: have it read what is larger from "+
			"a file", c.name, n, maxArgBytes)
	}
	for _, name := range slices.Sorted(maps.Keys(f.GetArgs())) {
		if !isIdentifier(name) {
			c.problems.add(c.at(f, "args"), "found %.40q; want keywords of %s, such as lower", name, c.name)
		}
	}
}

// isCallName reports whether a text names something in a module: "package.module:name".
func isCallName(s string) bool {
	module, name, ok := strings.Cut(s, ":")
	dotted := func(s string) bool {
		return !slices.ContainsFunc(strings.Split(s, "."), func(part string) bool { return !isIdentifier(part) })
	}
	return ok && isLabel(s) && dotted(module) && dotted(name)
}

// isIdentifier reports whether Python may take a text for a name.
func isIdentifier(s string) bool {
	other := func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}
	return s != "" && len(s) <= maxLabel && !unicode.IsDigit(rune(s[0])) && strings.IndexFunc(s, other) < 0
}

// checkPinned checks how many functions by name are called, and that code, if there is some, is theirs.
func (r *resolver) checkPinned() {
	if n := len(r.named.calls); n > maxFunctions {
		r.problems.add("transforms", "they call %d functions; want at most %d", n, maxFunctions)
	}
	if r.code == nil || len(r.named.calls) == 0 {
		return
	}
	if pinned := namesOf(r.code); !slices.Equal(pinned, r.named.calls) {
		r.problems.add("code.functions", "found %s, and the transforms call %s; leave `code` out: a master finds out "+
			"which one the workers have", few(pinned), few(r.named.calls))
	}
}

// namesOf are the names of the functions of code.
func namesOf(c *pb.Code) []string {
	out := make([]string, len(c.GetFunctions()))
	for i, f := range c.GetFunctions() {
		out[i] = f.GetName()
	}
	return out
}

package spec

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

// How a call of a function by its name stands in a spec that is written as text: beside `op`, `in` and `out`. All other
// functions, only the Python package can say.

// callKeys are the fields of a function by their keys in text. Those of the rest come from the function's mark.
func callKeys() map[string]protoreflect.Name {
	return map[string]protoreflect.Name{
		"call": "call", "kind": "kind", "most": "most", "by": "style", "threads": "threads", "memory": "memory",
		"timeout": "timeout_ms", "args": "args",
	}
}

// callNames are all keys of a call, as messages list them.
func callNames() []string {
	return []string{
		"op", "call", "in", "out", "args", "kind", "most", "by", "threads", "memory", "timeout", "training_only",
	}
}

// isCall reports whether a node is a transform that calls a function.
func isCall(n *node) bool {
	i := slices.Index(n.keys, "op")
	return i >= 0 && n.items[i].kind == textNode && n.items[i].text == FunctionOp
}

// call reads what stands at a key of a call.
func (d *decoder) call(t *pb.Transform, key string, n *node, at string) {
	f := t.GetPython().ProtoReflect()
	switch {
	case key == "op" || key == "in" || key == "training_only":
		m := t.ProtoReflect()
		d.field(m, m.Descriptor().Fields().ByName(protoreflect.Name(key)), n, at)
	case key == "out":
		d.results(t, n, at)
	case key == "args":
		d.args(t.GetPython(), n, at)
	case key == "timeout":
		d.timeout(t.GetPython(), n, at)
	case callKeys()[key] != "":
		d.field(f, f.Descriptor().Fields().ByName(callKeys()[key]), n, at)
	default:
		d.problems.add(at, "unknown field%s%s; known of a call of a function: %s", atLine(n),
			hint(natural.Nearest(key, slices.Values(callNames()))), strings.Join(callNames(), ", "))
	}
}

// called checks that a call says what is called.
func (d *decoder) called(n *node, path string) {
	i := slices.Index(n.keys, "call")
	if i < 0 || n.items[i].kind == nullNode || n.items[i].kind == textNode && n.items[i].text == "" {
		d.problems.add(path+".call", "found nothing%s; want the function by its name, such as %s", atLine(n),
			exampleCall)
	}
}

const exampleCall = "mypkg.features:tokenize"

// results reads what a function makes: a type for each name.
func (d *decoder) results(t *pb.Transform, n *node, path string) {
	if !d.mapping(n, path, "a mapping of what the function makes to types, such as {tokens: list<int32>}") {
		return
	}
	for i, name := range n.keys {
		item, at := n.items[i], join(path, name)
		if !d.enter(item) {
			return
		}
		var out *pb.Result
		if item.kind == textNode {
			out = parseResult(item.text)
		}
		switch {
		case slices.Contains(n.keys[:i], name):
			d.problems.add(at, "stands here twice%s", atLine(item))
		case out == nil:
			near := ""
			if item.kind == textNode {
				near = hint(natural.Nearest(strings.ToLower(item.text), slices.Values(typeNames())))
			}
			d.wrong(at, item, "a type, such as int32, string, list<float32> or tensor<3x224x224xuint8>"+near)
		default:
			out.Name = name
			t.Outs = append(t.Outs, out)
		}
	}
}

// args reads the keywords that a function is called with.
func (d *decoder) args(f *pb.Function, n *node, path string) {
	if !d.mapping(n, path, "a mapping of keywords, such as {lower: true}") {
		return
	}
	for i, name := range n.keys {
		if _, twice := f.GetArgs()[name]; twice {
			d.problems.add(join(path, name), "stands here twice%s", atLine(n.items[i]))
			continue
		}
		if f.Args == nil {
			f.Args = map[string]*pb.Value{}
		}
		v := &pb.Value{}
		f.Args[name] = v
		d.value(v, n.items[i], join(path, name))
	}
}

// timeout reads seconds.
func (d *decoder) timeout(f *pb.Function, n *node, path string) {
	if n.kind == nullNode {
		return
	}
	ms := -1.0
	if seconds, ok := n.float(); ok {
		ms = math.Round(seconds * 1000)
	}
	if !(ms >= 1 && ms <= maxTimeout) {
		d.wrong(path, n, fmt.Sprintf("seconds for each call, from 0.001 to %d (a day)", maxTimeout/1000))
		return
	}
	f.TimeoutMs = int64(ms)
}

// called writes a transform that calls a function by its name.
func (f *formatter) called(t *pb.Transform, indent string) {
	fn := t.GetPython()
	if fn.GetCall() == "" || t.GetOut() != "" || len(t.GetParams()) > 0 {
		f.fail("a call of a function is what penstock.op makes in Python, unless it is by name: no text can say it")
		return
	}
	f.line(indent, "op", FunctionOp)
	f.line(indent, "call", f.text(fn.GetCall()))
	m := t.ProtoReflect()
	if in := m.Descriptor().Fields().ByName("in"); m.Has(in) {
		f.line(indent, "in", f.list(in, m.Get(in).List()))
	}
	var outs []string
	for _, r := range t.GetOuts() {
		text := resultText(r)
		if back := parseResult(text); back == nil {
			f.fail("%s makes %s of a type that no text can say: %s", fn.GetCall(), r.GetName(), text)
		}
		if r.GetMarked() != "" {
			f.fail("%s makes %s under another name than its mark says, as in a fit: no text can say it", fn.GetCall(),
				r.GetName())
		}
		outs = append(outs, f.text(r.GetName())+": "+f.text(text))
	}
	f.flow(indent, "out", outs)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(fn.GetArgs())) {
		args = append(args, f.text(name)+": "+f.value(fn.GetArgs()[name]))
	}
	f.flow(indent, "args", args)
	f.settings(fn.ProtoReflect(), indent)
	if t.GetTrainingOnly() {
		f.line(indent, "training_only", "true")
	}
}

// flow writes a mapping in braces, unless it is empty.
func (f *formatter) flow(indent, key string, entries []string) {
	if len(entries) > 0 {
		f.line(indent, key, "{"+strings.Join(entries, ", ")+"}")
	}
}

// settings writes what else a spec says of a function by its name. What only marks say, no text does.
func (f *formatter) settings(m protoreflect.Message, indent string) {
	known := map[protoreflect.Name]string{}
	for key, field := range callKeys() {
		known[field] = key
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		key := known[fd.Name()]
		switch {
		case !m.Has(fd) || key == "call" || key == "args":
		case key == "":
			f.fail("%s of a function by its name is what its mark says, and no text", fd.Name())
		case key == "timeout":
			f.line(indent, key, strconv.FormatFloat(float64(m.Get(fd).Int())/1000, 'f', -1, 64))
		case fd.Enum() != nil:
			f.line(indent, key, f.enum(fd, m))
		default:
			f.line(indent, key, f.scalar(m.Get(fd)))
		}
	}
}

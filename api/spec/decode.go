package spec

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

// Parse reads a spec from YAML or JSON. Its errors are Problems: all that is wrong with fields and their types.
// Whether the spec fits a dataset is for Resolve to say.
func Parse(data []byte) (*pb.Spec, error) {
	root, err := parseTree(data)
	if err != nil {
		return nil, Problems{{Message: err.Error()}}
	}
	s := &pb.Spec{}
	d := &decoder{}
	d.message(s.ProtoReflect(), root, "")
	if err := d.problems.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// ParseFormat reads what a dataset says of how its files are read, as YAML or JSON: "csv", or
// "{name: csv, delimiter: ;}".
func ParseFormat(text string) (*pb.Format, error) {
	root, err := parseTree([]byte(text))
	if err != nil {
		return nil, Problems{{Message: err.Error()}}
	}
	f := &pb.Format{}
	d := &decoder{}
	d.message(f.ProtoReflect(), root, "")
	return f, d.problems.err()
}

// decoder fills messages from nodes: the message's own descriptor says what belongs where.
type decoder struct {
	problems Problems
	nodes    int
	text     int // bytes of texts
}

// wrong reports that n is not what is wanted at path.
func (d *decoder) wrong(path string, n *node, want string) {
	d.problems.add(path, "found %s%s; want %s", n.found(), atLine(n), want)
}

func atLine(n *node) string {
	if n.line == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d)", n.line)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// enter counts a node and reports whether there may be more.
func (d *decoder) enter(n *node) bool {
	if d.nodes >= maxNodes || d.text > maxBytes {
		return false
	}
	d.nodes++
	d.text += len(n.text)
	if d.nodes < maxNodes && d.text <= maxBytes {
		return true
	}
	d.problems.add("", "the spec's aliases make it longer than %d values, or %d bytes of text", maxNodes, maxBytes)
	return false
}

// onErrorFail is how a spec says that nothing may be skipped.
const onErrorFail = "fail"

func (d *decoder) message(m protoreflect.Message, n *node, path string) {
	if v, ok := m.Interface().(*pb.Value); ok {
		d.value(v, n, path)
		return
	}
	fields := m.Descriptor().Fields()
	want := "a mapping with " + strings.Join(fieldNames(fields), ", ")
	if _, ok := m.Interface().(*pb.OnError); ok {
		if n.kind == textNode && n.text == onErrorFail {
			return
		}
		want = onErrorFail + ", or a mapping such as {skip: 3}"
	}
	if f, ok := m.Interface().(*pb.Fitted); ok && n.kind == textNode {
		f.Uri = n.text
		return
	}
	if f, ok := m.Interface().(*pb.Format); ok && n.kind == textNode {
		f.Name = n.text
		return
	}
	if n.kind != mapNode {
		d.wrong(path, n, want)
		return
	}
	t, _ := m.Interface().(*pb.Transform)
	if t != nil && isCall(n) {
		t.Python = &pb.Function{}
	}
	seen := map[string]bool{}
	for i, key := range n.keys {
		if seen[key] {
			d.problems.add(join(path, key), "stands here twice%s", atLine(n.items[i]))
			continue
		}
		seen[key] = true
		d.entry(m, key, n.items[i], path)
	}
	if _, ok := m.Interface().(*pb.Feature); ok {
		d.shorthand(seen, path)
	}
	if t.GetPython() != nil {
		d.called(n, path)
	}
	if t.GetOp() == PackOp { // a fit's own
		d.problems.add(join(path, "op"), "no op %s; `penstock ops` lists them", PackOp)
	}
}

// entry reads what stands at a key of a message.
func (d *decoder) entry(m protoreflect.Message, key string, n *node, path string) {
	fields := m.Descriptor().Fields()
	fd := fieldOf(fields, key)
	if !d.enter(n) {
		return
	}
	if len(key) > maxKey {
		d.problems.add(path, "found a key of %d bytes%s; want at most %d", len(key), atLine(n), maxKey)
		return
	}
	at := join(path, key)
	switch msg := m.Interface().(type) {
	case *pb.Transform:
		if msg.Python != nil {
			d.call(msg, key, n, at)
			return
		}
		if fd == nil {
			d.param(msg, key, n, at)
			return
		}
		if fd.IsMap() {
			d.params(msg, n, at)
			return
		}
	case *pb.Format:
		if fd == nil || fd.Name() == "options" {
			d.formatOption(msg, key, n, at)
			return
		}
	case *pb.Feature:
		if layout := layoutOf(key); layout != pb.Layout_LAYOUT_UNSPECIFIED {
			msg.Layout = layout
			fd = fields.ByName("name")
		}
	}
	if fd == nil {
		names := fieldNames(fields)
		if _, ok := m.Interface().(*pb.Feature); ok {
			names = append(slices.Sorted(slices.Values(layoutNames())), names...)
		}
		d.problems.add(at, "unknown field%s%s; known here: %s",
			atLine(n), hint(natural.Nearest(key, slices.Values(names))), strings.Join(names, ", "))
		return
	}
	d.field(m, fd, n, at)
}

// shorthand checks that a feature says only once what it is.
func (d *decoder) shorthand(seen map[string]bool, path string) {
	var found []string
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		if layoutOf(key) != pb.Layout_LAYOUT_UNSPECIFIED {
			found = append(found, key)
		}
	}
	if len(found) > 1 {
		d.problems.add(path, "found %s together; give each layout an entry of its own", strings.Join(found, " and "))
	}
	if len(found) == 1 && (seen["name"] || seen["layout"]) {
		d.problems.add(path, "%s: says both name and layout already; leave out `name` and `layout`", found[0])
	}
}

func (d *decoder) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, n *node, path string) {
	if n.kind == nullNode {
		return
	}
	if fd.IsMap() {
		d.pairs(m.Mutable(fd).Map(), fd.MapValue(), n, path)
		return
	}
	if !fd.IsList() {
		if fd.Message() != nil {
			d.message(m.Mutable(fd).Message(), n, path)
		} else if v, ok := d.scalar(fd, n, path); ok {
			m.Set(fd, v)
		}
		return
	}
	items, at := []*node{n}, func(int) string { return path }
	if n.kind == listNode {
		items, at = n.items, func(i int) string { return fmt.Sprintf("%s[%d]", path, i) }
	}
	list := m.Mutable(fd).List()
	for i, item := range items {
		if !d.enter(item) {
			return
		}
		if fd.Message() != nil {
			d.message(list.AppendMutable().Message(), item, at(i))
		} else if v, ok := d.scalar(fd, item, at(i)); ok {
			list.Append(v)
		}
	}
}

// scalar reads a value of a field that is no message.
func (d *decoder) scalar(fd protoreflect.FieldDescriptor, n *node, path string) (v protoreflect.Value, ok bool) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if n.kind == textNode {
			return protoreflect.ValueOfString(n.text), true
		}
		d.wrong(path, n, textInstead(n))
	case protoreflect.BoolKind:
		if n.kind == boolNode {
			return protoreflect.ValueOfBool(n.truth), true
		}
		d.wrong(path, n, "true or false")
	case protoreflect.EnumKind:
		return d.enum(fd.Enum(), n, path)
	case protoreflect.Int32Kind:
		if i, ok := d.integer(n, path, math.MinInt32, math.MaxInt32); ok {
			return protoreflect.ValueOfInt32(int32(i)), true
		}
	case protoreflect.Uint32Kind:
		if i, ok := d.integer(n, path, 0, math.MaxUint32); ok {
			return protoreflect.ValueOfUint32(uint32(i)), true
		}
	case protoreflect.Int64Kind:
		if i, ok := d.integer(n, path, math.MinInt64, math.MaxInt64); ok {
			return protoreflect.ValueOfInt64(i), true
		}
	default:
		d.problems.add(path, "a field of kind %v cannot be written in a spec", fd.Kind())
	}
	return v, false
}

func textInstead(n *node) string {
	switch n.kind {
	case intNode, floatNode, boolNode:
		return fmt.Sprintf("text; in quotes it is: %q", n.found())
	}
	return "text"
}

func (d *decoder) integer(n *node, path string, low, high int64) (int64, bool) {
	i, ok := n.integer()
	if ok && i >= low && i <= high {
		return i, true
	}
	if n.kind == intNode {
		d.wrong(path, n, fmt.Sprintf("an integer from %d to %d", low, high))
	} else {
		d.wrong(path, n, "an integer")
	}
	return 0, false
}

func (d *decoder) enum(ed protoreflect.EnumDescriptor, n *node, path string) (protoreflect.Value, bool) {
	var names []string
	for i := 1; i < ed.Values().Len(); i++ { // 0 is "unspecified"
		value := ed.Values().Get(i)
		if ed == pb.Kind(0).Descriptor() && Width(pb.Kind(value.Number())) == 0 {
			continue // a dtype has a width
		}
		name := strings.ToLower(string(value.Name()))
		if n.kind == textNode && n.text == name {
			return protoreflect.ValueOfEnum(value.Number()), true
		}
		names = append(names, name)
	}
	want := "one of " + strings.Join(names, ", ")
	if n.kind == textNode {
		want += hint(natural.Nearest(strings.ToLower(n.text), slices.Values(names)))
	}
	d.wrong(path, n, want)
	return protoreflect.Value{}, false
}

// mapping reports whether a node is a mapping, which is wanted, and says so if it is something else than null.
func (d *decoder) mapping(n *node, path, want string) bool {
	if n.kind != mapNode && n.kind != nullNode {
		d.wrong(path, n, want)
	}
	return n.kind == mapNode
}

// params reads parameters that stand under `params`, where those named like a field of Transform must stand.
func (d *decoder) params(t *pb.Transform, n *node, path string) {
	if !d.mapping(n, path, "a mapping of parameters") {
		return
	}
	for i, key := range n.keys {
		d.param(t, key, n.items[i], join(path, key))
	}
}

func (d *decoder) param(t *pb.Transform, key string, n *node, path string) {
	if _, ok := t.GetParams()[key]; ok {
		d.problems.add(path, "parameter %s stands here twice%s", key, atLine(n))
		return
	}
	if t.Params == nil {
		t.Params = map[string]*pb.Value{}
	}
	v := &pb.Value{}
	t.Params[key] = v
	if n.kind == mapNode {
		d.fit(v, n, path)
		return
	}
	d.value(v, n, path)
}

// formatOption reads an option of a format, or all of them.
func (d *decoder) formatOption(f *pb.Format, key string, n *node, path string) {
	if key == "options" && n.kind == mapNode {
		for i, key := range n.keys {
			d.formatOption(f, key, n.items[i], join(path, key))
		}
		return
	}
	if _, ok := f.GetOptions()[key]; ok {
		d.problems.add(path, "option %s stands here twice%s", key, atLine(n))
		return
	}
	if f.Options == nil {
		f.Options = map[string]*pb.Value{}
	}
	v := &pb.Value{}
	f.Options[key] = v
	d.value(v, n, path)
}

// fit reads a parameter that the data say: {fit: median} or {quantiles: 100}.
func (d *decoder) fit(v *pb.Value, n *node, path string) {
	if !d.enter(n) {
		return
	}
	const want = "a number, a text, true, false, a list of such, or what the data say, such as {fit: median} or " +
		"{quantiles: 100}"
	if len(n.keys) != 1 {
		d.wrong(path, n, want)
		return
	}
	f := &pb.Fit{Statistic: n.keys[0]}
	switch item := n.items[0]; {
	case f.Statistic == FitWord && item.kind == textNode:
		f.Statistic = item.text
	case f.Statistic != FitWord && (item.kind == intNode || item.kind == floatNode):
		f.Arg = &pb.Value{}
		d.value(f.Arg, item, path)
	default:
		d.wrong(path, n, want)
		return
	}
	if wrong := noStatistic(f.GetStatistic()); wrong != "" {
		d.problems.add(path, "%s%s", wrong, atLine(n))
		return
	}
	v.Kind = &pb.Value_Fit{Fit: f}
}

func (d *decoder) value(v *pb.Value, n *node, path string) {
	if !d.enter(n) {
		return
	}
	switch n.kind {
	case boolNode:
		v.Kind = &pb.Value_Bool{Bool: n.truth}
	case textNode:
		v.Kind = &pb.Value_Text{Text: n.text}
	case intNode:
		i, ok := n.integer()
		if !ok {
			d.wrong(path, n, "an integer of 64 bits")
		}
		v.Kind = &pb.Value_Int{Int: i}
	case floatNode:
		f, ok := n.float()
		if !ok {
			d.wrong(path, n, "a number within the range of float64")
		}
		v.Kind = &pb.Value_Float{Float: f}
	case listNode:
		list := make([]*pb.Value, len(n.items))
		for i, item := range n.items {
			list[i] = &pb.Value{}
			d.value(list[i], item, fmt.Sprintf("%s[%d]", path, i))
		}
		v.Kind = ListOf(list).Kind
	default:
		d.wrong(path, n, "a number, text, true, false or a list of such")
	}
}

// fieldNames are the keys of a message in a spec.
func fieldNames(fields protoreflect.FieldDescriptors) []string {
	names := make([]string, 0, fields.Len())
	for i := range fields.Len() {
		if fd := fields.Get(i); inTexts(fd) {
			names = append(names, string(fd.Name()))
		}
	}
	return names
}

// fieldOf is the field of a message that a key in a spec stands for, nil if there is none.
func fieldOf(fields protoreflect.FieldDescriptors, key string) protoreflect.FieldDescriptor {
	if fd := fields.ByName(protoreflect.Name(key)); fd != nil && inTexts(fd) {
		return fd
	}
	return nil
}

// inTexts reports whether a spec that is written as text may have a field as it is. Calls of Python functions stand
// there in another way, and where their code is, no text says.
func inTexts(fd protoreflect.FieldDescriptor) bool {
	switch fd.Message() {
	case (*pb.Function)(nil).ProtoReflect().Descriptor(), (*pb.Result)(nil).ProtoReflect().Descriptor(),
		(*pb.Code)(nil).ProtoReflect().Descriptor():
		return false
	}
	return true
}

package spec

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/pb"
)

// Diff names the fields in which the specs of two sessions differ in meaning, in the order of the spec: "batch_size:
// 1024 and 4096". Fields that are left out equal their defaults: see Settle.
func Diff(a, b *pb.Spec) []string {
	d := differ{}
	d.message("", explicit(a).ProtoReflect(), explicit(b).ProtoReflect())
	return d.lines
}

// explicit returns a copy with defaults written out and lists in their canonical forms.
func explicit(s *pb.Spec) *pb.Spec {
	s = proto.CloneOf(s)
	if s == nil {
		s = &pb.Spec{}
	}
	if s.Dataset == nil {
		s.Dataset = &pb.Dataset{}
	}
	if s.LastBatch == pb.LastBatch_LAST_BATCH_UNSPECIFIED {
		s.LastBatch = pb.LastBatch_UNEVEN
	}
	if s.Order == pb.Order_ORDER_UNSPECIFIED {
		s.Order = pb.Order_FAST
	}
	if s.OnError == nil {
		s.OnError = &pb.OnError{}
	}
	s.Epochs, s.Python = Epochs(s), cmp.Or(s.Python, DefaultEnvironment)
	for _, t := range s.GetTransforms() {
		t.Python = settledFunction(t.GetPython())
	}
	if s.Code != nil {
		slices.Sort(s.Code.Distributions)
	}
	Canonical(s)
	return s
}

type differ struct{ lines []string }

func (d *differ) add(path, a, b string) { d.lines = append(d.lines, path+": "+a+" and "+b) }

func (d *differ) message(path string, a, b protoreflect.Message) {
	switch a := a.Interface().(type) {
	case *pb.Transform: // its parameters stand beside its fields
		d.values(path, a.GetParams(), b.Interface().(*pb.Transform).GetParams())
	case *pb.Function:
		d.values(join(path, "args"), a.GetArgs(), b.Interface().(*pb.Function).GetArgs())
	case *pb.Value:
		d.value(path, a, b.Interface().(*pb.Value))
		return
	case *pb.Code:
		d.code(path, a, b.Interface().(*pb.Code))
		return
	case *pb.Type:
		if x, y := TypeFromProto(a), TypeFromProto(b.Interface().(*pb.Type)); x != y {
			d.add(path, x.String(), y.String())
		}
		return
	}
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		at := join(path, string(fd.Name()))
		x, y := a.Get(fd), b.Get(fd)
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil: // compared above
		case fd.IsMap():
			d.pairs(fd.MapValue(), at, x.Map(), y.Map())
		case fd.IsList():
			d.list(fd, at, x.List(), y.List())
		case fd.Message() != nil:
			d.message(at, x.Message(), y.Message())
		case !x.Equal(y):
			d.add(at, shown(fd, x), shown(fd, y))
		}
	}
}

func (d *differ) list(fd protoreflect.FieldDescriptor, path string, a, b protoreflect.List) {
	if fd.Message() == nil {
		if x, y := listed(fd, a), listed(fd, b); x != y {
			d.add(path, x, y)
		}
		return
	}
	for i := range min(a.Len(), b.Len()) {
		d.message(fmt.Sprintf("%s[%d]", path, i), a.Get(i).Message(), b.Get(i).Message())
	}
	if a.Len() != b.Len() {
		d.add(path, fmt.Sprintf("%d", a.Len()), fmt.Sprintf("%d entries", b.Len()))
	}
}

// values compares the values of a map.
func (d *differ) values(path string, a, b map[string]*pb.Value) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d.value(join(path, name), a[name], b[name])
	}
}

func (d *differ) value(path string, a, b *pb.Value) {
	if proto.Equal(a, b) { // long lists, mostly
		return
	}
	if x, y := shownValue(a), shownValue(b); x != y {
		d.add(path, x, y)
	}
}

// code tells which functions differ, and what they run with.
func (d *differ) code(path string, a, b *pb.Code) {
	told := len(d.lines)
	n, m := len(a.GetFunctions()), len(b.GetFunctions())
	for i := range min(n, m) {
		switch x, y := a.Functions[i], b.Functions[i]; {
		case x.GetName() != y.GetName():
			d.add(fmt.Sprintf("%s.functions[%d]", path, i), x.GetName(), y.GetName())
		case !bytes.Equal(x.GetDigest(), y.GetDigest()):
			d.lines = append(d.lines, fmt.Sprintf("%s: function %s differs", path, x.GetName()))
		}
	}
	if n != m {
		d.add(path+".functions", fmt.Sprint(n), fmt.Sprintf("%d entries", m))
	}
	if x, y := a.GetPython(), b.GetPython(); x != y {
		d.runs(path, "Python", x, y)
	}
	d.distributions(path, a.GetDistributions(), b.GetDistributions())
	if len(d.lines) == told && !bytes.Equal(a.GetDigest(), b.GetDigest()) {
		d.lines = append(d.lines, path+": what the functions refer to differs")
	}
}

// distributions tells in which distributions two sorted lists differ: in versions, where both have one of a name.
func (d *differ) distributions(path string, a, b []string) {
	first := func(list []string) (name, version string) {
		if len(list) > 0 {
			name, version, _ = strings.Cut(list[0], "==")
		}
		return name, version
	}
	for len(a) > 0 || len(b) > 0 {
		x, was := first(a)
		y, is := first(b)
		switch {
		case y == "" || x != "" && a[0] < b[0] && x != y:
			d.runs(path, x, was, "")
			a = a[1:]
		case x != y:
			d.runs(path, y, "", is)
			b = b[1:]
		default:
			if was != is {
				d.runs(path, x, was, is)
			}
			a, b = a[1:], b[1:]
		}
	}
}

// runs tells what functions run with, of versions of which "" is none.
func (d *differ) runs(path, with, was, is string) {
	switch {
	case is == "":
		d.add(path, "the functions run with "+with+" "+was, "without it")
	case was == "":
		d.add(path, "the functions run without "+with, "with "+with+" "+is)
	default:
		d.add(path, "the functions run with "+with+" "+was, "with "+is)
	}
}

func shownValue(v *pb.Value) string {
	if v.GetKind() == nil {
		return "nothing"
	}
	return newFormatter().value(v)
}

// shown writes a scalar for people.
func shown(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if fd.Enum() != nil {
		if e := fd.Enum().Values().ByNumber(v.Enum()); e != nil {
			return strings.ToLower(string(e.Name()))
		}
	}
	if fd.Name() == "epochs" && v.Uint() == Unlimited {
		return "no limit"
	}
	if s, ok := v.Interface().(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return v.String()
}

func listed(fd protoreflect.FieldDescriptor, l protoreflect.List) string {
	items := make([]string, l.Len())
	for i := range items {
		items[i] = shown(fd, l.Get(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

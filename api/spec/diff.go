package spec

import (
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
	s.Epochs = Epochs(s)
	Canonical(s)
	return s
}

type differ struct{ lines []string }

func (d *differ) add(path, a, b string) { d.lines = append(d.lines, path+": "+a+" and "+b) }

func (d *differ) message(path string, a, b protoreflect.Message) {
	if v, ok := a.Interface().(*pb.Value); ok {
		d.value(path, v, b.Interface().(*pb.Value))
		return
	}
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		at := join(path, string(fd.Name()))
		x, y := a.Get(fd), b.Get(fd)
		switch {
		case fd.IsMap():
			d.params(path, a.Interface().(*pb.Transform).GetParams(), b.Interface().(*pb.Transform).GetParams())
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

func (d *differ) params(path string, a, b map[string]*pb.Value) {
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

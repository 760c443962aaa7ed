package spec

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/pb"
)

// Format writes a spec as YAML that Parse reads back to an equal spec. It fails for what YAML cannot say: values
// without a kind, unknown enum numbers, text that is not UTF-8, functions of Python but for calls by name.
func Format(s *pb.Spec) ([]byte, error) {
	f := newFormatter()
	f.message(s.ProtoReflect(), "")
	if f.err != nil {
		return nil, fmt.Errorf("format spec: %w", f.err)
	}
	if f.b.Len() == 0 {
		return []byte("{}\n"), nil
	}
	return []byte(f.b.String()), nil
}

type formatter struct {
	b     strings.Builder
	plain *regexp.Regexp
	err   error
}

func newFormatter() *formatter {
	return &formatter{plain: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./*-]*$`)}
}

func (f *formatter) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// message writes the fields that are set, a line each or more.
func (f *formatter) message(m protoreflect.Message, indent string) {
	if t, ok := m.Interface().(*pb.Transform); ok && t.GetOp() == FunctionOp {
		f.called(t, indent)
		return
	}
	fields := m.Descriptor().Fields()
	feature, _ := m.Interface().(*pb.Feature)
	short := len(feature.GetName()) > 0 && feature.GetLayout() != pb.Layout_LAYOUT_UNSPECIFIED
	for i := range fields.Len() {
		fd := fields.Get(i)
		key := string(fd.Name())
		switch {
		case !m.Has(fd):
		case !inTexts(fd):
			f.fail("%s is what penstock.op makes in Python, and no text can say it", fd.Name())
		case fd.IsMap():
			f.mapping(m, fd, indent)
		case short && key == "name":
			f.line(indent, f.enum(fields.ByName("layout"), m), f.list(fd, m.Get(fd).List()))
		case short && key == "layout":
		case fd.IsList() && fd.Message() != nil:
			f.entries(key, m.Get(fd).List(), indent)
		case fd.IsList():
			f.line(indent, key, f.list(fd, m.Get(fd).List()))
		case fd.Message() != nil:
			f.nested(key, m.Get(fd).Message(), indent)
		case fd.Enum() != nil:
			f.line(indent, key, f.enum(fd, m))
		default:
			f.line(indent, key, f.scalar(m.Get(fd)))
		}
	}
}

// mapping writes a field that is a map; parameters and options stand beside the other fields.
func (f *formatter) mapping(m protoreflect.Message, fd protoreflect.FieldDescriptor, indent string) {
	switch msg := m.Interface().(type) {
	case *pb.Transform:
		f.params(m, fd, msg.GetParams(), indent)
	case *pb.Format:
		if fd.MapValue().Message() != nil {
			f.params(m, fd, msg.GetOptions(), indent)
			return
		}
		f.line(indent, string(fd.Name()), f.pairs(m.Get(fd).Map()))
	default:
		f.line(indent, string(fd.Name()), f.pairs(m.Get(fd).Map()))
	}
}

func (f *formatter) line(indent, key, value string) {
	f.b.WriteString(indent + key + ": " + value + "\n")
}

func (f *formatter) nested(key string, m protoreflect.Message, indent string) {
	if v, ok := m.Interface().(*pb.Value); ok {
		f.line(indent, key, f.value(v))
		return
	}
	if e, ok := m.Interface().(*pb.OnError); ok && e.GetSkip() == 0 && e.GetSkipRows() == 0 {
		f.line(indent, key, onErrorFail)
		return
	}
	if fitted, ok := m.Interface().(*pb.Fitted); ok && fitted.GetDigest() == "" {
		f.line(indent, key, f.text(fitted.GetUri()))
		return
	}
	if inner := f.inner(m, indent+"  "); inner != "" {
		f.b.WriteString(indent + key + ":\n" + inner)
	} else {
		f.line(indent, key, "{}")
	}
}

func (f *formatter) inner(m protoreflect.Message, indent string) string {
	in := &formatter{plain: f.plain}
	in.message(m, indent)
	f.err = errors.Join(f.err, in.err)
	return in.b.String()
}

// entries writes a list of messages, each behind a dash.
func (f *formatter) entries(key string, list protoreflect.List, indent string) {
	f.b.WriteString(indent + key + ":\n")
	for i := range list.Len() {
		text := strings.TrimLeft(f.inner(list.Get(i).Message(), indent+"    "), " ")
		if text == "" {
			text = "{}\n"
		}
		f.b.WriteString(indent + "  - " + text)
	}
}

// list writes scalars in brackets, or one by itself.
func (f *formatter) list(fd protoreflect.FieldDescriptor, list protoreflect.List) string {
	items := make([]string, list.Len())
	for i := range items {
		items[i] = f.scalar(list.Get(i))
	}
	if len(items) == 1 && fd.Kind() == protoreflect.StringKind {
		return items[0]
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func (f *formatter) scalar(v protoreflect.Value) string {
	if s, ok := v.Interface().(string); ok {
		return f.text(s)
	}
	return v.String()
}

func (f *formatter) enum(fd protoreflect.FieldDescriptor, m protoreflect.Message) string {
	v := fd.Enum().Values().ByNumber(m.Get(fd).Enum())
	if v == nil {
		f.fail("%s has the unknown number %d", fd.Name(), m.Get(fd).Enum())
		return ""
	}
	return strings.ToLower(string(v.Name()))
}

// params writes parameters beside the other fields, or under `params` if one bears the name of a field.
func (f *formatter) params(
	m protoreflect.Message, fd protoreflect.FieldDescriptor, params map[string]*pb.Value, indent string,
) {
	fields := m.Descriptor().Fields()
	names := slices.Sorted(maps.Keys(params))
	if slices.ContainsFunc(names, func(name string) bool { return fieldOf(fields, name) != nil }) {
		f.b.WriteString(indent + string(fd.Name()) + ":\n")
		indent += "  "
	}
	for _, name := range names {
		f.line(indent, f.text(name), f.value(params[name]))
	}
}

func (f *formatter) value(v *pb.Value) string {
	switch k := v.GetKind().(type) {
	case *pb.Value_Int:
		return strconv.FormatInt(k.Int, 10)
	case *pb.Value_Float:
		return formatFloat(k.Float)
	case *pb.Value_Text:
		return f.text(k.Text)
	case *pb.Value_Bool:
		return strconv.FormatBool(k.Bool)
	case *pb.Value_List, *pb.Value_Floats, *pb.Value_Ints:
		var items []string
		for _, item := range Elements(v) {
			items = append(items, f.value(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case *pb.Value_Fit:
		if k.Fit.GetArg() == nil {
			return "{" + FitWord + ": " + f.text(k.Fit.GetStatistic()) + "}"
		}
		return "{" + f.text(k.Fit.GetStatistic()) + ": " + f.value(k.Fit.GetArg()) + "}"
	}
	f.fail("a value has no kind")
	return ""
}

// text writes text bare where every reader of YAML takes it for text, else in double quotes.
func (f *formatter) text(s string) string {
	if !utf8.ValidString(s) {
		f.fail("%q is not UTF-8", s)
		return ""
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if f.plain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

package spec

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/pb"
)

// layoutOf is the layout of a name; LAYOUT_UNSPECIFIED: there is none.
func layoutOf(name string) pb.Layout {
	if !slices.Contains(layoutNames(), name) {
		return pb.Layout_LAYOUT_UNSPECIFIED
	}
	return pb.Layout(pb.Layout_value[strings.ToUpper(name)])
}

// layoutNames are those of all layouts, in the order in which they are told.
func layoutNames() []string {
	return []string{"dense", "sparse", "label", "bytes", "image", "tensor", "padded"}
}

// layoutName is a layout's name in specs, if it is one.
func layoutName(l pb.Layout) (string, bool) {
	name, ok := pb.Layout_name[int32(l)]
	return strings.ToLower(name), ok && l != pb.Layout_LAYOUT_UNSPECIFIED
}

// Layouts are the names of those that take a column as it is; none takes one that is unsupported, or a whole map.
func Layouts(c Column) (names []string) {
	if !c.selectable() {
		return nil
	}
	for _, name := range layoutNames() {
		if layoutMistake(layoutOf(name), c.Type) == "" {
			names = append(names, name)
		}
	}
	return names
}

// hasOwn reports whether a layout has values as the files do, not as ops see them.
func hasOwn(l pb.Layout) bool { return l == pb.Layout_TENSOR || l == pb.Layout_PADDED }

// layoutMistake says what a layout takes if it does not take the type.
func layoutMistake(l pb.Layout, t Type) string {
	text := t.Kind == pb.Kind_BINARY
	switch {
	case t.Kind == pb.Kind_PICTURE:
		return pictureMistake(l, t)
	case t.Nested > 0 && text:
		return "no layout takes lists of lists of byte strings"
	case t.Nested > 0 && l != pb.Layout_TENSOR:
		return "only layout tensor takes lists of lists"
	case Small(t.Kind) && !hasOwn(l): // of a function: columns have another kind beside it
		return "only layouts tensor and padded take " + KindName(t.Kind)
	}
	switch l {
	case pb.Layout_DENSE:
		switch {
		case t.List:
			return "dense takes one number or bool a row; use sparse, tensor or padded, or an op that makes one of " +
				"the list"
		case text:
			return "dense takes numbers and bools; use an op that makes numbers of text"
		}
	case pb.Layout_SPARSE:
		switch {
		case text:
			return "sparse takes numbers; make ids of text by an op such as sigrid_hash first"
		case t.Kind == pb.Kind_BOOL:
			return "sparse takes integers and floats; cast it first"
		}
	case pb.Layout_LABEL:
		switch {
		case t.List:
			return "a label is one number or bool a row"
		case text:
			return "a label is a number or bool; use layout bytes, or an op that makes a number of text"
		}
	case pb.Layout_BYTES:
		if !text {
			return "bytes takes one binary value a row, or a list of them"
		}
	case pb.Layout_IMAGE:
		if t.List || !text {
			return "image takes one binary value a row"
		}
	case pb.Layout_TENSOR:
		if t.List && text {
			return "tensor takes numbers and bools, lists of them, and one binary value a row"
		}
	case pb.Layout_PADDED:
		if !t.List || text {
			return "padded takes lists of numbers or bools"
		}
	}
	return ""
}

func pictureMistake(l pb.Layout, t Type) string {
	switch {
	case l != pb.Layout_IMAGE:
		return "pictures become tensors by layout image"
	case t.Picture.Height == 0:
		return "all images of a tensor have one size; add a transform that makes it: resize, center_crop or " +
			"random_resized_crop"
	}
	return ""
}

// takers are the layouts that have a use for a field of a feature. Fields that are not here all have, or are checked
// where they are used.
func takers() map[protoreflect.Name][]string {
	return map[protoreflect.Name][]string{
		"shape": {"image", "tensor"}, "dtype": {"tensor"}, "length": {"padded"}, "side": {"padded"},
		"truncate": {"padded"}, "value": {"padded", "sparse"}, "nulls": {"padded", "sparse"},
	}
}

// checkFields refuses fields that mean nothing to the layout.
func (b *outputBuilder) checkFields(path string, f *pb.Feature) {
	layout, known := layoutName(f.GetLayout())
	m, takers := f.ProtoReflect(), takers()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		who, ok := takers[field.Name()]
		if ok && known && m.Has(field) && !slices.Contains(who, layout) {
			b.problems.add(join(path, string(field.Name())), "layout %s has no %s; only %s",
				layout, field.Name(), strings.Join(who, " and "))
		}
	}
}

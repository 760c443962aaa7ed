package spec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// denseName is the tensor into which all dense features are stacked.
const denseName = "dense"

// output is one tensor.
type output struct {
	proto    *pb.Output
	features []*feature
	weights  *feature
	at       string
}

// resolved returns the output with the slots that its features got.
func (o *output) resolved() *pb.Output {
	for _, f := range o.features {
		o.proto.Slots = append(o.proto.Slots, f.slot)
	}
	if o.weights != nil {
		o.proto.Weights = &o.weights.slot
	}
	return o.proto
}

// features adds the outputs.
func (r *resolver) features(s *pb.Spec) {
	if len(s.GetFeatures()) == 0 {
		r.problems.add("features", "found none; want at least one, such as {dense: int_*}")
	}
	b := &outputBuilder{
		resolver: r, byName: map[string]*output{}, inDense: map[*feature]bool{},
		defaults: map[string]string{},
	}
	if s.GetProvenance() {
		for _, name := range []string{"_file", "_row"} {
			b.byName[name] = &output{at: "provenance"}
		}
	}
	for i, f := range s.GetFeatures() {
		b.entry(fmt.Sprintf("features[%d]", i), f)
	}
}

// outputBuilder goes through the features of a spec.
type outputBuilder struct {
	*resolver
	byName  map[string]*output
	dense   *output
	inDense map[*feature]bool
	// where each source got its default
	defaults map[string]string
}

// entry adds what one entry of `features` selects.
func (b *outputBuilder) entry(path string, f *pb.Feature) {
	layout := f.GetLayout()
	if len(f.GetName()) == 0 {
		b.problems.add(path, "no name; want the names or globs of features, such as {dense: int_*}")
	}
	if _, ok := layoutName(layout); !ok {
		b.problems.add(path+".layout", "found nothing that is known; want one of dense, sparse, label, bytes, image")
	}
	weights := b.weights(path, f)
	b.checkShape(path, f)
	features := b.expand(path, f.GetName())
	var mistakes grouped
	if f.GetDefault().GetKind() != nil {
		b.setDefaults(path, features, f.GetDefault(), &mistakes)
	}
	for _, feat := range features {
		feat.needed = true
		if feat.unknown() {
			continue
		}
		if message := layoutMistake(layout, feat.typ); message != "" {
			mistakes.add(feat.name, fmt.Sprintf("%v; %s", feat.typ, message))
			continue
		}
		b.add(path, f, feat, weights)
	}
	for _, message := range mistakes.messages {
		b.problems.add(path, "%s: %s", few(mistakes.names[message]), message)
	}
}

// layoutName is a layout's name in specs, if it is one.
func layoutName(l pb.Layout) (string, bool) {
	name, ok := pb.Layout_name[int32(l)]
	return strings.ToLower(name), ok && l != pb.Layout_LAYOUT_UNSPECIFIED
}

// layoutMistake says what a layout takes if it does not take the type.
func layoutMistake(l pb.Layout, t Type) string {
	text := t.Kind == pb.Kind_BINARY
	if t.Kind == pb.Kind_PICTURE {
		switch {
		case l != pb.Layout_IMAGE:
			return "pictures become tensors by layout image"
		case t.Picture.Height == 0:
			return "all images of a tensor have one size; add a transform that makes it: resize, center_crop or " +
				"random_resized_crop"
		}
		return ""
	}
	switch l {
	case pb.Layout_DENSE:
		switch {
		case t.List:
			return "dense takes one number or bool a row; use sparse, or an op that makes one of the list"
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
	case pb.Layout_BYTES, pb.Layout_IMAGE:
		if t.List || !text {
			name, _ := layoutName(l)
			return name + " takes one binary value a row"
		}
	}
	return ""
}

// add puts a feature into the stack of dense ones, or makes it a tensor of its own.
func (b *outputBuilder) add(path string, f *pb.Feature, feat, weights *feature) {
	if f.GetLayout() == pb.Layout_DENSE {
		b.addDense(path, feat)
		return
	}
	o := &output{features: []*feature{feat}, at: path, proto: &pb.Output{
		Name: feat.name, Layout: f.GetLayout(), Shape: b.shape(path, f, feat), Type: elementType(f.GetLayout(),
			feat.typ).Proto(),
	}}
	if weights != nil && !weights.unknown() {
		if weights.typ.List != feat.typ.List {
			b.problems.add(path+".weights", "%s, but %s; want a score for each id", typed(weights), typed(feat))
		}
		o.weights = weights
	}
	b.register(o)
}

func (b *outputBuilder) addDense(path string, feat *feature) {
	if b.inDense[feat] {
		return
	}
	b.inDense[feat] = true
	if b.dense == nil {
		b.dense = &output{at: path, proto: &pb.Output{
			Name: denseName, Layout: pb.Layout_DENSE, Type: Type{Kind: pb.Kind_FLOAT32}.Proto(),
		}}
		b.register(b.dense)
	}
	b.dense.features = append(b.dense.features, feat)
	b.dense.proto.Columns = append(b.dense.proto.Columns, feat.name)
}

func (b *outputBuilder) register(o *output) {
	if old, ok := b.byName[o.proto.GetName()]; ok {
		b.problems.add(o.at,
			"a tensor %s comes from %s already; rename one by a transform with `out`, or select it once",
			o.proto.GetName(), old.at)
		return
	}
	b.byName[o.proto.GetName()] = o
	b.outputs = append(b.outputs, o)
}

// elementType is the type of a tensor's elements.
func elementType(l pb.Layout, t Type) Type {
	switch {
	case t.Kind == pb.Kind_PICTURE && t.Picture.Floats:
		return Type{Kind: pb.Kind_FLOAT32}
	case t.Kind == pb.Kind_PICTURE:
		return Type{Kind: pb.Kind_BINARY}
	case l != pb.Layout_SPARSE:
		return Type{Kind: t.Kind}
	case t.Kind == pb.Kind_FLOAT32 || t.Kind == pb.Kind_FLOAT64:
		return Type{Kind: pb.Kind_FLOAT32}
	}
	return Type{Kind: pb.Kind_INT64}
}

func (b *outputBuilder) weights(path string, f *pb.Feature) *feature {
	name := f.GetWeights()
	if name == "" {
		return nil
	}
	path += ".weights"
	if f.GetLayout() != pb.Layout_SPARSE {
		b.problems.add(path, "found %s; only sparse features have weights", name)
		return nil
	}
	w, err := b.find(name)
	switch {
	case err != nil:
		b.problems.add(path, "%v", err)
		return nil
	case w == nil:
		b.problems.add(path, "no feature %s%s", name, b.suggestColumn(name, b.names()))
		return nil
	}
	w.needed = true
	if k := w.typ.Kind; !w.unknown() && k != pb.Kind_FLOAT32 && k != pb.Kind_FLOAT64 {
		b.problems.add(path, "%s; weights are floats, one for each id", typed(w))
		return nil
	}
	return w
}

// checkShape checks a shape by itself.
func (b *outputBuilder) checkShape(path string, f *pb.Feature) {
	path += ".shape"
	shape := f.GetShape()
	if len(shape) == 0 {
		return
	}
	if f.GetLayout() != pb.Layout_IMAGE {
		b.problems.add(path, "found %v; only images have a shape", shape)
		return
	}
	size := int64(1)
	for _, d := range shape {
		if size *= int64(d); d <= 0 || size > math.MaxInt32 {
			size = 0
			break
		}
	}
	if len(shape) != 3 || size == 0 {
		b.problems.add(path, "found %v; want [height, width, channels], each above 0 and their product below 2 GiB",
			shape)
	}
}

// shape is a tensor's: that of raw images is given, that of pictures follows from the ops that made them.
func (b *outputBuilder) shape(path string, f *pb.Feature, feat *feature) []int32 {
	path += ".shape"
	given := f.GetShape()
	if feat.typ.Kind != pb.Kind_PICTURE {
		if len(given) == 0 && f.GetLayout() == pb.Layout_IMAGE {
			b.problems.add(path,
				"found []; want [height, width, channels] of raw pixels (%s), or transforms that make pictures of "+
					"encoded ones: "+
					"decode_jpeg or decode_png, then resize", feat.name)
		}
		return given
	}
	p := feat.typ.Picture
	last, first := []int32{p.Height, p.Width, p.Channels}, []int32{p.Channels, p.Height, p.Width}
	switch {
	case len(given) == 0, slices.Equal(given, last):
		return last
	case slices.Equal(given, first):
		return first
	}
	b.problems.add(path, "found %v, but %s is %v; want %v, or %v for channel by channel, or no shape",
		given, feat.name, feat.typ, last, first)
	return given
}

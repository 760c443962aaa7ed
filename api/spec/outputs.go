package spec

import (
	"fmt"
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
		if slices.ContainsFunc(r.steps, func(st *step) bool { return RowsOfStep(st.proto) == MoreRows }) {
			b.byName["_part"] = &output{at: "provenance"}
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
		b.problems.add(path+".layout", "found nothing that is known; want one of %s", strings.Join(layoutNames(), ", "))
	}
	weights := b.weights(path, f)
	b.checkFields(path, f)
	b.checkShape(path, f)
	features := b.expand(path, f.GetName())
	if hasOwn(layout) {
		for i, feat := range features {
			features[i] = b.own(feat)
		}
	}
	var mistakes grouped
	if f.GetDefault().GetKind() != nil && layout != pb.Layout_TENSOR {
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
		if err := b.add(path, f, feat, weights); err != nil {
			mistakes.add(feat.name, fmt.Sprintf("%v; %v", feat.typ, err))
		}
	}
	for _, message := range mistakes.messages {
		b.problems.add(path, "%s: %s", few(mistakes.names[message]), message)
	}
}

// add puts a feature into the stack of dense ones, or makes it a tensor of its own. The error says what is wrong with
// the feature.
func (b *outputBuilder) add(path string, f *pb.Feature, feat, weights *feature) (err error) {
	if f.GetLayout() == pb.Layout_DENSE {
		b.addDense(path, feat)
		return nil
	}
	o := &output{features: []*feature{feat}, at: path, proto: &pb.Output{
		Name: feat.name, Layout: f.GetLayout(), Type: elementType(f, feat.typ).Proto(),
	}}
	switch f.GetLayout() {
	case pb.Layout_IMAGE:
		o.proto.Shape = b.imageShape(path, f, feat)
	case pb.Layout_TENSOR:
		err = b.tensor(o.proto, f, feat)
	case pb.Layout_PADDED:
		err = padded(o.proto, f)
	case pb.Layout_SPARSE:
		err = keptNulls(o.proto, f)
	}
	if err != nil {
		return err
	}
	if weights != nil && !weights.unknown() {
		if weights.typ.List != feat.typ.List {
			b.problems.add(path+".weights", "%s, but %s; want a score for each id", typed(weights), typed(feat))
		}
		o.weights = weights
	}
	b.register(o)
	return nil
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

// elementType is the type of a tensor's elements; of layout bytes, that of a row.
func elementType(f *pb.Feature, t Type) Type {
	l := f.GetLayout()
	switch {
	case t.Kind == pb.Kind_PICTURE && t.Picture.Floats:
		return Type{Kind: pb.Kind_FLOAT32}
	case t.Kind == pb.Kind_PICTURE:
		return Type{Kind: pb.Kind_BINARY}
	case l == pb.Layout_TENSOR && t.Kind == pb.Kind_BINARY:
		return Type{Kind: f.GetDtype()}
	case l == pb.Layout_BYTES:
		return Type{Kind: t.Kind, List: t.List}
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
	k := w.typ.Kind
	if !w.unknown() && (k != pb.Kind_FLOAT32 && k != pb.Kind_FLOAT64 || w.typ.Nested > 0) {
		b.problems.add(path, "%s; weights are floats, one for each id", typed(w))
		return nil
	}
	return w
}

// checkShape checks an image's shape by itself.
func (b *outputBuilder) checkShape(path string, f *pb.Feature) {
	shape := f.GetShape()
	if len(shape) == 0 || f.GetLayout() != pb.Layout_IMAGE {
		return
	}
	if Count(shape, 1) == 0 || len(shape) != 3 {
		b.problems.add(path+".shape",
			"found %v; want [height, width, channels], each above 0 and their product below 2 GiB", shape)
	}
}

// imageShape is a tensor's: that of raw images is given, that of pictures follows from the ops that made them.
func (b *outputBuilder) imageShape(path string, f *pb.Feature, feat *feature) []int32 {
	path += ".shape"
	given := f.GetShape()
	if feat.typ.Kind != pb.Kind_PICTURE {
		if len(given) == 0 {
			b.problems.add(path,
				"found []; want [height, width, channels] of raw pixels (%s), or transforms that make pictures of "+
					"encoded ones: decode_image, then resize", feat.name)
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

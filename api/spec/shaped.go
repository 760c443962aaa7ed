package spec

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
)

// own returns a column's feature as its files have it, where ops see something else in its place: int8 for int32.
func (r *resolver) own(f *feature) *feature {
	if f.source == nil {
		return f
	}
	kind := r.index.columns[f.column].Own
	if kind == pb.Kind_KIND_UNSPECIFIED {
		return f
	}
	if r.owned[f.name] == nil {
		o := *f
		o.typ.Kind, o.needed = kind, false
		o.source = &pb.Source{
			Name: f.source.GetName(), Path: f.source.GetPath(), Key: f.source.Key, Field: f.source.GetField(),
			Type:    o.typ.Proto(),
			Meaning: f.meaning,
		}
		r.owned[f.name] = &o
	}
	return r.owned[f.name]
}

// tensor completes an output of layout tensor.
func (b *outputBuilder) tensor(o *pb.Output, f *pb.Feature, feat *feature) (err error) {
	kind := o.GetType().GetKind()
	switch given := f.GetDtype(); {
	case feat.typ.Kind == pb.Kind_BINARY && Width(kind) == 0:
		return errors.New("say by `dtype:` what its bytes are, such as float32")
	case given != pb.Kind_KIND_UNSPECIFIED && given != kind:
		return errors.New("`dtype:` is for byte strings; leave it out, or cast the column first")
	}
	if o.Shape, err = b.rowShape(f, feat); err != nil {
		return err
	}
	if len(o.Shape) > 0 && Count(o.GetShape(), Width(kind)) == 0 {
		return fmt.Errorf("shape %v: want numbers above 0, and less than 2 GiB in each row", o.GetShape())
	}
	if f.GetDefault().GetKind() == nil {
		return nil
	}
	o.Fill, err = fit("default", f.GetDefault(), kind)
	return err
}

// rowShape is the shape of a tensor's rows: what the spec says, or else the column.
func (b *outputBuilder) rowShape(f *pb.Feature, feat *feature) ([]int32, error) {
	given, known := f.GetShape(), feat.shape
	switch levels := int(feat.typ.Nested) + 1; {
	case !feat.typ.List && feat.typ.Kind != pb.Kind_BINARY:
		if len(given) > 0 && Count(given, 1) != 1 {
			return nil, fmt.Errorf("shape %v has other than the one value of each row; leave it out", given)
		}
		return given, nil
	case len(given) == 0 && len(known) == 0:
		return nil, errors.New("say by `shape:` what shape its rows have, such as [768]: the files name none for all")
	case len(given) == 0:
		return known, nil
	case feat.source == nil && len(known) > 0 && !slices.Equal(given, known):
		return nil, fmt.Errorf("shape %v is not that of its rows, %v; leave it out", given, known)
	case feat.typ.Nested > 0 && len(given) != levels:
		return nil, fmt.Errorf("shape %v has %d dimensions; want %d", given, len(given), levels)
	}
	return given, nil // what the files say may be wrong: each row is looked at
}

// padded completes an output of layout padded.
func padded(o *pb.Output, f *pb.Feature) (err error) {
	kind := o.GetType().GetKind()
	o.Shape = []int32{f.GetLength()}
	switch {
	case f.GetLength() == 0:
		return errors.New("say by `length:` how many values each row gets, such as 200")
	case Count(o.GetShape(), Width(kind)) == 0:
		return fmt.Errorf("`length:` is %d; want a number above 0, and less than 2 GiB in each row", f.GetLength())
	}
	o.Left, o.First = f.GetSide() != pb.Side_RIGHT, f.GetTruncate() == pb.Truncate_FIRST
	o.Nulls = f.GetNulls() != pb.Nulls_OMIT
	o.Fill, err = fill(f, kind)
	return err
}

// keptNulls says of an output of layout sparse what its null elements are, if they stay.
func keptNulls(o *pb.Output, f *pb.Feature) (err error) {
	if o.Nulls = f.GetNulls() == pb.Nulls_KEEP; !o.GetNulls() {
		if f.GetValue().GetKind() != nil {
			return errors.New("`value:` is what nulls become with `nulls: keep`")
		}
		return nil
	}
	kind := o.GetType().GetKind()
	if kind == pb.Kind_FLOAT32 && f.GetValue().GetKind() == nil {
		o.Fill = &pb.Value{Kind: &pb.Value_Float{Float: math.NaN()}}
		return nil
	}
	o.Fill, err = fill(f, kind)
	return err
}

// fill is a feature's `value:`, or zero, as a kind.
func fill(f *pb.Feature, kind pb.Kind) (*pb.Value, error) {
	if f.GetValue().GetKind() != nil {
		return fit("value", f.GetValue(), kind)
	}
	switch kind {
	case pb.Kind_BOOL:
		return &pb.Value{Kind: &pb.Value_Bool{}}, nil
	case pb.Kind_FLOAT16, pb.Kind_BFLOAT16, pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		return &pb.Value{Kind: &pb.Value_Float{}}, nil
	}
	return &pb.Value{Kind: &pb.Value_Int{}}, nil
}

// fit makes a scalar one of a kind.
func fit(field string, v *pb.Value, kind pb.Kind) (*pb.Value, error) {
	fitting, ok := ConvertScalar(v, kind)
	if !ok {
		return nil, fmt.Errorf("`%s:` is %s, which is no %s", field, newFormatter().value(v), KindName(kind))
	}
	return fitting, nil
}

// Count is how many values a row of a shape has; 0 if that is wrong, or their bytes cannot be numbered.
func Count(shape []int32, width int) int {
	n := int64(1)
	for _, d := range shape {
		if n *= int64(d); d <= 0 || n*int64(width) > math.MaxInt32 {
			return 0
		}
	}
	return int(n)
}

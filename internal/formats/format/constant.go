package format

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Constants are sources as a file has them: its constants stand in the places of defaults. Those that no source reads
// are passed over: counting reads fewer than streams do.
func Constants(listed *pb.File, sources []*pb.Source) ([]*pb.Source, error) {
	if len(listed.GetConstants()) == 0 {
		return sources, nil
	}
	out := slices.Clone(sources)
	for _, c := range listed.GetConstants() {
		for i, s := range sources {
			if s.GetName() != c.GetName() || !s.GetPartition() {
				continue
			}
			if !isOf(c.GetValue(), s.GetType()) {
				return nil, fmt.Errorf("feature %s: %v, which is its value in all rows, is not %s", s.GetName(),
					c.GetValue(), spec.TypeFromProto(s.GetType()))
			}
			out[i] = &pb.Source{
				Name: s.GetName(), Path: s.GetPath(), Type: s.GetType(), Meaning: s.GetMeaning(), Default: c.GetValue(),
				Partition: true,
			}
		}
	}
	return out, nil
}

// isOf reports whether a value, or null, is a scalar of a type.
func isOf(v *pb.Value, t *pb.Type) bool {
	if v.GetKind() == nil {
		return true
	}
	_, ok := spec.ConvertScalar(v, t.GetKind())
	return ok && !t.GetList()
}

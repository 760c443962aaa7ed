package format

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Bind finds sources in a file as it was listed. Those that are keys of partitions are its constants, in all rows, or
// their default in a file that has none of them. It fails if the file has such a key as a column, too: sessions take it
// from one place.
func Bind(listed *pb.File, f File, sources []*pb.Source) (Bound, error) {
	with, err := Constants(listed, sources)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		if s.GetPartition() && HasColumn(f.Columns().Schema, s.GetName()) {
			return nil, fmt.Errorf("feature %s: it is a column of this file, but of the files with which the session "+
				"was opened a partition key of their paths: all files of a dataset have it as a column, or none",
				s.GetName())
		}
	}
	return f.Bind(with)
}

// HasColumn reports whether a file has a column of a name, or a struct.
func HasColumn(of spec.Schema, name string) bool {
	return slices.ContainsFunc(of.Columns, func(c spec.Column) bool { return len(c.Path) > 0 && c.Path[0] == name })
}

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
				return nil, fmt.Errorf("feature %s: the value %v of its path is not %s", s.GetName(), c.GetValue(),
					spec.TypeFromProto(s.GetType()))
			}
			out[i] = &pb.Source{
				Name: s.GetName(), Path: s.GetPath(), Type: s.GetType(), Meaning: s.GetMeaning(), Default: c.GetValue(),
				Partition: true,
			}
		}
	}
	return out, nil
}

// isOf reports whether a value, or null, is one of the types that keys of partitions have.
func isOf(v *pb.Value, t *pb.Type) bool {
	switch v.GetKind().(type) {
	case nil:
		return true
	case *pb.Value_Int:
		return t.GetKind() == pb.Kind_INT64 && !t.GetList() ||
			t.GetKind() == pb.Kind_INT32 && !t.GetList() && int64(int32(v.GetInt())) == v.GetInt()
	case *pb.Value_Text:
		return t.GetKind() == pb.Kind_BINARY && !t.GetList()
	}
	return false
}

package format

import (
	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// AbsentStats are the statistics of a source of which a file has no values: all rows are null, or have its default. It
// returns false for a default of which nothing can be said.
func AbsentStats(how Access, s *pb.Source, rows int64) (filter.Stats, bool) {
	if how == Nulls || s.GetDefault().GetKind() == nil {
		return filter.Stats{Nulls: rows, Rows: rows}, true
	}
	v, ok := defaultValue(s)
	if !ok {
		return filter.Stats{}, false
	}
	return filter.Stats{Min: v, Max: v, HasMinMax: true, Rows: rows}, true
}

// AbsentSize is what a source that a file lacks takes in so many rows.
func AbsentSize(s *pb.Source, rows int64) Size {
	n := rows * int64(max(1, len(spec.Elements(s.GetDefault()))))
	return Size{Values: n, Bytes: n*int64(8+len(s.GetDefault().GetText())) + 4*rows}
}

// defaultValue reads a scalar source's default as the column's kind. What does not fit exactly is left to the
// worker, who then reads the rows.
func defaultValue(s *pb.Source) (expr.Value, bool) {
	kind := s.GetType().GetKind()
	switch d := s.GetDefault().GetKind().(type) {
	case *pb.Value_Int:
		switch kind {
		case pb.Kind_INT32, pb.Kind_INT64:
			return expr.Int(d.Int), true
		case pb.Kind_FLOAT32:
			return expr.Float32(float32(d.Int)), -1<<24 <= d.Int && d.Int <= 1<<24
		case pb.Kind_FLOAT64:
			return expr.Float64(float64(d.Int)), -1<<53 <= d.Int && d.Int <= 1<<53
		}
	case *pb.Value_Float:
		switch kind {
		case pb.Kind_FLOAT32:
			return expr.Float32(float32(d.Float)), d.Float == d.Float
		case pb.Kind_FLOAT64:
			return expr.Float64(d.Float), d.Float == d.Float
		}
	case *pb.Value_Text:
		return expr.Text(d.Text), kind == pb.Kind_BINARY
	case *pb.Value_Bool:
		return expr.Bool(d.Bool), kind == pb.Kind_BOOL
	}
	return expr.Value{}, false
}

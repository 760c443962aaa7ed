package table

import (
	"math"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
)

// ConstantStats are those of a column that has one value in all of a file's rows. Of its types only float is told from
// others, as both kinds of tables call it.
func ConstantStats(value *pb.Value, typ string, rows int64) (filter.Stats, bool) {
	rows = max(rows, 1)
	out := filter.Stats{Rows: rows, HasMinMax: true}
	switch v := value.GetKind().(type) {
	case nil:
		return filter.Stats{Nulls: rows, Rows: rows}, true
	case *pb.Value_Int:
		out.Min = expr.Int(v.Int)
	case *pb.Value_Bool:
		out.Min = expr.Bool(v.Bool)
	case *pb.Value_Text:
		out.Min = expr.Text(v.Text)
	case *pb.Value_Float:
		switch {
		case math.IsNaN(v.Float):
			return filter.Stats{}, false
		case typ == "float":
			out.Min = expr.Float32(float32(v.Float))
		default:
			out.Min = expr.Float64(v.Float)
		}
	}
	out.Max = out.Min
	return out, true
}

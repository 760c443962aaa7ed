package parquet

import (
	"fmt"
	"math"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Stats is what the file says of the values of a source in a row group. Statistics of a map are of all keys together,
// those of lists count elements, so that nothing is known of either.
func (b *Bound) Stats(rowGroup, source int) (filter.Stats, bool) {
	s, rows := b.Sources[source], b.RowGroups[rowGroup].Rows
	switch {
	case !b.Has(source):
		return format.AbsentStats(b.Bindings[source].Access, s, rows)
	case !scalar(s):
		return filter.Stats{}, false
	}
	leaf := b.bySource[source][0]
	return valuesIn(s, &b.Leaves[leaf], &b.ChunkOf(rowGroup, leaf).Stats, rows), true
}

func scalar(s *pb.Source) bool { return s.Key == nil && !s.GetType().GetList() }

// Contradiction says what of a source's statistics in a row group cannot be; "" if nothing.
func (b *Bound) Contradiction(rowGroup, source int) string {
	if !b.Has(source) || !scalar(b.Sources[source]) {
		return ""
	}
	leaf := b.bySource[source][0]
	why := b.ChunkOf(rowGroup, leaf).Stats.Contradiction
	if why != "" {
		why = fmt.Sprintf("column %s: %s", strings.Join(b.Leaves[leaf].Path, "."), why)
	}
	return why
}

// valuesIn are the statistics of a scalar source, whose leaf this is, in so many rows.
func valuesIn(source *pb.Source, l *Leaf, from *Stats, rows int64) filter.Stats {
	s := filter.Stats{Nulls: from.Nulls, Rows: rows}
	if from.Min == nil || from.Max == nil {
		return s
	}
	low, errLow := expr.FromBytes(l.Kind, from.Min)
	high, errHigh := expr.FromBytes(l.Kind, from.Max)
	low, high = widened(low, l, source), widened(high, l, source)
	if errLow == nil && errHigh == nil {
		s.Min, s.Max, s.HasMinMax = low, high, true
	}
	return s
}

// widened is a bound of a leaf's values as those of a source.
func widened(v expr.Value, l *Leaf, source *pb.Source) expr.Value {
	switch to := source.GetType().GetKind(); {
	case l.Physical == Int32 && source.GetMeaning() == format.Microseconds:
		return expr.Int(MicrosOf(int32(v.Int)))
	case to != pb.Kind_FLOAT64:
		return v
	case l.Kind == pb.Kind_FLOAT32:
		// It is not compared as a float32, to which literals would be rounded.
		return expr.Float64(v.Float)
	case l.Kind == pb.Kind_INT32, l.Kind == pb.Kind_INT64:
		return expr.Float64(float64(v.Int))
	}
	return v
}

// MicrosOf is when a day since 1970 begins, in microseconds: days beyond these are the first or the last one.
func MicrosOf(day int32) int64 {
	const micros = 24 * 60 * 60 * 1_000_000
	const most = math.MaxInt64 / micros
	return min(max(int64(day), -most), most) * micros
}

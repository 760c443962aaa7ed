package features

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Arrangement is an order for the columns of a dataset that is to be written.
type Arrangement struct {
	Order   []int `json:"-"`                // of columns, by their places
	Read    int   `json:"columns_read"`     // columns that come first because something is read of them
	Unknown int   `json:"unknown_features"` // that lie in none of the columns
	// Costs are what sessions read of a row group, as far as that is known.
	Costs *ReportOrders `json:"costs,omitempty"`
}

// Arrange orders columns by what was read. Structs move as a whole: chunks are what row groups have of each column,
// with the fields of structs one by one, in the order of the columns.
func Arrange(m *pb.DatasetReads, columns []string, chunks *pb.FileColumns) Arrangement {
	byName := places(columns)
	whole := &pb.FileColumns{Extents: chunks.GetExtents()}
	for _, name := range columns {
		whole.Columns = append(whole.Columns, &pb.FileColumn{Name: name})
	}
	within := make([][]int, len(columns)) // chunks by column
	for i, chunk := range chunks.GetColumns() {
		if c, ok := columnOf(byName, chunk.GetName()); ok {
			whole.Columns[c].Bytes += chunk.GetBytes()
			within[c] = append(within[c], i)
		}
	}
	l := LayoutOf(reordered(m, whole))
	out := Arrangement{Order: l.Order()}
	for _, rows := range l.rows {
		if rows > 0 {
			out.Read++
		}
	}
	for _, f := range m.GetFeatures() {
		if _, ok := columnOf(byName, f.GetName()); !ok {
			out.Unknown++
		}
	}
	then := &pb.FileColumns{Extents: chunks.GetExtents()}
	for _, c := range out.Order {
		for _, i := range within[c] {
			then.Columns = append(then.Columns, chunks.GetColumns()[i])
		}
	}
	if l.Known() {
		out.Costs = &ReportOrders{
			Now:     LayoutOf(reordered(m, chunks)).Cost(nil, storage.Reading{}),
			Ordered: LayoutOf(reordered(m, then)).Cost(nil, storage.Reading{}),
		}
	}
	return out
}

// reordered is what was read, of other columns.
func reordered(m *pb.DatasetReads, columns *pb.FileColumns) *pb.DatasetReads {
	return &pb.DatasetReads{Features: m.GetFeatures(), Sets: m.GetSets(), Columns: columns}
}

// ArrangeByName orders columns by a list of features or columns. Those that none names come last, as they are.
func ArrangeByName(names, columns []string) Arrangement {
	byName := places(columns)
	var out Arrangement
	named := make([]bool, len(columns))
	for _, name := range names {
		c, ok := columnOf(byName, name)
		switch {
		case !ok:
			out.Unknown++
		case !named[c]:
			named[c] = true
			out.Order = append(out.Order, c)
		}
	}
	out.Read = len(out.Order)
	for c := range columns {
		if !named[c] {
			out.Order = append(out.Order, c)
		}
	}
	return out
}

func places(names []string) map[string]int {
	out := make(map[string]int, len(names))
	for i, name := range names {
		out[name] = i
	}
	return out
}

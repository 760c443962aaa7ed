package format

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Own are a program's sources but for keys of partitions, of which files' paths have the values: no format sees these.
type Own struct {
	Sources []*pb.Source
	places  []int // in Sources, of each of the program's; -1: a key
}

// OwnOf divides a program's sources.
func OwnOf(sources []*pb.Source) Own {
	own := Own{places: make([]int, len(sources))}
	for i, s := range sources {
		own.places[i] = -1
		if !s.GetPartition() {
			own.places[i] = len(own.Sources)
			own.Sources = append(own.Sources, s)
		}
	}
	return own
}

// Place is where one of the program's sources is; false: it is a key.
func (o Own) Place(source int) (int, bool) { return o.places[source], o.places[source] >= 0 }

// Places are those of some of the program's sources, without keys.
func (o Own) Places(sources []int) (places []int) {
	for _, s := range sources {
		if at, ok := o.Place(s); ok {
			places = append(places, at)
		}
	}
	return places
}

// Listed is a file in terms of a program's sources as it was listed: keys of partitions are its constants, in all rows.
// The Bound within knows its own sources alone.
type Listed struct {
	Bound
	Own
	All []*pb.Source // the program's; of keys the default is the file's constant

	extents []Extent
}

// Bind finds sources in a file as it was listed. Keys that its path lacks have their default. It fails if the file has
// such a key as a column, too, unless it is one of a table: sessions take it from one place.
func Bind(listed *pb.File, f File, sources []*pb.Source) (*Listed, error) {
	all, err := Constants(listed, sources)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		if s.GetPartition() && !listed.GetOfTable() && HasColumn(f.Columns().Schema, s.GetName()) {
			return nil, fmt.Errorf("feature %s: it is a column of this file, but of the files with which the session "+
				"was opened a partition key of their paths: all files of a dataset have it as a column, or none",
				s.GetName())
		}
	}
	own := OwnOf(sources)
	b, err := f.Bind(own.Sources)
	return &Listed{Bound: b, Own: own, All: all, extents: f.Extents()}, err
}

// Has reports whether the file has values of a source.
func (l *Listed) Has(source int) bool {
	at, ok := l.Place(source)
	return ok && l.Bound.Has(at)
}

// SourceCost is what a source of an extent takes.
func (l *Listed) SourceCost(extent, source int) Cost {
	if at, ok := l.Place(source); ok {
		return l.Bound.SourceCost(extent, at)
	}
	return Cost{}
}

// Stats is what is known of the values of a source in an extent.
func (l *Listed) Stats(extent, source int) (filter.Stats, bool) {
	if at, ok := l.Place(source); ok {
		return l.Bound.Stats(extent, at)
	}
	return AbsentStats(Absent, l.All[source], l.extents[extent].Rows)
}

// Contradiction says what of a source's statistics cannot be.
func (l *Listed) Contradiction(extent, source int) string {
	if at, ok := l.Place(source); ok {
		return l.Bound.Contradiction(extent, at)
	}
	return ""
}

// Window estimates what a source takes in a window.
func (l *Listed) Window(extent, source int, rows int64) Size {
	if at, ok := l.Place(source); ok {
		return l.Bound.Window(extent, at, rows)
	}
	return AbsentSize(l.All[source], rows)
}

// HasColumn reports whether a file has a column of a name, or a struct.
func HasColumn(of spec.Schema, name string) bool {
	return slices.ContainsFunc(of.Columns, func(c spec.Column) bool { return len(c.Path) > 0 && c.Path[0] == name })
}

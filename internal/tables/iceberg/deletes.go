package iceberg

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/penstock-ml/penstock/api/pb"
)

// pathID is the id of the column file_path in files of positions.
const pathID = math.MaxInt32 - 101

// index finds the data files of which a file of deletes may delete rows.
type index struct {
	root    root
	byURI   map[string]*dataFile
	byPlace map[string][]*dataFile // sorted by path
	oldest  map[string]*dataFile   // by place; "": of all
}

func newIndex(data []*dataFile, in root) *index {
	x := &index{in, make(map[string]*dataFile, len(data)), map[string][]*dataFile{}, map[string]*dataFile{}}
	for _, d := range data {
		x.byURI[d.uri] = d
		x.byPlace[d.place] = append(x.byPlace[d.place], d)
		for _, place := range []string{"", d.place} {
			if o := x.oldest[place]; o == nil || d.sequence < o.sequence {
				x.oldest[place] = d
			}
		}
	}
	for _, all := range x.byPlace {
		slices.SortFunc(all, func(a, b *dataFile) int { return cmp.Compare(a.Path, b.Path) })
	}
	return x
}

// exclusions are what workers read deleted rows by, of each file that has such.
type exclusions map[*dataFile][]*pb.Excluded

// excluded finds them.
func (r *reader) excluded(f *files) (exclusions, error) {
	if len(f.deletes) == 0 {
		return nil, nil
	}
	x := newIndex(f.data, r.root)
	out, err := x.vectors(f.deletes)
	if err != nil {
		return nil, err
	}
	hasVector := maps.Clone(out) // where there is one, positions do not count
	for _, d := range f.deletes {
		switch {
		case d.isVector():
			continue
		case d.Content == equality:
			if of := x.equality(d); of != nil {
				return nil, fmt.Errorf("%s has rows that are deleted by equality, as %s says, which is not read: have "+
					"the table's files rewritten without them (in Spark CALL system.rewrite_data_files with "+
					"'delete-file-threshold' 1)", of.Path, d.Path)
			}
			continue
		}
		for _, of := range x.positions(d) {
			if hasVector[of] != nil || of.sequence > d.sequence {
				continue
			}
			out[of] = append(out[of], &pb.Excluded{
				Uri: d.uri, Size: d.Size, Form: pb.Excluded_ICEBERG_POSITIONS, Path: of.Path,
			})
			if err := r.memory.Keep(fileBytes); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// vectors are the deletion vectors of files.
func (x *index) vectors(deletes []*dataFile) (exclusions, error) {
	out := exclusions{}
	for _, d := range deletes {
		if !d.isVector() {
			continue
		}
		of, e, err := x.vector(d)
		switch {
		case err != nil:
			return nil, damaged(fmt.Errorf("the deletion vector in %s: %w", d.Path, err))
		case of == nil:
		case out[of] != nil:
			return nil, damaged(fmt.Errorf("%s has several deletion vectors", of.Path))
		default:
			out[of] = []*pb.Excluded{e}
		}
	}
	return out, nil
}

// equality is a file of which some rows may be deleted by equality; nil: there is none.
func (x *index) equality(d *dataFile) *dataFile {
	place := d.place
	if !slices.ContainsFunc(d.spec.Fields, func(f partitionField) bool { return f.Transform != "void" }) {
		place = "" // then it is for all
	}
	if o := x.oldest[place]; o != nil && o.sequence < d.sequence {
		return o
	}
	return nil
}

// referenced is the file that a file of deletes is for alone; nil: it is gone.
func (x *index) referenced(d *dataFile) *dataFile {
	uri, err := x.root.resolve(*d.Referenced)
	if err != nil {
		return nil // no file of the table lies there
	}
	if of := x.byURI[uri]; of != nil && of.place == d.place {
		return of
	}
	return nil
}

// vector finds the file that a deletion vector is of; nil: it is gone.
func (x *index) vector(d *dataFile) (*dataFile, *pb.Excluded, error) {
	if d.Referenced == nil || d.Offset == nil || d.Length == nil {
		return nil, nil, errors.New("the manifest does not say of which file it is, or where")
	}
	of := x.referenced(d)
	if of == nil || of.sequence > d.sequence {
		return nil, nil, nil
	}
	if *d.Offset < 0 || *d.Length <= 0 || *d.Offset > d.Size-*d.Length || d.Rows > of.Rows {
		return nil, nil, fmt.Errorf("it has %d bytes at %d of %d, and %d of the %d rows of %s", *d.Length, *d.Offset,
			d.Size, d.Rows, of.Rows, of.Path)
	}
	return of, &pb.Excluded{
		Uri: d.uri, Size: d.Size, Offset: *d.Offset, Length: *d.Length, Rows: d.Rows, Form: pb.Excluded_ICEBERG_VECTOR,
	}, nil
}

// positions are the files that a file of positions may name.
func (x *index) positions(d *dataFile) []*dataFile {
	if d.Referenced != nil {
		if of := x.referenced(d); of != nil {
			return []*dataFile{of}
		}
		return nil
	}
	all := x.byPlace[d.place]
	if low, ok := find(d.Lower, pathID); ok {
		all = all[sort.Search(len(all), func(i int) bool { return all[i].Path >= string(low) }):]
	}
	if high, ok := find(d.Upper, pathID); ok { // which may be cut off
		all = all[:sort.Search(len(all), func(i int) bool { return all[i].Path > string(high)+"\xff" })]
	}
	return all
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
)

// located says where one file holds the sources of a program.
type located struct {
	sources [][]int // leaves of each source; none if the file lacks it
	nulls   []bool  // of each source: the file has nulls in its place
	leaves  []int   // all of them, once
}

// locate finds the program's sources in a file. A file may lack some; one that holds a source as another type
// than the session was opened with is an error.
func locate(f File, sources []*pb.Source) (located, error) {
	loc := located{sources: make([][]int, len(sources)), nulls: make([]bool, len(sources))}
	for i, s := range sources {
		c, ok := f.Footer.Column(strings.Join(s.GetPath(), "."))
		if !ok {
			if loc.nulls[i] = f.Footer.Nulls(s.GetPath()); loc.nulls[i] {
				continue
			}
			if err := checkAbsent(f, s); err != nil {
				return located{}, err
			}
			continue
		}
		if err := checkType(f.File, &f.Footer.Schema.Columns[c], s); err != nil {
			return located{}, err
		}
		from, to := f.Footer.LeavesOf(c)
		for leaf := from; leaf < to; leaf++ {
			loc.sources[i] = append(loc.sources[i], leaf)
		}
		loc.leaves = append(loc.leaves, loc.sources[i]...)
	}
	slices.Sort(loc.leaves)
	loc.leaves = slices.Compact(loc.leaves)
	return loc, nil
}

func checkType(file *pb.File, c *spec.Column, s *pb.Source) error {
	found, want := c.Type.String(), spec.TypeFromProto(s.GetType()).String()
	isMap := c.Key != pb.Kind_KIND_UNSPECIFIED
	switch {
	case c.Untyped && s.Key == nil && s.GetType().GetList() && slices.Equal(c.Path, s.GetPath()):
		return nil
	case c.Unsupported != "":
		found = "unsupported (" + c.Unsupported + ")"
	case s.Key == nil && isMap:
		found = "a map"
	case s.Key != nil && !isMap:
		want = "a map of " + want
	case !slices.Equal(c.Path, s.GetPath()):
		found, want = fmt.Sprintf("at path %q", c.Path), fmt.Sprintf("at path %q", s.GetPath())
	case c.Meaning != s.GetMeaning():
		found, want = cmp.Or(c.Meaning, found), cmp.Or(s.GetMeaning(), want)
	case c.Type.List == s.GetType().GetList() && widens(c.Type.Kind, s.GetType().GetKind()):
		return nil
	}
	return fmt.Errorf("plan: %s: column %q is %s, but %s in the files with which the session was opened; "+
		"leave the file out, convert it, or open a new session", file.GetUri(), c.Name, found, want)
}

// checkAbsent refuses a file that lacks a source because it has a struct in its place, or a column in that of its struct: were its rows
// taken for nulls, a filter would drop them in silence.
func checkAbsent(f File, s *pb.Source) error {
	for i := range f.Footer.Schema.Columns {
		c := &f.Footer.Schema.Columns[i]
		n := min(len(c.Path), len(s.GetPath()))
		if n > 0 && slices.Equal(c.Path[:n], s.GetPath()[:n]) {
			return fmt.Errorf("plan: %s: it has a column %q in the place of %q with which the session was opened; "+
				"leave the file out, convert it, or open a new session", f.GetUri(), c.Name, strings.Join(s.GetPath(), "."))
		}
	}
	return nil
}

// widens reports whether values of kind from are read as kind to without loss, as spec.Merge has it.
func widens(from, to pb.Kind) bool {
	return from == to || from == pb.Kind_INT32 && to == pb.Kind_INT64 || from == pb.Kind_FLOAT32 && to == pb.Kind_FLOAT64
}

// decodedBytes estimates what leaves of a row group take in memory. The uncompressed pages say little where a
// dictionary encodes them, so each value counts at least its width, and text as long as the file says it is.
func decodedBytes(foot *footer.Footer, rg *footer.RowGroup, leaves []int) int64 {
	var sum int64
	for _, l := range leaves {
		c := &rg.Chunks[l]
		pages := min(c.Pages(), maxChunk)
		values := min(c.Values, maxChunk)*width(&foot.Leaves[l]) + min(c.Plain, maxChunk)
		sum += max(pages, values)
	}
	return sum
}

// storedBytes is what reading leaves of a row group transfers.
func storedBytes(rg *footer.RowGroup, leaves []int) int64 {
	var sum int64
	for _, l := range leaves {
		sum += min(rg.Chunks[l].Length, maxChunk)
	}
	return sum
}

// maxChunk bounds what a footer can claim of a chunk, so that sums do not overflow.
const maxChunk = 1 << 40

// width is the least memory that a decoded value takes, in bytes.
func width(l *footer.Leaf) int64 {
	switch l.Kind {
	case pb.Kind_BOOL:
		return 1
	case pb.Kind_INT64, pb.Kind_FLOAT64:
		return 8
	default: // binary values have an offset each
		return 4
	}
}

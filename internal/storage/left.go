package storage

import (
	"context"
	"fmt"
	"hash/maphash"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/splits"
)

// LeftOut tells which names a listing met and did not take, and which of those that it took look like mistakes.
type LeftOut struct {
	// Foreign are files whose names are those of no format.
	Foreign Names `json:"no_format,omitzero"`
	// Empty files have no bytes.
	Empty Names `json:"empty,omitzero"`
	// Hidden names begin with "." or "_"; a directory is one, whatever lies in it. Markers are those of them that
	// writers leave beside their files, such as _SUCCESS.
	Hidden  Names `json:"hidden,omitzero"`
	Markers Names `json:"markers,omitzero"`
	// Dangling are links that lead to nothing.
	Dangling Names `json:"dangling,omitzero"`
	// Alike are files that were taken, and whose names differ in case alone from those of others: maybe copies.
	Alike Names `json:"alike,omitzero"`
	// Splits are those that names of the files tell, such as train and test, if there are several and none is
	// asked for.
	Splits Names `json:"splits,omitzero"`
	// Unknown are files that were taken, and whose names have no ending: they are known once they are looked at.
	Unknown Names `json:"unknown,omitzero"`
}

// maxExamples is how many names of a kind are kept.
const maxExamples = 3

// Names counts names, and keeps the first few of their order.
type Names struct {
	Count    int      `json:"count"`
	Examples []string `json:"examples,omitempty"`
}

// Add counts a name.
func (n *Names) Add(name string) {
	n.join(Names{1, []string{name}})
}

func (n *Names) join(more Names) {
	n.Count += more.Count
	for _, name := range more.Examples {
		at, _ := slices.BinarySearch(n.Examples, name)
		if at < maxExamples {
			n.Examples = slices.Insert(n.Examples, at, name)
			n.Examples = n.Examples[:min(len(n.Examples), maxExamples)]
		}
	}
}

// Kinds yields what there is of each kind, in words: "empty file", and its names.
func (l *LeftOut) Kinds(yield func(one, several string, n *Names) bool) {
	for _, k := range []struct {
		one, several string
		names        *Names
	}{
		{"file left out whose name is of no format", "files left out whose names are of no format", &l.Foreign},
		{"empty file left out", "empty files left out", &l.Empty},
		{"link left out that leads to nothing", "links left out that lead to nothing", &l.Dangling},
		{"hidden name left out", "hidden names left out", &l.Hidden},
		{"marker of a writer left out", "markers of writers left out", &l.Markers},
		{
			"file whose name differs in case alone from another's: both are read",
			"files whose names differ in case alone from others': all are read", &l.Alike,
		},
		{
			"split, as names of files tell: all are read", "splits, as names of files tell: all are read", &l.Splits,
		},
		{
			"file whose name has no ending: it is looked at when its block is planned",
			"files whose names have no ending: they are looked at when their block is planned", &l.Unknown,
		},
	} {
		if k.names.Count > 0 && !yield(k.one, k.several, k.names) {
			return
		}
	}
}

// Words are a line for each kind: "2 empty files left out: a, b".
func (l *LeftOut) Words() (lines []string) {
	l.Kinds(func(one, several string, n *Names) bool {
		lines = append(lines, fmt.Sprintf("%s (%s)", english.Plural(n.Count, one, several), n))
		return true
	})
	return lines
}

// String lists the names: "a, b and 7 more".
func (n *Names) String() string {
	all := strings.Join(n.Examples, ", ")
	if more := n.Count - len(n.Examples); more > 0 {
		return fmt.Sprintf("%s and %d more", all, more)
	}
	return all
}

// Teller is a Storage whose listings tell what they leave out.
type Teller interface {
	Tell(ctx context.Context, of *pb.Dataset) ([]*pb.File, LeftOut, error)
}

// Finder is a Storage that lists other files than data.
type Finder interface {
	Find(ctx context.Context, profile string, uris []string, kind Kind) ([]*pb.File, Others, error)
}

// Tell lists a dataset's files as st does, by the format that it names, and tells what is left out, as far as st does.
func Tell(ctx context.Context, st Storage, of *pb.Dataset) ([]*pb.File, LeftOut, error) {
	if t, ok := st.(Teller); ok {
		return t.Tell(ctx, of)
	}
	files, err := st.List(ctx, of.GetStorage(), of.GetUri())
	return files, LeftOut{}, err
}

// Tell implements Teller.
func (s *Store) Tell(ctx context.Context, of *pb.Dataset) ([]*pb.File, LeftOut, error) {
	return s.TellIf(ctx, of, nil)
}

// TellIf implements Asking.
func (s *Store) TellIf(ctx context.Context, of *pb.Dataset, may May) ([]*pb.File, LeftOut, error) {
	kind := dataAs(of.GetFormat())
	kind.May = may
	found, err := s.findIn(ctx, of, kind)
	left := found.others.Left
	if err == nil {
		err = s.checkShards(ctx, may, of.GetStorage(), found.files, found.others.shardIndexes)
	}
	if err != nil {
		return nil, left, err
	}
	files, err := found.choose()
	for _, f := range files {
		if f.GetUnknown() {
			left.Unknown.Add(f.GetUri())
		}
	}
	left.Alike = alikeNames(files)
	if of.GetSplit() == "" && of.GetSubset() == "" {
		left.Splits = splitNames(files)
	}
	return files, left, err
}

// splitNames are the splits that names of files tell, if there are several.
func splitNames(files []*pb.File) (several Names) {
	finder := splits.NewFinder(splits.Subset{})
	for _, f := range files {
		finder.Meet(f.GetUri()[f.GetKeysAt():])
	}
	names, err := finder.Splits()
	if err != nil || len(names) < 2 {
		return several
	}
	for _, name := range names {
		several.Add(name)
	}
	return several
}

// alikeNames finds files whose URIs differ in case alone from that of one before.
func alikeNames(files []*pb.File) (alike Names) {
	seed := maphash.MakeSeed()
	first := make(map[uint64]int32, len(files)) // by a hash: whole names would take as much memory as the listing
	for i, f := range files {
		key := maphash.String(seed, strings.ToLower(f.GetUri()))
		if at, ok := first[key]; !ok {
			first[key] = int32(i)
		} else if strings.EqualFold(files[at].GetUri(), f.GetUri()) {
			alike.Add(f.GetUri())
		}
	}
	return alike
}

// isMarker reports whether a hidden name is one that writers leave beside their files.
func isMarker(name string) bool {
	name = path.Base(name)
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.Contains([]string{"_SUCCESS", "_metadata", "_common_metadata", "_manifest.json"}, name) ||
		strings.HasSuffix(name, ".crc") || slices.ContainsFunc([]string{"_committed_", "_started_"}, begins)
}

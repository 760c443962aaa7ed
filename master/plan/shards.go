package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Bounds of a window's rows: fewer shuffle badly, more make streams resume far back. What a column takes for each
// window is most of the time where thousands of them do not fit into the caches: then the lower one is a row for each
// columnsPerRow columns, up to maxFloorRows. For the sake of the lower one a window may grow to maxWindowGrowth times
// the configured bytes, but no further.
const (
	minWindowRows   = 256
	maxWindowRows   = 65536
	maxWindowGrowth = 8
	columnsPerRow   = 4
	maxFloorRows    = 1024
)

// maxBlockWindows bounds the windows of a block, which no honest file comes near: extents say how many rows they have,
// and need no bytes to have them.
const maxBlockWindows = 1 << 20

// File is a file of a block, and what it holds.
type File struct {
	*pb.File
	Holds format.File
	// IndexDigest is that of the index that says where the file's extents are; nil: the file does.
	IndexDigest []byte
	// Unlisted says that the listing has no ETag of the file, which was looked for when its block was planned.
	Unlisted bool
}

// bind finds a program's sources in the file. It may lack some; one that holds a source as another type than the
// session was opened with is an error.
func (f File) bind(sources []*pb.Source) (format.Planned, error) {
	b, err := format.Bind(f.File, f.Holds, sources)
	if err == nil {
		err = f.keyOnly(b, sources)
	}
	if err != nil {
		return nil, fmt.Errorf("plan: %s: %w; the files with which the session was opened are otherwise: "+
			"leave this one out, convert it, or open a new session", f.GetUri(), err)
	}
	return b, nil
}

// keyOnly fails if the file lacks a column that its path has a partition key for: other files of the session have the
// column, so that it counts, and here its rows would be null.
func (f File) keyOnly(b format.Planned, sources []*pb.Source) error {
	keys := lastKeys(keyLevels(f.File))
	if len(keys) == 0 || f.GetOfTable() {
		return nil
	}
	for i, s := range sources {
		name := s.GetPath()[0]
		if _, ok := keys[name]; !ok || b.Has(i) || s.GetPartition() || s.Key != nil || s.GetDefault() != nil ||
			format.HasColumn(f.Holds.Columns().Schema, name) {
			continue
		}
		return fmt.Errorf("it lacks the column %s, which is a partition key of its path and a column of other files: "+
			"all files of a dataset have it as a column, or none", name)
	}
	return nil
}

// Counts says what a plan keeps and what it leaves out.
type Counts struct {
	Files int64 `json:"files"`
	// Files that the filter excludes by keys of their paths: they are not looked at.
	PrunedFiles int64 `json:"pruned_files,omitempty"`
	Shards      int64 `json:"shards"`
	// Extents, and their rows, that shards hold.
	Extents int64 `json:"row_groups"`
	Rows    int64 `json:"rows"`
	// Extents, and their rows, that statistics show to hold no row that passes the filter.
	PrunedExtents int64 `json:"pruned_row_groups"`
	PrunedRows    int64 `json:"pruned_rows"`
	// Rows of these extents that a table has deleted, as far as it says how many. They are not among Rows.
	ExcludedRows int64 `json:"excluded_rows,omitempty"`
	// Extents without rows.
	EmptyExtents int64 `json:"empty_row_groups"`
	// Column chunks of the filter whose statistics contradict themselves, so that they exclude nothing, and the first
	// of them.
	UntrustedChunks int64  `json:"untrusted_chunks,omitempty"`
	Untrusted       string `json:"untrusted,omitempty"`
}

// Add adds d to c.
func (c *Counts) Add(d Counts) {
	c.Files += d.Files
	c.PrunedFiles += d.PrunedFiles
	c.Shards += d.Shards
	c.Extents += d.Extents
	c.Rows += d.Rows
	c.PrunedExtents += d.PrunedExtents
	c.PrunedRows += d.PrunedRows
	c.ExcludedRows += d.ExcludedRows
	c.EmptyExtents += d.EmptyExtents
	c.UntrustedChunks += d.UntrustedChunks
	c.Untrusted = cmp.Or(c.Untrusted, d.Untrusted)
}

// Reads is what shards have workers read.
type Reads struct {
	Rows     int64
	Bytes    int64   // stored
	BySource []int64 // of Bytes; sources that are keys of one map share what is read, and each has all of it
}

// add adds an extent.
func (r *Reads) add(bound format.Planned, extent int, rows, bytes int64) {
	r.Rows += rows
	r.Bytes += bytes
	for i := range r.BySource {
		r.BySource[i] += bound.SourceCost(extent, i).Stored
	}
}

// Shards plans a block: it cuts the row groups of its files, in the epoch's order, into shards, leaving out
// those without rows and those that the filter excludes, and shuffles the shards if the program says so. The
// block may end without any.
func Shards(cfg Config, program *pb.Program, files []File, epoch uint32) ([]*pb.Shard, Counts, error) {
	return ShardsAndReads(cfg, program, files, epoch, func(*pb.File) *Reads { return nil })
}

// ShardsAndReads is Shards, and adds what is read of each file to what reads returns for it, unless that is nil.
func ShardsAndReads(
	cfg Config, program *pb.Program, files []File, epoch uint32, reads func(*pb.File) *Reads,
) ([]*pb.Shard, Counts, error) {
	p, err := newPlanner(cfg, program)
	if err != nil {
		return nil, Counts{}, err
	}
	var shards []*pb.Shard
	var total Counts
	for _, f := range files {
		bound, err := f.bind(program.GetSources())
		if err != nil {
			return nil, Counts{}, err
		}
		cut, counts, err := p.cut(f, bound, reads(f.File))
		if err != nil {
			return nil, Counts{}, err
		}
		shards = append(shards, cut...)
		total.Add(counts)
	}
	if program.GetShuffle() {
		shuffle(shards, program.GetSeed(), epoch)
	}
	return shards, total, nil
}

// callingShardBytes is what makes a shard at most where functions are called: they take so much longer for a byte than
// decoding does that many workers have to share out what is little to read.
const callingShardBytes = 1 << 20

// planner plans for one program.
type planner struct {
	cfg     Config
	program *pb.Program
	filter  *extentFilter
	windows int64 // of the block so far
}

func newPlanner(cfg Config, program *pb.Program) (*planner, error) {
	f, err := newExtentFilter(program)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if spec.Calls(program) {
		cfg.ShardBytes = min(cfg.ShardBytes, callingShardBytes)
	}
	return &planner{cfg: cfg, program: program, filter: f}, nil
}

// cut makes the shards of one file, in file order: runs of extents up to the configured bytes. It adds to reads, unless
// that is nil.
func (p *planner) cut(f File, bound format.Planned, reads *Reads) ([]*pb.Shard, Counts, error) {
	counts := Counts{Files: 1}
	var shards []*pb.Shard
	var room int64
	for i, extent := range f.Holds.Extents() {
		if extent.Rows == 0 {
			counts.EmptyExtents++
			continue
		}
		p.countUntrusted(&counts, f, bound, i)
		if p.filter.excludes(bound, i) {
			counts.PrunedExtents++
			counts.PrunedRows += extent.Rows
			continue
		}
		cost := bound.Cost(i)
		if len(shards) == 0 || cost.Decoded > room {
			shards = append(shards, &pb.Shard{File: f.File, Index: f.Digest()})
			room = p.cfg.ShardBytes
		}
		room -= cost.Decoded
		s := shards[len(shards)-1]
		window := windowRows(cost.Decoded, extent.Rows, int64(cost.Columns), p.cfg.WindowBytes)
		windows := (extent.Rows-1)/window + 1
		if windows > maxBlockWindows-p.windows {
			return nil, counts, fmt.Errorf(
				"%s %s: the file says that it has %d rows, which are more than can be planned: is it damaged?",
				f.GetUri(), format.Name(f.Holds, i), extent.Rows)
		}
		p.windows += windows
		e := &pb.Extent{Index: uint32(i), FirstRow: extent.FirstRow, Rows: extent.Rows, WindowRows: window}
		e.Beside = format.BesideOf(f.Holds)
		if of, ok := f.Holds.(format.Scanned); ok {
			of.Place(i).To(e)
		}
		s.Extents = append(s.Extents, e)
		counts.Extents++
		counts.Rows += extent.Rows
		if reads != nil {
			reads.add(bound, i, extent.Rows, cost.Stored)
		}
	}
	counts.Shards = int64(len(shards))
	counts.exclude(f.File)
	return shards, counts, nil
}

// exclude takes from a file's rows those that its table has deleted. Which extents these are of is not known: of those
// that are kept there are taken to be no more than of others.
func (c *Counts) exclude(f *pb.File) {
	excluded, all := int64(0), c.Rows+c.PrunedRows
	for _, e := range f.GetExcluded() {
		excluded = min(all, excluded+max(0, min(all, e.GetRows())))
	}
	if all > 0 {
		c.ExcludedRows = int64(float64(excluded) / float64(all) * float64(c.Rows))
		c.Rows -= c.ExcludedRows
	}
}

// Digest is that of the index of a file, or of what another one beside it says; nil: the file says all itself.
func (f File) Digest() []byte {
	if of, ok := f.Holds.(format.Beside); ok {
		return of.Digest()
	}
	return f.IndexDigest
}

// countUntrusted counts what statistics of an extent the filter cannot use.
func (p *planner) countUntrusted(counts *Counts, f File, bound format.Planned, extent int) {
	chunks, first := p.filter.untrusted(bound, extent)
	if chunks == 0 {
		return
	}
	counts.UntrustedChunks += chunks
	counts.Untrusted = cmp.Or(counts.Untrusted, fmt.Sprintf("%s %s %s", f.GetUri(), format.Name(f.Holds, extent),
		first))
}

// windowRows is how many rows of an extent decode to about window bytes.
func windowRows(bytes, rows, columns, window int64) int64 {
	perRow := max(1, (bytes+rows-1)/rows)
	fit := min(maxWindowRows, window/perRow)
	// Divided, not multiplied, since a window may be configured to any size.
	floor := min(max(minWindowRows, min(columns/columnsPerRow, maxFloorRows)),
		window/((perRow+maxWindowGrowth-1)/maxWindowGrowth))
	return min(rows, max(1, floor, fit))
}

// shuffle orders shards by a hash of what they hold, so that each one's place depends on nothing else.
func shuffle(shards []*pb.Shard, seed int64, epoch uint32) {
	key := func(s *pb.Shard) uint64 {
		return hash('s', seed, epoch, s.GetFile().GetUri(), s.GetExtents()[0].GetIndex())
	}
	slices.SortFunc(shards, func(a, b *pb.Shard) int {
		return cmp.Or(cmp.Compare(key(a), key(b)),
			cmp.Compare(a.GetFile().GetIndex(), b.GetFile().GetIndex()),
			cmp.Compare(a.GetExtents()[0].GetIndex(), b.GetExtents()[0].GetIndex()))
	})
}

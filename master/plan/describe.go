package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// Description is what a session would read in its first epoch.
type Description struct {
	// Files and their bytes as listed, and the blocks that they make.
	ListedFiles int   `json:"listed_files"`
	ListedBytes int64 `json:"listed_bytes"`
	Blocks      int   `json:"blocks"`
	// Planned counts what lies in the files of which it is known what they hold.
	Planned Counts `json:"planned"`
	// ReadBytes is what would be read of them, and DecodedBytes about what that takes in memory.
	ReadBytes    int64               `json:"read_bytes"`
	DecodedBytes int64               `json:"decoded_bytes"`
	Columns      []ColumnDescription `json:"columns"`
	// Resume is what resuming costs; nil: no file was scanned for where its rows are.
	Resume *Resuming `json:"resume,omitempty"`
	// Order is in which order and batches ranks get rows, in words.
	Order string `json:"order,omitempty"`
}

// Resuming is what it costs to resume within files of records: a stream begins again at an extent's front.
type Resuming struct {
	Extents int64 `json:"extents"`
	// Most is how many bytes are decompressed again at most, and MostOf of which file. MostStored are those that are
	// read for it.
	Most       int64  `json:"most_bytes"`
	MostStored int64  `json:"most_stored_bytes"`
	MostOf     string `json:"most_of"`
	// Uncut counts files that have a stream of a codec which cannot be begun in its middle; First is one of them.
	Uncut int64  `json:"uncut_files"`
	Codec string `json:"uncut_codec,omitempty"`
	First string `json:"uncut_first,omitempty"`
	// Long counts files that have a member of gzip which is begun in its middle, at one of few places; FirstLong is one
	// of them.
	Long      int64  `json:"long_files,omitempty"`
	FirstLong string `json:"long_first,omitempty"`
}

// recompress says how a file is to be compressed.
const recompress = "recompress them with bgzip, or zstd in frames of some MiB"

// uncutBytes is how much is decompressed for an extent that would have been cut if it could.
const uncutBytes = 16 << 20

// resume adds a file that was scanned.
func (d *Description) resume(f File, of format.Scanned) {
	if d.Resume == nil {
		d.Resume = &Resuming{}
	}
	r, uncut, long := d.Resume, false, false
	codec := ""
	if packed, ok := f.Holds.(interface{ Compression() string }); ok {
		codec = packed.Compression()
	}
	for i := range f.Holds.Extents() {
		p := of.Place(i)
		r.Extents++
		again := p.Skip + p.Bytes
		if again > r.Most {
			r.Most, r.MostStored, r.MostOf = again, p.Stored.Length, f.GetUri()
		}
		uncut, long = uncut || codec != "" && again > uncutBytes, long || p.Restart != nil
	}
	switch {
	case long:
		r.Long++
		r.FirstLong = cmp.Or(r.FirstLong, f.GetUri())
	case uncut:
		r.Uncut++
		if r.First == "" {
			r.Codec, r.First = codec, f.GetUri()
		}
	}
}

func (r *Resuming) writeText(w io.Writer) {
	most := formatBytes(r.MostStored)
	if r.Most != r.MostStored {
		most += " (" + formatBytes(r.Most) + " decompressed)"
	}
	terminal.Printf(w, "resuming\t%d\textents, of which up to %s is read again, of %s\n", r.Extents, most, r.MostOf)
	if r.Uncut > 0 {
		terminal.Printf(w, "uncut\t%d\tfiles have a stream of %s that cannot be cut, and resuming reads it again from "+
			"its front: %s: %s\n", r.Uncut, r.Codec, recompress, r.First)
	}
	if r.Long > 0 {
		terminal.Printf(w, "long\t%d\tfiles have a long stream of gzip, and resuming reads it again from the last "+
			"place that its index has in it: for less, %s: %s\n", r.Long, recompress, r.FirstLong)
	}
}

// ColumnDescription is the part of one source column. Sources that are keys of one map share its bytes: each
// shows all of them.
type ColumnDescription struct {
	Name         string `json:"name"`
	Type         string `json:"type"`
	Files        int64  `json:"files"` // that have it
	ReadBytes    int64  `json:"read_bytes"`
	DecodedBytes int64  `json:"decoded_bytes"`
	Decoder      string `json:"decoder,omitempty"`
}

// Describe plans the first epoch as far as it is known what files, by their index, hold. decoders says how each source
// column, by name, is decoded.
func Describe(
	cfg Config, program *pb.Program, files []*pb.File, known map[int]format.File, decoders map[string]string,
) (*Description, error) {
	p, err := newPlanner(cfg, program)
	if err != nil {
		return nil, err
	}
	order := Order(files, program.GetSeed(), program.GetShuffle(), 0)
	d := &Description{ListedFiles: len(files), Blocks: len(Blocks(cfg, files, order))}
	for _, s := range program.GetSources() {
		d.Columns = append(d.Columns, ColumnDescription{
			Name: s.GetName(), Type: spec.TypeFromProto(s.GetType()).String(), Decoder: decoders[s.GetName()],
		})
		switch {
		case !s.GetPartition():
		case slices.ContainsFunc(files, (*pb.File).GetOfTable):
			d.Columns[len(d.Columns)-1].Decoder = "the table's"
		default:
			d.Columns[len(d.Columns)-1].Decoder = "the key in the path"
		}
	}
	for i, f := range files {
		d.ListedBytes += f.GetSize()
		f, err := Constants(f, program.GetSources())
		if err != nil {
			return nil, err
		}
		if p.filter.excludesFile(f) {
			d.Planned.PrunedFiles++
		} else if holds, ok := known[i]; ok {
			if err := p.describe(d, File{File: f, Holds: holds}); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// describe adds a file to d.
func (p *planner) describe(d *Description, f File) error {
	bound, err := f.bind(p.program.GetSources())
	if err != nil {
		return err
	}
	p.windows = 0 // files of several blocks are described
	shards, counts, err := p.cut(f, bound, nil)
	if err != nil {
		return err
	}
	d.Planned.Add(counts)
	if of, ok := f.Holds.(format.Scanned); ok {
		d.resume(f, of)
	}
	for i := range d.Columns {
		if bound.Has(i) || slices.ContainsFunc(f.GetConstants(), p.isOf(i)) {
			d.Columns[i].Files++
		}
	}
	for _, s := range shards {
		for _, kept := range s.GetExtents() {
			extent := int(kept.GetIndex())
			cost := bound.Cost(extent)
			d.ReadBytes += cost.Stored
			d.DecodedBytes += cost.Decoded
			for i := range d.Columns {
				cost := bound.SourceCost(extent, i)
				d.Columns[i].ReadBytes += cost.Stored
				d.Columns[i].DecodedBytes += cost.Decoded
			}
		}
	}
	return nil
}

// isOf finds the constant that a source is.
func (p *planner) isOf(source int) func(*pb.Constant) bool {
	return func(c *pb.Constant) bool { return c.GetName() == p.program.GetSources()[source].GetName() }
}

// WriteText renders the description for a terminal, the columns that are read most first.
func (d *Description) WriteText(w io.Writer) error {
	t := terminal.Table(w)
	c := d.Planned
	terminal.Printf(t, "files\t%d\t%s in %s\n", d.ListedFiles, formatBytes(d.ListedBytes),
		english.Plural(d.Blocks, "block", ""))
	if c.PrunedFiles > 0 {
		terminal.Printf(t, "pruned\t%d\tfiles by partition keys, which are not looked at\n", c.PrunedFiles)
	}
	if c.Files+c.PrunedFiles < int64(d.ListedFiles) {
		terminal.Printf(t, "planned\t%d\tfiles: all below is of these\n", c.Files)
	}
	terminal.Printf(t, "extents\t%d\t%d pruned by statistics, %d empty\n", c.Extents, c.PrunedExtents,
		c.EmptyExtents)
	if c.UntrustedChunks > 0 {
		terminal.Printf(t,
			"untrusted\t%d\tcolumn chunks whose statistics contradict themselves, and exclude nothing; write these "+
				"files again: %s\n", c.UntrustedChunks, c.Untrusted)
	}
	terminal.Printf(t, "rows\t%d\tbefore the filter; %d pruned\n", c.Rows, c.PrunedRows)
	if c.ExcludedRows > 0 {
		terminal.Printf(t, "deleted\t%d\trows by the table, which are not among them\n", c.ExcludedRows)
	}
	terminal.Printf(t, "shards\t%d\t\n", c.Shards)
	if d.Resume != nil {
		d.Resume.writeText(t)
	}
	if d.Order != "" {
		terminal.Printf(t, "order\t\t%s\n", d.Order)
	}
	terminal.Printf(t, "to read\t%s\t%s decoded\n", formatBytes(d.ReadBytes), formatBytes(d.DecodedBytes))
	if err := t.Flush(); err != nil {
		return fmt.Errorf("plan: write the description: %w", err)
	}
	t = terminal.Table(w)
	terminal.Printf(t, "\ncolumn\ttype\tfiles\tto read\tdecoded\tdecoder\n")
	columns := slices.Clone(d.Columns)
	slices.SortStableFunc(columns,
		func(a, b ColumnDescription) int { return int(min(1, max(-1, b.ReadBytes-a.ReadBytes))) })
	for _, c := range columns {
		terminal.Printf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", c.Name, c.Type, c.Files, formatBytes(c.ReadBytes),
			formatBytes(c.DecodedBytes), c.Decoder)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("plan: write the description: %w", err)
	}
	return nil
}

// formatBytes writes a size with a binary unit.
func formatBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for ; f >= 1024 && unit < 5; unit++ {
		f /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTPE"[unit])
}

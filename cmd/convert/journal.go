package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/internal/storage"
)

// A journal says what of a conversion is finished, so that a later process goes on behind it. Its first entry says
// which conversion it is, each further one is a finished file, and the last one that there are no more rows.

// place is a row of the inputs: that of a file, or its end.
type place struct {
	Input int   `json:"input"`
	Row   int64 `json:"row"`
	// Skipped is how many rows before it were left out.
	Skipped int64 `json:"skipped,omitempty"`
}

// entry is one of a journal.
type entry struct {
	Work string `json:"work,omitempty"` // the first one: what tells conversions apart
	// Order is, in the first one, that of the columns of all files; nil: as in the inputs.
	Order []int     `json:"order,omitempty"`
	File  *finished `json:"file,omitempty"`
	// Whole says that all rows are in the files before.
	Whole bool `json:"whole,omitempty"`
}

// finished is an output file that has all its bytes, but perhaps not its name yet.
type finished struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	After place  `json:"after"` // what comes behind its last row
	// Raw is how many bytes it has without its compression, where its encoder knows.
	Raw  int64            `json:"raw,omitempty"`
	Held *storage.Pending `json:"held,omitempty"`
}

// progress is what a journal says.
type progress struct {
	files    []finished
	order    []int // of columns in files that an earlier run began
	whole    bool
	inFolder int    // last files that lie in one folder
	ending   string // of new files' names
}

func (p *progress) add(f finished) {
	if len(p.files) == 0 || path.Dir(p.files[len(p.files)-1].Name) != path.Dir(f.Name) {
		p.inFolder = 0
	}
	p.files = append(p.files, f)
	p.inFolder++
}

// next is the name of the next file, which lies in a folder. The files of a folder follow one another.
func (p *progress) next(folder string) string {
	if len(p.files) > 0 && path.Dir(p.files[len(p.files)-1].Name) == folder {
		return path.Join(folder, partName(p.inFolder, p.ending))
	}
	return path.Join(folder, partName(0, p.ending))
}

func (p *progress) rows() (n int64) {
	for _, f := range p.files {
		n += f.Rows
	}
	return n
}

// note tells of files that an earlier run finished.
func (p *progress) note() string {
	return fmt.Sprintf("went on behind %s, which an earlier run finished: %s rows",
		p.files[len(p.files)-1].Name, humanize.Comma(p.rows()))
}

// take reads entries, which must be of this work. Files lie below the output and are named in their order, which is
// checked: names come from a file.
func (p *progress) take(entries []entry, work string) error {
	if len(entries) == 0 || entries[0].Work != work {
		return errOtherWork
	}
	p.order = entries[0].Order
	seen := map[string]bool{}
	for _, e := range entries[1:] {
		switch {
		case e.Whole:
			p.whole = true
		case e.File == nil || p.whole || !filepath.IsLocal(e.File.Name) ||
			e.File.Name != p.next(path.Dir(e.File.Name)) || seen[e.File.Name]:
			return fmt.Errorf("the journal's entry %d does not follow the others: give --restart", len(p.files)+1)
		default:
			p.add(*e.File)
			seen[e.File.Name] = true
		}
	}
	return nil
}

var errOtherWork = errors.New("an unfinished conversion of other inputs, or with other flags, is there: run it again " +
	"to finish it, or give --restart to drop what it wrote")

func partName(n int, ending string) string {
	if strings.HasPrefix(ending, mdsEnd) {
		return fmt.Sprintf("shard.%05d%s", n, ending) // as mosaicml-streaming has it
	}
	return fmt.Sprintf("part-%05d%s", n, ending)
}

// workVersion changes for a format when the same command would make other rows or files of it.
func workVersion(to string) int {
	switch to {
	case asLines, asTar:
		return 2
	}
	return 1
}

// workOf is the digest of what decides an output: the inputs as they lie there, and the options.
func workOf(o Options, in *inputs) string {
	type input struct {
		URI, ETag string
		Size      int64
	}
	what := struct {
		Version int
		Inputs  []input
		Options Options
		Format  []byte `json:",omitempty"`
		Table   string `json:",omitempty"`
	}{Version: workVersion(o.To), Options: o}
	if what.Options.To == outputFormats()[0].name {
		what.Options.To = "" // as before there were others
	}
	if o.Format != nil {
		what.Format, _ = proto.MarshalOptions{Deterministic: true}.Marshal(o.Format) // it was parsed from text
	}
	if in.table != nil {
		what.Table = in.table.URI // files of other versions may lack other rows
	}
	for _, f := range in.files {
		what.Inputs = append(what.Inputs, input{f.GetUri(), f.GetEtag(), f.GetSize()})
	}
	text, err := json.Marshal(what)
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

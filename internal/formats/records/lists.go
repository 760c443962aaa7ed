package records

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Listed is an Opened of a format for which other tools list the records of a file, see format.Lister.
type Listed interface {
	// Lists are the names that such a list of a file may have.
	Lists(name string) []string
	// ReadList tells of the records of a list, in the file's order. It fails for one that the rule would not cut so. It
	// reads no file.
	ReadList(list []byte, take func(bytes int64) error, found func(Record) error) error
	// Begins reports whether a record of a list begins where data does, which goes to the end of Head.
	Begins(data []byte, r Record) bool
	// Ends fails if the file cannot end with the data that stands behind its last record.
	Ends(data []byte) error
}

// Record is one of a list.
type Record struct {
	At   int64 // where the one before ends: it begins there, unless there is something in between
	By   int64 // where it begins at the latest
	Head int64 // where that ends by which it is seen
	End  int64
}

const (
	// maxSure is how many extents are looked at whose begin a list leaves no doubt about: if it is of another file,
	// any of them shows it.
	maxSure = 16
	// maxBehind bounds what may stand behind the last record, such as the zeros that end a tar.
	maxBehind = 64 << 10
	// lookedAtOnce is how many records are looked at at once, each by a read of some KiB at most.
	lookedAtOnce = 256
)

var errListed = errors.New("its records are not in the file's order, or not in the file")

// Lists are the names that a list of the file's records may have.
func (f *File) Lists(name string) []string {
	if of, ok := f.Opened.(Listed); ok && f.Codec == Plain {
		return of.Lists(name)
	}
	return nil
}

// IndexAdvice says what to do if an index is not that of the file of a URI: whence it may have come.
func (f *File) IndexAdvice(uri string) string {
	advice := ": remove the folder _penstock/index beside it, if there is one"
	if lists := f.Lists(path.Base(uri)); len(lists) > 0 {
		advice += ", and make again or remove what lists its records (" + strings.Join(lists, ", ") + ")"
	}
	return advice
}

// ScanList cuts the file into extents by a list of its records, as a scan does. Where extents begin is looked at in the
// file if something else may stand there, and for some of the others; all else is checked when records are read.
func (f *File) ScanList(ctx context.Context, in *format.Input, list []byte, found func(format.Place) error) error {
	of, ok := f.Opened.(Listed)
	if !ok || f.Codec != Plain {
		return errListed
	}
	l := &listed{
		cutter: cutter{found: found, extent: f.Limits.Extent, plain: true, begin: f.begin()},
		size:   f.size, record: f.Limits.Record, last: Record{End: f.begin()},
	}
	if err := of.ReadList(list, in.Ask, l.add); err != nil {
		return err
	}
	if l.current == nil {
		return errors.New("it lists no records")
	}
	if err := l.end(f.size, f.size); err != nil {
		return err
	}
	behind := f.size - l.last.End
	if behind > maxBehind {
		return fmt.Errorf("behind its last record the file has %d bytes", behind)
	}
	data := make([]byte, behind)
	if err := in.ReadAt(ctx, data, l.last.End); err != nil {
		return err
	}
	if err := of.Ends(data); err != nil {
		return err
	}
	for some := range slices.Chunk(l.looked(), lookedAtOnce) {
		if err := look(ctx, in, of, some); err != nil {
			return err
		}
	}
	return nil
}

// listed cuts by a list.
type listed struct {
	cutter
	size, record int64 // of the file, and of a record at most
	last         Record
	doubtful     []Record // an extent begins at their By, or something else stands there
	sure         []Record // others at which one begins
}

// add adds a record.
func (l *listed) add(r Record) error {
	switch {
	case r.At != l.last.End || r.By < r.At || r.Head <= r.By || r.End < r.Head || r.End > l.size:
		return errListed
	case r.End-r.At > l.record:
		return tooLong(l.record)
	}
	l.last = r
	extents := l.index
	mayBegin := l.current != nil && r.By-l.current.from >= l.extent
	if err := l.row(r.At); err != nil {
		return err
	}
	switch {
	case mayBegin && r.By != r.At:
		l.doubtful = append(l.doubtful, r)
	case l.index > extents:
		l.sure = append(l.sure, r)
	}
	return nil
}

// looked are the records whose begin is looked at in the file.
func (l *listed) looked() []Record {
	all := append(l.doubtful, l.last)
	n := min(maxSure, len(l.sure))
	for i := range n {
		all = append(all, l.sure[i*len(l.sure)/n])
	}
	return all
}

// look reads where records begin.
func look(ctx context.Context, in *format.Input, of Listed, some []Record) error {
	ranges := make([]storage.Range, len(some))
	for i, r := range some {
		ranges[i] = storage.Range{Offset: r.At, Length: r.Head - r.At}
	}
	data, err := storage.ReadRanges(ctx, in.Storage, in.Profile, in.File, ranges, storage.Reading{},
		func(n int64) ([]byte, error) { return make([]byte, n), nil })
	if err != nil {
		return err
	}
	for i, r := range some {
		if !of.Begins(data[i], r) {
			return fmt.Errorf("no record begins at byte %d of the file, where it says that one does", r.At)
		}
	}
	return nil
}

package fitted

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	pqmetadata "github.com/apache/arrow/go/v15/parquet/metadata"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// ReadAt fills buf from an offset of a file, wherever that lies.
type ReadAt func(ctx context.Context, buf []byte, offset int64) error

// File is a fitted file. Its name is for errors.
type File struct {
	Info
	Entries []Entry
	// Digest is that of the footer. As this has the hash of each row group, which is checked when it is read, two files
	// of one digest are the same.
	Digest string

	name   string
	read   ReadAt
	footer *pqmetadata.FileMetaData
	size   int64 // before the footer
}

// damaged is the error of a file that is not as Writer writes it.
func (f *File) damaged(format string, args ...any) error {
	return fmt.Errorf("%s is no fitted file, or damaged: %s; write it again with `penstock fit`", f.name,
		fmt.Sprintf(format, args...))
}

// Open reads the footer of a file of so many bytes.
func Open(ctx context.Context, name string, size int64, read ReadAt) (*File, error) {
	f := &File{name: name, read: read}
	footer, err := f.readFooter(ctx, size)
	if err != nil {
		return nil, err
	}
	f.footer, err = parseFooter(footer)
	if err != nil {
		return nil, f.damaged("its footer: %v", err)
	}
	value := f.footer.KeyValueMetadata().FindValue(metadataKey)
	if value == nil {
		return nil, f.damaged("its metadata has no %s", metadataKey)
	}
	var meta metadata
	if err := json.Unmarshal([]byte(*value), &meta); err != nil {
		return nil, f.damaged("metadata %s: %v", metadataKey, err)
	}
	if meta.Version != version {
		return nil, fmt.Errorf("%s has version %d of fitted files, and this release reads %d: fit again, or use the "+
			"release that wrote it", name, meta.Version, version)
	}
	f.Info, f.Entries = meta.Info, meta.Statistics
	f.Digest = "sha256:" + hashOf(footer)
	for i := range f.Entries {
		if err := f.check(&f.Entries[i]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// OpenBytes reads a file that lies in memory.
func OpenBytes(name string, data []byte) (*File, error) {
	return Open(context.Background(), name, int64(len(data)), func(_ context.Context, buf []byte, at int64) error {
		_, err := bytes.NewReader(data).ReadAt(buf, at)
		return err
	})
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

const magic = "PAR1"

// readFooter reads the footer's bytes.
func (f *File) readFooter(ctx context.Context, size int64) ([]byte, error) {
	var end [8]byte
	if size < int64(len(magic)+len(end)) {
		return nil, f.damaged("it has %d bytes", size)
	}
	if err := f.read(ctx, end[:], size-int64(len(end))); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.name, err)
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	f.size = size - int64(len(end)) - n
	if string(end[4:]) != magic || f.size < int64(len(magic)) || n > maxFooter {
		return nil, f.damaged("its end is no Parquet footer of at most %d bytes", maxFooter)
	}
	footer := make([]byte, n)
	if err := f.read(ctx, footer, f.size); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.name, err)
	}
	return footer, nil
}

// parseFooter has arrow parse a footer, once all lengths in it were found to fit.
func parseFooter(footer []byte) (meta *pqmetadata.FileMetaData, err error) {
	defer recovered(&err)
	r := thrift.NewReader(footer)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		r.Skip(f)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return pqmetadata.NewFileMetaData(footer, nil)
}

// recovered makes an error of a panic of arrow's reader, which some corrupt files cause.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow's reader panicked: %v", p)
	}
}

// check compares an entry with the footer.
func (f *File) check(e *Entry) error {
	if e.Identity != e.String() {
		return f.damaged("statistic %s calls itself %q", e, e.Identity)
	}
	if err := e.Check(spec.KindNamed(e.Kind)); err != nil {
		return f.damaged("%v", err)
	}
	if e.Group < 0 || e.Group+len(e.Groups) > len(f.footer.RowGroups) {
		return f.damaged("%s has row groups %d to %d of %d", e, e.Group, e.Group+len(e.Groups), len(f.footer.RowGroups))
	}
	var rows int64
	for _, g := range e.Groups {
		if g.Offset < int64(len(magic)) || g.Bytes < 0 || g.Bytes > maxGroup || g.Offset > f.size-g.Bytes ||
			g.Rows < 0 || g.Rows > groupRows {
			return f.damaged("%s has a row group of %d rows, at %d, of %d bytes", e, g.Rows, g.Offset, g.Bytes)
		}
		rows += g.Rows
	}
	if rows != e.Rows {
		return f.damaged("%s has %d rows in its row groups, and says %d", e, rows, e.Rows)
	}
	return nil
}

// Find is the entry of a statistic; nil: the file does not have it.
func (f *File) Find(s Statistic) *Entry {
	for i := range f.Entries {
		if f.Entries[i].Identity == s.String() {
			return &f.Entries[i]
		}
	}
	return nil
}

// Each calls take with the rows of a statistic, in order, reading them alone. A row's text is good until take returns.
func (f *File) Each(ctx context.Context, e *Entry, take func(Row) error) error {
	for i, g := range e.Groups {
		data := make([]byte, g.Bytes)
		if err := f.read(ctx, data, g.Offset); err != nil {
			return fmt.Errorf("read %s of %s: %w", e, f.name, err)
		}
		if hashOf(data) != g.SHA256 {
			return f.damaged("%s: the bytes of row group %d differ from those written", e, e.Group+i)
		}
		rows, err := f.decode(e.Group+i, g, data)
		if err != nil {
			return f.damaged("%s: row group %d: %v", e, e.Group+i, err)
		}
		for i := range int(g.Rows) {
			if err := take(rows.row(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rows are all rows of a statistic that has few: at most limit.
func (f *File) Rows(ctx context.Context, e *Entry, limit int64) ([]Row, error) {
	if e.Rows > limit {
		return nil, fmt.Errorf("%s of %s has %d rows, where at most %d may be read", e, f.name, e.Rows, limit)
	}
	var rows []Row
	err := f.Each(ctx, e, func(r Row) error {
		r.Value.Text = bytes.Clone(r.Value.Text)
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

package convert

import (
	"archive/tar"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	webdataset "github.com/penstock-ml/penstock/internal/formats/tar"
)

// tarEncoder writes tars as WebDataset has them: a row is files of one name, one for each column that is not null
// there, whose extension says what it is (tarparts.go). The name is the row's number, or what the column of keys has.
type tarEncoder struct {
	file   *tar.Writer
	row    int64 // of all files, that comes next
	layout *tarLayout
	seed   maphash.Seed
	keys   map[uint64]bool // of the file
}

func (e *tarEncoder) open() bool { return e.file != nil }

func (e *tarEncoder) begin(to io.Writer, l *layout) (err error) {
	if e.layout, err = tarLayoutOf(l); err != nil {
		return err
	}
	e.file, e.seed, e.keys = tar.NewWriter(to), maphash.MakeSeed(), map[uint64]bool{}
	return nil
}

func (e *tarEncoder) rowGroup(l *layout, group []arrow.Record) error {
	return l.eachRow(group, func(rec arrow.Record, row int) error {
		err := e.sample(rec, row)
		e.row++
		return err
	})
}

func (e *tarEncoder) sample(rec arrow.Record, row int) error {
	key, err := e.keyOf(rec, row)
	if err != nil {
		return err
	}
	members := 0
	for _, p := range e.layout.parts {
		data, err := p.encode(rec, row)
		if err != nil {
			return err
		}
		if data == nil {
			continue
		}
		members++
		err = e.file.WriteHeader(&tar.Header{
			Name: key + "." + p.name, Size: int64(len(data)), Mode: 0o444, ModTime: time.Unix(0, 0),
		})
		if err == nil {
			_, err = e.file.Write(data)
		}
		if err != nil {
			return err
		}
	}
	if members == 0 {
		return fmt.Errorf("it is null in all columns, and would have no file in a tar: leave it out")
	}
	return nil
}

// keyOf is the name of a row's files. Two rows of one name would be one.
func (e *tarEncoder) keyOf(rec arrow.Record, row int) (string, error) {
	if e.layout.key < 0 {
		return fmt.Sprintf("%09d", e.row), nil
	}
	a := rec.Column(e.layout.key)
	if isNone(a, row) {
		return "", fmt.Errorf("its %s is null, and names its files: leave the row or the column out", webdataset.Key)
	}
	text := string(textOf(a.(array.BinaryLike), row))
	if key, _ := webdataset.Split([]byte(text + ".x")); string(key) != text || text == "" {
		return "", fmt.Errorf("its %s, %q, cannot name files of a sample: leave the column out, and rows are numbered",
			webdataset.Key, short(text))
	}
	if leaves(text) {
		return "", fmt.Errorf("its %s, %q, would name files outside of its folder once the tar is unpacked: use names "+
			"that do not begin with a slash, and have no . or .. between slashes", webdataset.Key, short(text))
	}
	hash := maphash.String(e.seed, text)
	if e.keys[hash] {
		return "", fmt.Errorf("its %s, %q, is that of another row of the file: leave the column out, and rows are "+
			"numbered", webdataset.Key, short(text))
	}
	e.keys[hash] = true
	return text, nil
}

// leaves reports whether a name may lie outside of the folder that a tar is unpacked to. Names that begin with ./ are
// those of whole folders, as tar writes them.
func leaves(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.TrimPrefix(name, "./"), "/"), func(level string) bool {
		return level == "." || level == ".."
	}) || path.IsAbs(name)
}

func (e *tarEncoder) end() error {
	err := e.file.Close()
	e.file = nil
	return err
}

func (e *tarEncoder) abandon() { e.file = nil }

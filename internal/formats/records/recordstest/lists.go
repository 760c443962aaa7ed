package recordstest

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strings"
)

// TFRecordList is what tfrecord2idx writes of a file.
func TFRecordList(data []byte) (list []byte) {
	for at := 0; at < len(data); {
		size := 16 + int(binary.LittleEndian.Uint64(data[at:]))
		list = fmt.Appendf(list, "%d %d\n", at, size)
		at += size
	}
	return list
}

// TarList is what DALI's wds2idx writes of a tar.
func TarList(data []byte) []byte {
	in := &counted{in: bytes.NewReader(data)}
	r := tar.NewReader(in)
	var lines []string
	last := ""
	for {
		h, err := r.Next()
		if err != nil {
			break
		}
		base := path.Base(h.Name)
		if h.Typeflag != tar.TypeReg || strings.HasPrefix(base, ".") {
			continue
		}
		before, ending, _ := strings.Cut(base, ".")
		key := strings.TrimSuffix(h.Name, base) + before
		member := fmt.Sprintf("%s %d %d %s", ending, in.n, h.Size, h.Name)
		if len(lines) > 0 && key == last {
			lines[len(lines)-1] += " " + member
		} else {
			lines = append(lines, member)
		}
		last = key
	}
	return fmt.Appendf(nil, "v1.2 %d\n%s\n", len(lines), strings.Join(lines, "\n"))
}

// counted counts what is read, which archive/tar does by whole headers.
type counted struct {
	in io.Reader
	n  int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += n
	return n, err
}

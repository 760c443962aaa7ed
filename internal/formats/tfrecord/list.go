package tfrecord

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Lists are the names that tfrecord2idx of DALI and that of the package tfrecord are given, or give.
func (o *Opened) Lists(name string) []string {
	stem := strings.TrimSuffix(name, path.Ext(name))
	return []string{name + ".idx", stem + ".idx", name + ".index", stem + ".tfindex"}
}

// ReadList reads lines of where a record begins, and how many bytes it has with its length and checksums.
func (o *Opened) ReadList(list []byte, _ func(int64) error, found func(records.Record) error) error {
	end := int64(0)
	for n := 1; len(list) > 0; n++ {
		var line []byte
		line, list, _ = bytes.Cut(list, []byte("\n"))
		at, size, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
		from, err1 := strconv.ParseInt(string(at), 10, 64)
		bytes, err2 := strconv.ParseInt(string(size), 10, 64)
		switch {
		case !ok || err1 != nil || err2 != nil || bytes > 1<<48:
			return fmt.Errorf("line %d: it is not where a record begins, a blank, and how many bytes it has", n)
		case from != end || bytes < headBytes+sumBytes:
			return fmt.Errorf("line %d: the record does not begin where the one before ends, or is too short", n)
		}
		end += bytes
		if err := found(records.Record{At: from, By: from, Head: from + headBytes, End: end}); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// Begins reports whether a record of that length begins where data does.
func (o *Opened) Begins(data []byte, r records.Record) bool {
	return sumFits(data[:lengthBytes], data[lengthBytes:]) &&
		binary.LittleEndian.Uint64(data) == uint64(r.End-r.At-headBytes-sumBytes)
}

// Ends fails if anything stands behind the last record.
func (o *Opened) Ends(data []byte) error {
	if len(data) > 0 {
		return errors.New("the file goes on behind its last record")
	}
	return nil
}

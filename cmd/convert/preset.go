package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/internal/formats/literal"
)

const criteoPreset = "criteo"

// Numbers of Criteo's columns, after the label.
const (
	criteoInts = 13
	criteoCats = 26
)

// preset returns the columns that a preset's name stands for.
func preset(name string) ([]string, bool) {
	if name != criteoPreset {
		return nil, false
	}
	columns := []string{"label:int32"}
	for i := range criteoInts {
		columns = append(columns, fmt.Sprintf("int_%d:int32", i))
	}
	for i := range criteoCats {
		columns = append(columns, fmt.Sprintf("cat_%d:hex", i))
	}
	return columns, true
}

// usePreset replaces a preset's name by its columns.
func (o *Options) usePreset() {
	if len(o.Columns) != 1 {
		return
	}
	if columns, ok := preset(o.Columns[0]); ok {
		o.Columns, o.NoHeader = columns, true
	}
}

// recognise chooses the preset of text files without a header that are plainly of its layout, where nothing was
// declared, and says so. What keeps a file from being read is told by who reads it.
func (o *Options) recognise(ctx context.Context, in *inputs) (note string) {
	if len(o.Columns) > 0 || o.NoHeader || o.Header || o.Format != nil {
		return ""
	}
	for i := range in.files {
		fields, err := firstLine(ctx, in, i, *o)
		if errors.Is(err, errEnd) {
			continue
		}
		if err != nil || !isCriteo(fields) {
			return ""
		}
		o.Columns = []string{criteoPreset}
		return in.name(i) +
			" has no header and the layout of Criteo's click logs: its columns are named as by --columns criteo"
	}
	return ""
}

// firstLine returns the fields of a text file's first line, or errEnd.
func firstLine(ctx context.Context, in *inputs, i int, o Options) ([]field, error) {
	d, err := delimiter(o.Delimiter, in.name(i))
	if err != nil {
		return nil, err
	}
	f, err := openTextFile(ctx, in, i, d, o.quote())
	if err != nil {
		return nil, err
	}
	defer f.close()
	return f.next()
}

// parseHash reads a hash of 32 bits as Criteo's logs have it.
func parseHash(text []byte) (int64, bool) {
	n, ok := parseHex(text)
	return n, ok && len(text) == 8
}

// isCriteo reports whether a line has a label, 13 integers and 26 hashes of 8 hexadecimal digits, any of which but the
// label may be empty.
func isCriteo(line []field) bool {
	if len(line) != 1+criteoInts+criteoCats || string(line[0].text) != "0" && string(line[0].text) != "1" {
		return false
	}
	for i, f := range line[1:] {
		parse := literal.ParseInt
		if i >= criteoInts {
			parse = parseHash
		}
		if _, ok := parse(f.text); len(f.text) > 0 && !ok {
			return false
		}
	}
	return true
}

package convert

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/formats/literal"
	"github.com/penstock-ml/penstock/internal/storage"
)

// textColumn is a column of text files.
type textColumn struct {
	name string
	at   int // which field of a line it is
	kind kind
	// origin says where the kind comes from, for messages.
	origin string
}

// declare makes the columns of text files from their header, or, without one, from the number of fields.
func declare(o Options, header []string, fields int) ([]textColumn, error) {
	var columns []textColumn
	var err error
	if header != nil {
		if !o.Header && isData(header) {
			return nil, fmt.Errorf(
				"the first line, %s, looks like data and not like names; give --no-header if it is, "+
					"--no-header=false if these are the columns' names",
				some(header))
		}
		columns, err = fromHeader(o.Columns, header)
	} else {
		columns, err = fromDeclarations(o.Columns, fields)
	}
	if err != nil {
		return nil, err
	}
	for i, c := range columns {
		if slices.ContainsFunc(columns[:i], func(d textColumn) bool { return d.name == c.name }) {
			return nil, twoNamed(c.name)
		}
	}
	return columns, useHex(o.Hex, columns)
}

func twoNamed(name string) error {
	return fmt.Errorf(
		"two columns are named %s; rename one in the header, or, if the first line is data, give --no-header", name)
}

// isData reports whether no field of a first line is a name: each is a number, a time, true, false or empty.
func isData(header []string) bool {
	for _, name := range header {
		if k := guess(field{text: []byte(name)}, nil); k == literal.String || k == literal.Binary {
			return false
		}
	}
	return slices.ContainsFunc(header, func(name string) bool { return name != "" })
}

// fromHeader makes the columns that a header names: those that are wanted, or all, some with their types.
func fromHeader(declared, header []string) ([]textColumn, error) {
	columns := make([]textColumn, len(header))
	for i, name := range header {
		columns[i] = textColumn{name: name, at: i}
		if name == "" {
			columns[i].name = fmt.Sprintf("col_%d", i)
		}
	}
	var wanted []textColumn
	for _, d := range declared {
		c, err := parseDeclaration(d)
		if err != nil {
			return nil, err
		}
		same := func(h textColumn) bool { return h.name == c.name }
		i := slices.IndexFunc(columns, same)
		if i < 0 {
			return nil, fmt.Errorf("--columns: there is no column %s; the header has %s", c.name, some(header))
		}
		c.at = i
		if c.kind != unknown {
			columns[i] = c
			continue
		}
		switch {
		case slices.ContainsFunc(wanted, same):
			return nil, fmt.Errorf("--columns names %s twice: name it once", c.name)
		case slices.ContainsFunc(columns[i+1:], same):
			return nil, twoNamed(c.name)
		}
		wanted = append(wanted, c)
	}
	switch len(wanted) {
	case 0:
		return columns, nil
	case len(declared):
		return wanted, nil
	}
	return nil, fmt.Errorf("--columns names %s without a type, which chooses columns, and others with one, which "+
		"keeps all: give all a type or none; to do both, say types by --format, as in '{name: csv, "+
		"columns: {%s: string}}'",
		wanted[0].name, wanted[0].name)
}

func fromDeclarations(declared []string, fields int) ([]textColumn, error) {
	if len(declared) > 0 && len(declared) != fields {
		return nil, fmt.Errorf(
			"%d columns are declared, but the first line has %d fields; declare each, or none, or choose another "+
				"delimiter",
			len(declared), fields)
	}
	columns := make([]textColumn, fields)
	for i := range columns {
		columns[i].name = fmt.Sprintf("col_%d", i)
		if len(declared) > 0 {
			var err error
			if columns[i], err = parseDeclaration(declared[i]); err != nil {
				return nil, err
			}
		}
		columns[i].at = i
	}
	return columns, nil
}

// parseDeclaration reads "name" or "name:type".
func parseDeclaration(text string) (textColumn, error) {
	name, typ, typed := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		name, typ, typed = text[:i], text[i+1:], true
	}
	c := textColumn{name: name}
	if name == "" {
		return c, fmt.Errorf("column %q has no name; write name or name:type", text)
	}
	if !typed {
		return c, nil
	}
	var ok bool
	if c.kind, ok = kindNames()[typ]; !ok {
		return c, fmt.Errorf(
			"column %s: no type %q; there are bool, int32, int64, float32, float64, string, binary, hex, date, "+
				"timestamp and timestamp[ns]", name, typ)
	}
	c.origin = "as declared"
	return c, nil
}

// useHex makes the columns that match hexadecimal.
func useHex(patterns []string, columns []textColumn) error {
	for _, pattern := range patterns {
		matched := false
		for i := range columns {
			c := &columns[i]
			ok, err := path.Match(pattern, c.name)
			if err != nil {
				return fmt.Errorf("hex columns %s: %w", pattern, err)
			}
			if !ok {
				continue
			}
			if c.kind != unknown && c.kind != hexKind {
				return fmt.Errorf("column %s is declared %v, but hex, too (%s)", c.name, c.kind, pattern)
			}
			matched, c.kind, c.origin = true, hexKind, "as declared"
		}
		if !matched {
			return fmt.Errorf(
				"no column matches %s of the hex columns; there are %s (if that is the first row of data: --columns "+
					"criteo, or names, and --no-header)",
				pattern, some(names(columns)))
		}
	}
	return nil
}

func names(columns []textColumn) []string {
	var all []string
	for _, c := range columns {
		all = append(all, c.name)
	}
	return all
}

// some lists the first of many names.
func some(names []string) string {
	const limit = 8
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}

// delimiter returns that of a text file: the option, or what its suffix says.
func delimiter(option, file string) (byte, error) {
	switch {
	case option == `\t` || option == "tab":
		return '\t', nil
	case len(option) == 1 && option[0] < 0x80 && !strings.Contains("\"\r\n", option):
		return option[0], nil
	case option != "":
		return 0, fmt.Errorf("the delimiter %q is not one ASCII character other than a quote and a line end", option)
	}
	switch path.Ext(storage.Uncompressed(file)) {
	case ".csv":
		return ',', nil
	case ".tsv", ".tab":
		return '\t', nil
	}
	return 0, errors.New("the file's name does not tell its delimiter; give --delimiter, such as tab or ';'")
}

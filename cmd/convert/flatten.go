package convert

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Flattening says of some columns that each key of their maps, or each field of their structs, becomes a column.
type Flattening struct {
	Columns []string
	// Keys of maps that become columns; default: all.
	Keys []string `json:",omitempty"`
	// Listed says that the keys come from a file, and may be names of features, also of other columns.
	Listed bool `json:",omitempty"`
}

// ParseFlattening reads "scores,ids", "ids=1,2,42" or "ids=@FILE", of which each line is a key or a feature's name.
func ParseFlattening(text string) (f Flattening, err error) {
	columns, keys, named := strings.Cut(text, "=")
	f.Columns = strings.Split(columns, ",")
	if slices.Contains(f.Columns, "") {
		return f, fmt.Errorf("--flatten %s names no column: want COLUMN[,COLUMN][=KEY[,KEY]] or COLUMN=@FILE", text)
	}
	switch file, listed := strings.CutPrefix(keys, "@"); {
	case !named:
		return f, nil
	case listed:
		f.Listed = true
		f.Keys, err = linesOf(file)
	default:
		f.Keys = strings.Split(keys, ",")
	}
	if err != nil {
		return f, fmt.Errorf("--flatten %s: %w", text, err)
	}
	if len(f.Keys) == 0 || slices.Contains(f.Keys, "") {
		return f, fmt.Errorf("--flatten %s names an empty key, or none: leave = out for all keys", text)
	}
	return f, nil
}

// linesOf are the lines of a file that are not empty.
func linesOf(file string) (lines []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	s := bufio.NewScanner(f)
	for s.Scan() {
		if line := strings.TrimRight(s.Text(), "\r"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, errors.Join(s.Err(), f.Close())
}

// checkFlatten refuses what is no share, and a column that is named twice.
func (o *Options) checkFlatten() error {
	if !(o.RestBelow >= 0 && o.RestBelow < 1) { // NaN is none, either
		return fmt.Errorf("--rest-below %v is no share of rows: want a number from 0 to 1, such as 0.001", o.RestBelow)
	}
	if o.RestBelow > 0 && len(o.Flatten) == 0 {
		return errors.New("--rest-below is for keys of maps that --flatten names: give it, too")
	}
	seen := map[string]bool{}
	for _, f := range o.Flatten {
		for _, name := range f.Columns {
			if seen[name] {
				return fmt.Errorf("--flatten names column %s twice: name all of its keys at once", name)
			}
			seen[name] = true
		}
	}
	return nil
}

// keysOf are the keys that are named of a map; nil: all. field is what follows a key in names of features, if any.
func (f *Flattening) keysOf(m *flatMap) []string {
	if f.Keys == nil || !f.Listed || !f.namesFeatures() {
		return f.Keys
	}
	keys := []string{}
	for _, line := range f.Keys {
		key, ok := strings.CutPrefix(line, m.name()+".")
		if !ok {
			continue
		}
		for _, c := range m.columns {
			if field := strings.Join(c.Field, "."); field != "" {
				key = strings.TrimSuffix(key, "."+field)
			}
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// namesFeatures reports whether what is listed are names of features, not keys.
func (f *Flattening) namesFeatures() bool {
	return slices.ContainsFunc(f.Keys, func(line string) bool {
		return slices.ContainsFunc(f.Columns, func(name string) bool { return strings.HasPrefix(line, name+".") })
	})
}

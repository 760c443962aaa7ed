package features

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
)

// Read takes what `penstock features URI` prints: as JSON, or, with --order, names one a line. Errors begin with the
// line.
func Read(text []byte) (m *pb.DatasetReads, names []string, err error) {
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		m, err = readReport(text)
		return m, nil, err
	}
	names, err = readNames(text)
	return nil, names, err
}

func readNames(text []byte) (names []string, err error) {
	first := map[string]int{}
	line := 0
	for one := range bytes.Lines(text) {
		line++
		name := string(bytes.TrimRight(one, "\r\n"))
		before, double := first[name]
		switch {
		case name == "":
			continue
		case len(name) > maxName:
			return nil, fmt.Errorf("%d: a name of %d bytes; the longest have %d", line, len(name), maxName)
		case !utf8.ValidString(name) || bytes.ContainsFunc(one, control):
			return nil, fmt.Errorf("%d: no text; write the name of a column on each line, or give what "+
				"`penstock features URI --output json` prints", line)
		case double:
			return nil, fmt.Errorf("%d: %s is on line %d already; name each column once", line, name, before)
		}
		first[name] = line
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, errors.New("1: no names; write the name of a column on each line, or give what " +
			"`penstock features URI --output json` prints")
	}
	return names, nil
}

// control reports characters that are in no name and no end of a line.
func control(r rune) bool { return r < ' ' && r != '\r' && r != '\n' && r != '\t' }

func readReport(text []byte) (*pb.DatasetReads, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	line := func(offset int64) int { return 1 + bytes.Count(text[:min(int(offset), len(text))], []byte{'\n'}) }
	var r Report
	if err := d.Decode(&r); err != nil {
		at := d.InputOffset()
		var syntax *json.SyntaxError
		var typ *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			at = syntax.Offset
		case errors.As(err, &typ):
			at = typ.Offset
		}
		return nil, fmt.Errorf("%d: not what `penstock features URI --output json` prints: %w", line(at), err)
	}
	if d.More() || r.ReportDetails == nil {
		return nil, errors.New("1: it has no features: give what `penstock features URI --output json` prints of one dataset")
	}
	m, err := r.reads()
	if err != nil {
		return nil, fmt.Errorf("1: %w", err)
	}
	return m, nil
}

// reads is what a report was made of, but for the columns.
func (r *Report) reads() (*pb.DatasetReads, error) {
	if len(r.Features) > MaxFeatures || len(r.Sets) > MaxSets {
		return nil, fmt.Errorf("%d features and %d sets of them; there are %d and %d at most", len(r.Features),
			len(r.Sets), MaxFeatures, MaxSets)
	}
	m := &pb.DatasetReads{Prefix: r.Prefix, Sessions: r.Sessions, Rows: r.Rows, Bytes: r.Bytes}
	for _, f := range r.Features {
		m.Features = append(m.Features, &pb.FeatureReads{
			Name: f.Name, Sessions: f.Sessions, Rows: f.Rows, Bytes: f.Bytes,
		})
	}
	for i, s := range r.Sets {
		set := &pb.FeatureSet{Sessions: s.Sessions, Rows: s.Rows, Bytes: s.Bytes}
		for _, f := range s.Features {
			if f < 0 || f >= len(r.Features) {
				return nil, fmt.Errorf("sets[%d] has feature %d of %d: print the file again", i, f, len(r.Features))
			}
			set.Features = with(set.GetFeatures(), f)
		}
		if set.GetRows() < 0 {
			return nil, fmt.Errorf("sets[%d] has %d rows: print the file again", i, set.GetRows())
		}
		m.Sets = append(m.Sets, set)
	}
	return m, nil
}

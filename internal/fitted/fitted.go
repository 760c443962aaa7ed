// Package fitted reads and writes fitted files: what transforms asked of the data, such as means and vocabularies.
// client computes and writes one (client/fit), specs name it, and master and worker read it. A file is Parquet that
// other programs read, too. Its columns are
//
//	of, statistic  which statistic the row is of
//	name           which of its values: mean, 0.25, 3/100; empty in a vocabulary
//	id             the place in a vocabulary, from 0
//	int, float, text, bytes  the value, in the one that it belongs to: bytes are texts that are not UTF-8
//	count          how often the value is there, or how many there are
//
// Row groups are of one statistic each, so that reading one reads nothing else. The metadata has the statistics, where
// they lie with the hash of each row group, the spec and the dataset's digest, as JSON under the key penstock.fitted.
// Nothing in a file depends on when or where it was written. Files are not trusted: reading takes bounded memory, and
// says what is wrong.
//
// A Writer and a File belong to one goroutine each.
package fitted

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// The statistics.
const (
	// Moments are the counts of values, nulls, NaNs and infinities, mean, standard deviation, min and max.
	Moments = "moments"
	// Quantiles are values of which a share of all is at most as great.
	Quantiles = "quantiles"
	// MostFrequent is the value with the greatest count; of several the least.
	MostFrequent = "most_frequent"
	// Vocabulary is the distinct values by their counts, the greatest first; equal ones by value, the least first.
	Vocabulary = "vocabulary"
)

// maxQuantiles bounds the quantiles of a statistic.
const maxQuantiles = 1 << 16

// Statistic is one that is asked of a column.
type Statistic struct {
	Of   string `json:"of"` // the column
	Name string `json:"statistic"`
	// Of quantiles, one of both: shares, each from 0 to 1 and as the decimal number that it is written as; or into how
	// many equal parts the borders between them divide the values.
	Shares []float64 `json:"shares,omitempty"`
	Parts  int       `json:"parts,omitempty"`
	// Of a vocabulary: the least count of a value, and how many it has at most; 0: no bound.
	MinCount uint64 `json:"min_count,omitempty"`
	MaxSize  uint64 `json:"max_size,omitempty"`
}

// String identifies the statistic: equal ones have the same, others have not.
func (s Statistic) String() string {
	args := []string{strconv.Quote(s.Of)}
	for _, q := range s.Shares {
		args = append(args, share(q))
	}
	if s.Parts > 0 {
		args = append(args, fmt.Sprintf("parts %d", s.Parts))
	}
	if s.MinCount > 0 {
		args = append(args, fmt.Sprintf("min_count %d", s.MinCount))
	}
	if s.MaxSize > 0 {
		args = append(args, fmt.Sprintf("max_size %d", s.MaxSize))
	}
	return s.Name + "(" + strings.Join(args, ", ") + ")"
}

func share(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }

// Names are what its quantiles are called in the file, in order.
func (s Statistic) Names() []string {
	var names []string
	for _, q := range s.Shares {
		names = append(names, share(q))
	}
	for i := 1; i < s.Parts; i++ {
		names = append(names, fmt.Sprintf("%d/%d", i, s.Parts))
	}
	return names
}

// Check says what is wrong with a statistic of a column of some kind.
func (s Statistic) Check(kind pb.Kind) error {
	numbers := kind >= pb.Kind_BOOL && kind <= pb.Kind_FLOAT64
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("column %s: %s: %s", s.Of, s.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case !numbers && kind != pb.Kind_BINARY:
		return wrong("nothing can be fitted to values of kind %s; cast them first", spec.KindName(kind))
	case !slices.Contains([]string{Moments, Quantiles, MostFrequent, Vocabulary}, s.Name):
		return wrong("there is no such statistic; use moments, quantiles, most_frequent or vocabulary")
	case !numbers && (s.Name == Moments || s.Name == Quantiles):
		return wrong("texts have none; fit it to numbers, or use most_frequent or vocabulary")
	case s.Name != Quantiles && (len(s.Shares) > 0 || s.Parts != 0):
		return wrong("shares and parts are quantiles'; leave them out")
	case s.Name != Vocabulary && (s.MinCount > 0 || s.MaxSize > 0):
		return wrong("min_count and max_size are a vocabulary's; leave them out")
	case s.Name == Quantiles:
		return s.checkQuantiles(wrong)
	}
	return nil
}

func (s Statistic) checkQuantiles(wrong func(string, ...any) error) error {
	switch {
	case (len(s.Shares) > 0) == (s.Parts != 0):
		return wrong("give either shares or the number of parts")
	case s.Parts != 0 && (s.Parts < 2 || s.Parts > maxQuantiles) || len(s.Shares) > maxQuantiles:
		return wrong("give from 2 to %d parts, or up to as many shares", maxQuantiles)
	}
	for _, q := range s.Shares {
		if math.IsNaN(q) || q < 0 || q > 1 {
			return wrong("share %v is not from 0 to 1", q)
		}
	}
	return nil
}

// ValueKind is which of a Value's fields has it.
type ValueKind uint8

// The kinds of values. Bools and ints are Ints, texts and byte strings Texts.
const (
	None ValueKind = iota
	AnInt
	AFloat
	AText
)

// Value is one of a column, or none.
type Value struct {
	Kind  ValueKind
	Int   int64
	Float float64
	Text  []byte
}

// Int is an int or a bool.
func Int(v int64) Value { return Value{Kind: AnInt, Int: v} }

// Float is a float.
func Float(v float64) Value { return Value{Kind: AFloat, Float: v} }

// Text is a text or a byte string.
func Text(v []byte) Value { return Value{Kind: AText, Text: v} }

// String shows the value to people.
func (v Value) String() string {
	switch v.Kind {
	case AnInt:
		return strconv.FormatInt(v.Int, 10)
	case AFloat:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	case AText:
		return strconv.Quote(string(v.Text))
	}
	return "none"
}

// Row is one of a statistic.
type Row struct {
	Name  string
	ID    int64 // -1: none
	Value Value
	Count int64 // -1: none
}

// Info is what a file says of itself as a whole.
type Info struct {
	// Spec is the one that it was fitted by, and Dataset the digest of the files that were read.
	Spec    string `json:"spec"`
	Dataset string `json:"dataset"`
	// Rows is how many were read, in each of the passes.
	Rows int64 `json:"rows"`
	// Functions are the Python functions that were called by their names, with their arguments, and their digests.
	Functions map[string]string `json:"functions,omitempty"`
}

// Entry is a statistic in a file.
type Entry struct {
	Statistic
	Identity string `json:"identity"` // the statistic's String
	Kind     string `json:"kind"`     // of the column
	Rows     int64  `json:"rows"`
	// Error bounds |v - w| / |w| of each value v, where w is the exact one. 0: all are exact.
	Error float64 `json:"error"`
	Group int     `json:"row_group"` // the first
	// Groups are its row groups, one behind the other.
	Groups []Group `json:"row_groups"`
}

// Group is where a row group lies.
type Group struct {
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

const (
	version     = 1
	metadataKey = "penstock.fitted"

	// MaxText bounds a text in a file.
	MaxText = 16 << 20
	// A row group ends at so many rows or bytes of texts.
	groupRows  = 1 << 16
	groupTexts = 8 << 20
	// What is read at once has at most so many bytes.
	maxGroup  = 64 << 20
	maxFooter = 64 << 20
)

// metadata is the JSON.
type metadata struct {
	Version int `json:"version"`
	Info
	Statistics []Entry `json:"statistics"`
}

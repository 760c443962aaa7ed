package csv

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Dialect is how a file spells its records.
type Dialect struct {
	Delimiter byte
	Quote     byte // 0: none
	Escape    byte // 0: none, a quote within quotes is doubled
	Comment   byte // that records left out begin with; 0: none
	Blank     bool // an empty line is a record: of one column
	Nulls     [][]byte
}

// Names of options.
const (
	optionDelimiter = "delimiter"
	optionQuote     = "quote"
	optionEscape    = "escape"
	optionComment   = "comment"
	optionHeader    = "header"
	optionNames     = "names"
	optionNulls     = "nulls"
)

func textValue(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }

func texts(s ...string) *pb.Value {
	list := &pb.Value_List{List: &pb.List{}}
	for _, s := range s {
		list.List.Values = append(list.List.Values, textValue(s))
	}
	return &pb.Value{Kind: list}
}

// Options are those of the format.
func (k Kind) Options() []records.Option {
	return []records.Option{
		{
			Name: optionDelimiter, Doc: "the ASCII character between fields", Default: textValue(k.delimiter),
			Cuts: true,
		},
		{
			Name: optionQuote, Doc: "what protects a field, and is doubled within; empty: nothing does",
			Default: textValue(`"`), Cuts: true,
		},
		{
			Name: optionEscape, Doc: "what has the character behind it stand for itself; empty: nothing does",
			Default: textValue(""), Cuts: true,
		},
		{
			Name: optionComment, Doc: "what lines begin with that are left out; empty: none are",
			Default: textValue(""), Cuts: true,
		},
		{
			Name: optionHeader, Doc: "whether the first record names the columns",
			Default: &pb.Value{Kind: &pb.Value_Bool{Bool: true}}, Cuts: true,
		},
		{Name: optionNames, Doc: "the columns' names, in their order, of files without a header", Default: texts()},
		{Name: optionNulls, Doc: "fields that stand for no value, unless they are quoted texts", Default: texts("")},
	}
}

// settings are a file's options.
type settings struct {
	Dialect
	header bool
	said   bool // whether there is a header
	names  []string
}

func (k Kind) settings(f *records.Front) (s settings, err error) {
	values := map[string]*pb.Value{}
	for _, o := range k.Options() {
		if values[o.Name], err = f.Option(o); err != nil {
			return s, err
		}
	}
	for _, of := range []struct {
		name string
		to   *byte
	}{
		{optionDelimiter, &s.Delimiter},
		{optionQuote, &s.Quote},
		{optionEscape, &s.Escape},
		{optionComment, &s.Comment},
	} {
		text := values[of.name].GetText()
		switch {
		case len(text) == 1 && text[0] < 0x80 && text != "\n" && text != "\r":
			*of.to = text[0]
		case text != "" || of.name == optionDelimiter:
			return s, fmt.Errorf("dataset.format.%s: %q is not one ASCII character other than a line end",
				of.name, text)
		}
	}
	if err := s.apart(); err != nil {
		return s, err
	}
	if s.names, err = listed(optionNames, values[optionNames]); err != nil {
		return s, err
	}
	nulls, err := listed(optionNulls, values[optionNulls])
	if err != nil {
		return s, err
	}
	for _, null := range nulls {
		s.Nulls = append(s.Nulls, []byte(null))
	}
	_, s.said = f.How.GetOptions()[optionHeader]
	if s.header = values[optionHeader].GetBool(); s.header && len(s.names) > 0 {
		return s, errors.New("dataset.format.names: the header names the columns; say header: false if there is none")
	}
	return s, nil
}

// apart checks that no character means two things.
func (d *Dialect) apart() error {
	var seen []byte
	for _, c := range []byte{d.Delimiter, d.Quote, d.Escape, d.Comment} {
		if c != 0 && bytes.IndexByte(seen, c) >= 0 {
			return fmt.Errorf("dataset.format: %q is two of delimiter, quote, escape and comment", c)
		}
		seen = append(seen, c)
	}
	return nil
}

func listed(name string, v *pb.Value) (out []string, err error) {
	for i, e := range spec.Elements(v) {
		text, ok := e.GetKind().(*pb.Value_Text)
		if !ok {
			return nil, fmt.Errorf("dataset.format.%s[%d]: want a text; put it into quotes", name, i)
		}
		out = append(out, text.Text)
	}
	return out, nil
}

// IsNull reports whether a field stands for no value.
func (d *Dialect) IsNull(text []byte) bool {
	for _, null := range d.Nulls {
		if bytes.Equal(text, null) {
			return true
		}
	}
	return false
}

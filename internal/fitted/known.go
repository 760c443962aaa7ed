package fitted

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Asked is what a file has in which a spec finds a statistic.
func Asked(s spec.Statistic) Statistic {
	out := Statistic{Of: s.Of, Name: s.Name}
	switch s.Name {
	case spec.Mean, spec.Std, spec.Min, spec.Max:
		out.Name = Moments
	case spec.Median:
		out.Name, out.Shares = Quantiles, []float64{0.5}
	case spec.Quantile:
		share, _ := spec.Number(s.Arg)
		out.Name, out.Shares = Quantiles, []float64{share}
	case spec.Quantiles:
		out.Name, out.Parts = Quantiles, int(s.Arg.GetInt())
	case spec.Vocabulary:
		out.Name = Vocabulary
		out.MinCount, out.MaxSize = uint64(s.Args["min_count"].GetInt()), uint64(s.Args["max_size"].GetInt())
	}
	return out
}

// Known are a file's statistics, as specs ask for them. It belongs to one goroutine.
type Known struct {
	*File
	// Table makes a table of a vocabulary, whose rows are in its order.
	Table func(*Entry) (*pb.Table, error)
	ctx   context.Context //nolint:containedctx // of the resolving that it is for
	rows  map[string][]Row
}

// Known is the file for one resolving of a spec.
func (f *File) Known(ctx context.Context, table func(*Entry) (*pb.Table, error)) *Known {
	return &Known{File: f, Table: table, ctx: ctx, rows: map[string][]Row{}}
}

// Fitted implements spec.Fitted.
func (k *Known) Fitted(s spec.Statistic) (*pb.Value, *pb.Table, error) {
	asked := Asked(s)
	e := k.Find(asked)
	if e == nil {
		return nil, nil, fmt.Errorf("%w: %s has no %s%s", spec.ErrNotFitted, k.name, s, k.instead(asked))
	}
	if asked.Name == Vocabulary {
		t, err := k.Table(e)
		return nil, t, err
	}
	rows, ok := k.rows[e.Identity]
	if !ok {
		var err error
		if rows, err = k.Rows(k.ctx, e, maxQuantiles); err != nil {
			return nil, nil, err
		}
		k.rows[e.Identity] = rows
	}
	v, err := k.value(s, rows)
	if err != nil {
		err = fmt.Errorf("%s: %w", s, err)
	}
	if e.Kind == spec.KindName(pb.Kind_BOOL) && err == nil {
		v = &pb.Value{Kind: &pb.Value_Bool{Bool: v.GetInt() != 0}}
	}
	return v, nil, err
}

// instead says what else there is of the same values.
func (k *Known) instead(asked Statistic) string {
	var all []string
	for _, e := range k.Entries {
		if e.Of == asked.Of {
			all = append(all, e.Identity)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ", but " + strings.Join(all, ", ")
}

// value takes the value of a parameter out of a statistic's rows.
func (k *Known) value(s spec.Statistic, rows []Row) (*pb.Value, error) {
	named := map[string]string{spec.Mean: "mean", spec.Std: "std", spec.Min: "min", spec.Max: "max"}[s.Name]
	var values []*pb.Value
	for _, r := range rows {
		if named != "" && r.Name != named {
			continue
		}
		if r.Value.Kind == AText && !utf8.Valid(r.Value.Text) {
			return nil, fmt.Errorf("in %s it is %v, which is no text in UTF-8", k.name, r.Value)
		}
		v := valueOf(r.Value)
		if v == nil {
			return nil, fmt.Errorf("there is none in %s: %s", k.name, whyNone(rows))
		}
		values = append(values, v)
	}
	switch {
	case s.Name == spec.Quantiles && len(values) == int(s.Arg.GetInt())-1:
		return spec.ListOf(values), nil
	case s.Name == spec.Quantiles || len(values) != 1:
		return nil, fmt.Errorf("there is none in %s: %s", k.name, whyNone(rows))
	}
	return values[0], nil
}

// whyNone says why a statistic has no value.
func whyNone(rows []Row) string {
	for _, r := range rows {
		if r.Name == "infinite" && r.Count > 0 {
			return fmt.Sprintf("%d of the values are infinite; clamp them, or what they are made of, before", r.Count)
		}
	}
	return "all values are null or NaN, or the filter keeps no row; mend the filter, leave the column out, or fill " +
		"it by a number"
}

func valueOf(v Value) *pb.Value {
	switch v.Kind {
	case AnInt:
		return &pb.Value{Kind: &pb.Value_Int{Int: v.Int}}
	case AFloat:
		return &pb.Value{Kind: &pb.Value_Float{Float: v.Float}}
	case AText:
		return &pb.Value{Kind: &pb.Value_Text{Text: string(v.Text)}}
	}
	return nil
}

package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

// Statistics that parameters may ask for. All are of the values of a feature, those of all rows together: nulls and NaN
// left out, the elements of lists one by one.
const (
	Mean         = "mean"
	Std          = "std" // of the population
	Min          = "min"
	Max          = "max"
	Median       = "median"        // the quantile of 0.5
	Quantile     = "quantile"      // the least value that at least that share of the values does not exceed
	Quantiles    = "quantiles"     // the borders between so many parts of equal size, each value once
	MostFrequent = "most_frequent" // of equally frequent ones the least
	Vocabulary   = "vocabulary"    // the values, the most frequent first, of equally frequent ones the least
)

// VocabularyOp is what a transform with a fitted vocabulary is in a program: a step that finds values in a table.
const VocabularyOp = "vocabulary_id"

// FitWord is what a parameter says that only asks to be fitted: `vocabulary: fit`.
const FitWord = "fit"

// maxQuantiles bounds how many parts quantiles may have.
const maxQuantiles = 1 << 16

// Fitting is what an op asks of the data where a parameter By says `fit`.
type Fitting struct {
	By string
	// Params are the parameters that are then fitted, and by which statistics.
	Params map[string]string
	// With are parameters that a statistic depends on.
	With []string
}

// Statistic is what a parameter asks of the data.
type Statistic struct {
	Name string // Quantiles
	Of   string // what it is computed of, which is the same text wherever the same is computed: "log1p(int_0)"
	// Arg is what it is asked for with, and Args what it depends on besides, by name.
	Arg  *pb.Value
	Args map[string]*pb.Value
}

// String is the statistic's name in a fitted file: "quantiles(log1p(int_0), 100)".
func (s Statistic) String() string {
	var b strings.Builder
	b.WriteString(s.Name + "(" + s.Of)
	if s.Arg != nil {
		b.WriteString(", " + valueText(s.Arg))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Args)) {
		b.WriteString(", " + name + "=" + valueText(s.Args[name]))
	}
	return b.String() + ")"
}

// Fitted are statistics of the data.
type Fitted interface {
	// Fitted returns a statistic as the value of a parameter, or as the table whose rows are in the order of the
	// statistic. The error says why there is none; ErrNotFitted: nobody has computed it.
	Fitted(s Statistic) (*pb.Value, *pb.Table, error)
}

// ErrNotFitted says that a statistic has not been computed.
var ErrNotFitted = errors.New("not fitted")

// fits are the parameters of a transform that is applied to one feature.
type fits struct {
	params map[string]*pb.Value
	asked  map[string]Statistic // those of them that the data say
	table  *pb.Table            // that one of them is
}

// fits returns the parameters for one feature. ErrNotFitted: they are not known yet, which was noted.
func (a *application) fits(f *feature) (fits, error) {
	if !a.asking {
		return fits{params: a.transform.GetParams()}, nil
	}
	asked, err := a.asked()
	if err != nil {
		return fits{}, err
	}
	params := maps.Clone(a.transform.GetParams())
	if by := a.catalog.Fitting(a.transform.GetOp()).By; asked[by].Name == "" {
		delete(params, by) // what it asked for is there
	}
	out := fits{params: params, asked: asked}
	var missing []Statistic
	var why error
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		s := asked[name]
		s.Of = a.formula(f)
		asked[name] = s
		if err := s.mistake(f.typ); err != nil {
			return fits{}, fmt.Errorf("%s: %w", name, err)
		}
		v, t, err := a.statistic(s)
		switch {
		case errors.Is(err, ErrNotFitted):
			missing, why = append(missing, s), err
		case err != nil:
			return fits{}, fmt.Errorf("%s: %w", name, err)
		case t != nil:
			out.table = t
		default:
			params[name] = v
		}
	}
	if len(missing) > 0 {
		return fits{}, a.lacks(f, missing, why)
	}
	return out, nil
}

// asks reports whether a parameter of a transform asks the data for something.
func (r *resolver) asks(t *pb.Transform) bool {
	for _, v := range t.GetParams() {
		if v.GetFit() != nil {
			return true
		}
	}
	by := r.catalog.Fitting(t.GetOp()).By
	return by != "" && t.GetParams()[by] != nil
}

// fitsNothing refuses what the data should say of several features at once.
func (a *application) fitsNothing() error {
	if !a.asking {
		return nil
	}
	asked, err := a.asked()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		return fmt.Errorf("%s: %s takes several features at once, and is not fitted to one; want a value", name,
			a.transform.GetOp())
	}
	return err
}

// asked are the statistics that the transform's parameters ask for, by parameter.
func (a *application) asked() (map[string]Statistic, error) {
	out := map[string]Statistic{}
	for name, v := range a.transform.GetParams() {
		if fit := v.GetFit(); fit.GetStatistic() == Vocabulary {
			return nil, fmt.Errorf("%s: a vocabulary is no value; map_id takes one, as in `vocabulary: %s`", name, FitWord)
		} else if fit != nil {
			out[name] = Statistic{Name: fit.GetStatistic(), Arg: fit.GetArg()}
		}
	}
	fitting := a.catalog.Fitting(a.transform.GetOp())
	by := a.transform.GetParams()[fitting.By]
	if fitting.By == "" || by == nil {
		return out, nil
	}
	if by.GetText() != FitWord {
		return nil, fmt.Errorf("%s: want %s, found %s", fitting.By, FitWord, valueText(by))
	}
	for name, statistic := range fitting.Params {
		if name != fitting.By && a.transform.GetParams()[name] != nil {
			return nil, fmt.Errorf("%s: %s: %s asks for %s, too; leave one of them out", name, fitting.By, FitWord,
				name)
		}
		s := Statistic{Name: statistic, Args: map[string]*pb.Value{}}
		for _, with := range fitting.With {
			if v := a.transform.GetParams()[with]; v != nil {
				s.Args[with] = v
			}
		}
		out[name] = s
	}
	return out, nil
}

// lacks notes what a feature's transform has to wait for, or says that it is not there.
func (a *application) lacks(f *feature, missing []Statistic, why error) error {
	if a.pass != nil {
		a.pass.ask(f, a.path, missing)
		return ErrNotFitted
	}
	if a.known != nil {
		what := strings.TrimPrefix(why.Error(), ErrNotFitted.Error()+": ")
		return fmt.Errorf("%s; compute it with `penstock fit` again", what)
	}
	return fmt.Errorf("%s is not fitted; compute it with `penstock fit`, and name the file that it writes by `fitted`",
		missing[0])
}

// statistic looks a statistic up in what is known.
func (r *resolver) statistic(s Statistic) (*pb.Value, *pb.Table, error) {
	if r.known == nil {
		return nil, nil, ErrNotFitted
	}
	return r.known.Fitted(s)
}

// mistake is what is wrong with a statistic of a feature of some type.
func (s Statistic) mistake(t Type) error {
	numbers := t.Kind >= pb.Kind_INT32 && t.Kind <= pb.Kind_FLOAT64
	ids := t.Kind == pb.Kind_INT32 || t.Kind == pb.Kind_INT64 || t.Kind == pb.Kind_BINARY
	if t.List && (t.Kind == pb.Kind_BOOL || t.Kind == pb.Kind_FLOAT64) || t.Nested > 0 {
		return fmt.Errorf("want scalars, or lists of ints, float32 or texts, to fit to, found %v; cast numbers to "+
			"float32 before", t)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Args)) {
		if s.Args[name].GetInt() < 1 {
			return fmt.Errorf("%s: want a positive int, found %s", name, valueText(s.Args[name]))
		}
	}
	if s.Arg != nil && s.Name != Quantile && s.Name != Quantiles {
		return fmt.Errorf("want {%s: %s}, found {%[2]s: %s}", FitWord, s.Name, valueText(s.Arg))
	}
	switch s.Name {
	case Mean, Std, Min, Max, Median:
		if !numbers {
			return fmt.Errorf("want numbers for the %s, found %v; cast makes them", s.Name, t)
		}
	case Quantile:
		if x, ok := Number(s.Arg); !ok || x < 0 || x > 1 || !numbers {
			return fmt.Errorf("want {quantile: 0.01}, of numbers and from 0 to 1, found {quantile: %s} of %v",
				valueText(s.Arg), t)
		}
	case Quantiles:
		if n := s.Arg.GetInt(); n < 2 || n > maxQuantiles || !numbers {
			return fmt.Errorf("want {quantiles: 100}, of numbers and from 2 to %d, found {quantiles: %s} of %v",
				maxQuantiles, valueText(s.Arg), t)
		}
	case MostFrequent:
		if !numbers && !ids && t.Kind != pb.Kind_BOOL {
			return fmt.Errorf("want numbers, texts or bools for the most frequent value, found %v", t)
		}
	case Vocabulary:
		if !ids {
			return fmt.Errorf("want ints or texts for a vocabulary, found %v; cast makes them", t)
		}
	default:
		return errors.New(noStatistic(s.Name))
	}
	return nil
}

// noStatistic is what is wrong with the name of a statistic that parameters ask for; "": nothing.
func noStatistic(name string) string {
	known := []string{Mean, Std, Min, Max, Median, Quantile, Quantiles, MostFrequent}
	if name == Vocabulary || slices.Contains(known, name) { // of a vocabulary the op says more
		return ""
	}
	return fmt.Sprintf("no statistic %.40q%s; there are %s", name, hint(natural.Nearest(name, slices.Values(known))),
		strings.Join(known, ", "))
}

// maxFormula bounds what is written of a feature, in bytes: longer ones end in a hash.
const maxFormula = 512

// vocabulary is the signature of the step that a transform with a fitted vocabulary becomes.
func (a *application) vocabulary(f *feature, with fits) (Signature, error) {
	buckets := &pb.Value{Kind: &pb.Value_Int{Int: 1}}
	for _, name := range slices.Sorted(maps.Keys(with.params)) {
		switch _, asked := with.asked[name]; {
		case name == "buckets":
			buckets = with.params[name]
		case !asked && with.asked[Vocabulary].Args[name] == nil:
			return Signature{}, fmt.Errorf("%s: with %s: %s the keys are those of the data; leave it out", name,
				Vocabulary, FitWord)
		}
	}
	return a.catalog.Check(VocabularyOp, map[string]*pb.Value{"buckets": buckets}, []Type{f.typ})
}

// formula is how a feature is made of columns, in words that say the same wherever the same is made.
func (r *resolver) formula(f *feature) string {
	switch {
	case f.formula != "":
	case f.source != nil:
		f.formula = expr.ColumnName(f.name)
	default:
		f.formula = shortened(r.stepFormula(f.by) + f.by.resultFormula(f))
	}
	return f.formula
}

// stepFormula is what a step does.
func (r *resolver) stepFormula(st *step) string {
	var parts []string
	for _, in := range st.in {
		parts = append(parts, r.formula(in))
	}
	params := maps.Clone(st.proto.GetParams())
	name := st.proto.GetOp()
	if f := st.proto.GetPython(); f != nil {
		params = f.GetArgs()
		name += " " + cmp.Or(f.GetCall(), f.GetName())
		if all := r.code.GetFunctions(); f.GetCall() == "" && int(f.GetIndex()) < len(all) {
			name += " " + hex.EncodeToString(all[f.GetIndex()].GetDigest()[:8])
		}
	} else if v := st.proto.GetVersion(); v > 1 {
		name += fmt.Sprintf(".%d", v)
	}
	said := map[string]string{}
	for name, v := range params {
		said[name] = valueText(v)
	}
	for name, s := range st.asked {
		said[name] = s.String()
	}
	if by := namesBy(st.transform); by != "" { // the inputs stand in the expression
		parts = nil
		said[by] = valueText(renamed(params[by], st.in, r.operand))
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		parts = append(parts, name+"="+said[name])
	}
	if st.table != nil && len(st.asked) == 0 {
		parts = append(parts, "table="+st.table.proto.GetFile().GetUri())
	}
	if st.column != nil {
		parts = append(parts, "column="+expr.ColumnName(st.column.GetName()))
	}
	text := name + "(" + strings.Join(parts, ", ") + ")"
	if st.behind != nil {
		text += " behind " + r.stepFormula(st.behind)
	}
	return shortened(text)
}

// operand is what stands for a feature in an expression.
func (r *resolver) operand(f *feature) string {
	if f.source != nil {
		return f.name // which the expression quotes
	}
	return r.formula(f)
}

// resultFormula is which of the step's results a feature is.
func (st *step) resultFormula(f *feature) string {
	if len(st.outs) == 1 {
		return ""
	}
	return fmt.Sprintf("[%d]", slices.Index(st.outs, f))
}

func shortened(text string) string {
	if len(text) <= maxFormula {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return strings.ToValidUTF8(text[:maxFormula-40], "") + "... " + hex.EncodeToString(sum[:16])
}

// valueText writes a value as a spec has it.
func valueText(v *pb.Value) string {
	if v.GetKind() == nil {
		return "nothing"
	}
	return newFormatter().value(v)
}

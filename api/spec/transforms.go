package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// braces stand in `out` for the input's name.
const braces = "{}"

// transform adds the steps of one transform. A mistake leaves its results unknown, so that each is reported once.
func (r *resolver) transform(path string, t *pb.Transform) {
	if t.GetOp() == FunctionOp {
		r.function(path, t)
		return
	}
	if t.GetPython() != nil || len(t.GetOuts()) > 0 {
		r.problems.add(path, "found a function of Python, or its results, with op %.40q; want op %s", t.GetOp(),
			FunctionOp)
	}
	if t.GetOp() == LookupOp {
		r.lookup(path, t)
		return
	}
	if t.GetOp() == "" {
		r.problems.add(path+".op", "found nothing; want the name of an op (`penstock ops` lists them)")
	}
	perInput, known := r.catalog.Maps(t.GetOp())
	if !known && t.GetOp() != "" {
		near := r.nearest(t.GetOp(), slices.Values(r.catalog.Names()))
		r.problems.add(path+".op", "no op %s%s", t.GetOp(), cmp.Or(hint(near), "; `penstock ops` lists them"))
	}
	a := &application{resolver: r, path: path, transform: t, signatures: map[Type]checked{}, asking: r.asks(t)}
	if param := namesBy(t); param != "" && known {
		a.derive(param)
		return
	}
	before := len(r.problems)
	in := r.expand(path+".in", t.GetIn())
	complete := len(r.problems) == before
	switch {
	case !known:
		a.unknown(in)
	case perInput:
		a.perInput(in)
	default:
		a.together(in, complete)
	}
	for _, message := range a.mistakes.messages {
		r.problems.add(path, "%s (%s)", message, few(a.mistakes.names[message]))
	}
}

// application is a transform that is being resolved.
type application struct {
	*resolver
	path      string
	transform *pb.Transform
	// signatures that the catalog gave by the type of the one input
	signatures map[Type]checked
	mistakes   grouped
	asking     bool     // the data for something, see fits
	replaces   *feature // by a result of its name, of one that is not applied to each input by itself
	lack       string   // the first column that the inputs lack
}

type checked struct {
	signature Signature
	err       error
}

// unknown defines the results of what cannot be applied.
func (a *application) unknown(in []*feature) {
	out := a.transform.GetOut()
	if out != "" && !strings.Contains(out, braces) {
		a.defineUnknown(out)
		return
	}
	for _, f := range in {
		a.defineUnknown(outName(out, f))
	}
}

func (a *application) defineUnknown(name string) {
	if name != "" {
		a.derived[name] = &feature{name: name, at: a.path, lacks: a.lack}
	}
}

func outName(out string, f *feature) string {
	if out == "" {
		return f.name
	}
	return strings.ReplaceAll(out, braces, f.name)
}

// perInput applies an op to each input by itself.
func (a *application) perInput(in []*feature) {
	out := a.transform.GetOut()
	if len(a.transform.GetIn()) == 0 {
		a.problems.add(a.path+".in", "found nothing; want the features that %s is applied to", a.transform.GetOp())
	}
	if len(in) > 1 && out != "" && !strings.Contains(out, braces) {
		a.problems.add(a.path+".out",
			"found %s for %d results (%s); want %s in it for the input's name (%s%s), or no out to replace the inputs",
			out, len(in), few(names(in)), braces, braces, "_"+a.transform.GetOp())
		a.unknown(in)
		return
	}
	a.checkOut(out)
	// Results get their names after all inputs have been looked at, so that no input is the result of another.
	results := make([]*feature, len(in))
	for i, f := range in {
		results[i] = &feature{name: outName(out, f), at: a.path, lacks: f.lacks}
		if f.unknown() {
			continue
		}
		with, err := a.fits(f)
		if errors.Is(err, ErrNotFitted) {
			continue
		}
		var sig Signature
		switch {
		case err != nil:
		case with.table != nil:
			sig, err = a.vocabulary(f, with)
		default:
			sig, err = a.signature(f.typ, with)
		}
		if err == nil && sig.SelectsRows && out != "" {
			err = errors.New("selects rows and has no result; leave out `out`")
		}
		if err == nil {
			err = a.comesTooLate(sig)
		}
		if err == nil {
			err = sig.countsIn(f)
		}
		if err != nil {
			a.mistakes.add(f.name, err.Error())
			continue
		}
		results[i] = a.step(sig, with, outName(out, f), f)
	}
	for i, f := range in {
		if results[i] != nil {
			a.define(results[i], f)
		}
	}
}

// comesTooLate refuses ops that choose rows of the files, where there are other ones.
func (a *application) comesTooLate(sig Signature) error {
	if !sig.SelectsRows || a.barrier == "" {
		return nil
	}
	return fmt.Errorf("%s chooses rows of the files, and %s decides which rows there are; put %s before it",
		a.transform.GetOp(), a.barrier, a.transform.GetOp())
}

// countsIn refuses timestamps that count in another unit than the op says.
func (s Signature) countsIn(f *feature) error {
	unit, has := s.Params["unit"]
	counts, isTimestamp := strings.CutPrefix(f.meaning, "timestamp[")
	if counts = strings.TrimSuffix(counts, "]"); !has || !isTimestamp || counts == unit.GetText() {
		return nil
	}
	return fmt.Errorf("it counts %s, and unit is %s; want unit: %s", counts, unit.GetText(), counts)
}

// signature asks the catalog once for each type.
func (a *application) signature(t Type, with fits) (Signature, error) {
	if len(with.asked) > 0 {
		return a.catalog.Check(a.transform.GetOp(), with.params, []Type{t})
	}
	c, ok := a.signatures[t]
	if !ok {
		c.signature, c.err = a.catalog.Check(a.transform.GetOp(), a.transform.GetParams(), []Type{t})
		a.signatures[t] = c
	}
	return c.signature, c.err
}

// together applies an op to all inputs at once, if they are complete.
func (a *application) together(in []*feature, complete bool) {
	out := a.transform.GetOut()
	types := make([]Type, len(in))
	for i, f := range in {
		types[i] = f.typ
		complete = complete && !f.unknown()
		a.lack = cmp.Or(a.lack, f.lacks)
	}
	if !complete {
		a.defineUnknown(out)
		return
	}
	err := a.fitsNothing()
	var sig Signature
	if err == nil {
		sig, err = a.catalog.Check(a.transform.GetOp(), a.transform.GetParams(), types)
	}
	if err == nil {
		err = a.comesTooLate(sig)
	}
	repeated := a.repeated()
	switch {
	case err != nil && repeated != "":
		a.problems.add(a.path, "%v (%s)", err, repeated)
	case err != nil:
		a.problems.add(a.path, "%v", err)
	case sig.SelectsRows && out != "":
		a.problems.add(a.path+".out", "found %s, but %s selects rows and has no result; leave out `out`",
			out, a.transform.GetOp())
	case !sig.SelectsRows && out == "":
		a.problems.add(a.path+".out", "found nothing; want a name for the result of %s", a.transform.GetOp())
	case strings.Contains(out, braces):
		a.problems.add(a.path+".out", "found %s; %s makes one result of all its inputs, so %s has no meaning",
			out, a.transform.GetOp(), braces)
	case repeated != "":
		a.problems.add(a.path+".in", "%s", repeated)
	default:
		a.checkOut(out)
		if f := a.step(sig, fits{}, out, in...); f != nil {
			a.define(f, a.replaces)
		}
		return
	}
	a.defineUnknown(out)
}

// repeated says which feature `in` names more than once.
func (a *application) repeated() string {
	counts := map[string]int{}
	for _, name := range a.transform.GetIn() {
		if counts[name]++; counts[name] == 2 {
			return fmt.Sprintf(
				"in names %s more than once, and a feature counts once: make another of it before, as by {op: cast, "+
					"in: %s, to: ..., out: %s_again}", name, name, name)
		}
	}
	return ""
}

func (a *application) checkOut(out string) {
	if isGlob(out) {
		a.problems.add(a.path+".out", "found %s; want a name, with %s for the input's name and without *, ?, [ and \\",
			out, braces)
	}
}

// step appends a step and returns its result, or nil if it selects rows.
func (a *application) step(sig Signature, with fits, name string, in ...*feature) *feature {
	op := a.transform.GetOp()
	if with.table != nil {
		op = VocabularyOp
	}
	st := &step{in: in, transform: a.transform, asked: with.asked, behind: a.behind, proto: &pb.Step{
		Op: op, Version: sig.Version, Params: sig.Params, Name: name, At: a.path,
	}}
	if with.table != nil {
		st.table = a.joined(with.table)
	}
	a.steps = append(a.steps, st)
	if sig.SelectsRows {
		return nil
	}
	out := &feature{name: name, typ: sig.Out, at: a.path}
	if sig.Keeps && len(in) > 0 {
		out.meaning, out.text = in[0].meaning, in[0].text && sig.Out.Kind == pb.Kind_BINARY
		out.date = in[0].date
	}
	st.makes(out)
	return out
}

// define puts a result under its name, where it replaces the input of that name and must clash with nothing else.
func (a *application) define(result, in *feature) {
	if in == nil || in.name != result.name {
		a.checkNew(a.path+".out", result.name)
	}
	if a.keeps(a.path, a.transform, result, in) {
		a.derived[result.name] = result
	}
}

// checkNew refuses a name that a feature bears.
func (r *resolver) checkNew(path, name string) {
	if old, err := r.present(name); old != nil || err != nil {
		what := "is a column of the dataset"
		if old != nil && old.at != "" {
			what = "is made by " + old.at
		}
		r.problems.add(path, "%s %s already; choose another name", name, what)
	}
}

func names(features []*feature) []string {
	all := make([]string, len(features))
	for i, f := range features {
		all[i] = f.name
	}
	return all
}

// typed writes a feature as it stands in messages.
func typed(f *feature) string { return fmt.Sprintf("%s is %v", f.name, f.typ) }

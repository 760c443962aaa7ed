package spec

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/times"
)

// unit is what a feature's integers count, "" unless they are times.
func (f *feature) unit() times.Unit {
	if f == nil || f.typ.Kind != pb.Kind_INT32 && f.typ.Kind != pb.Kind_INT64 {
		return ""
	}
	if f.date {
		return times.Days
	}
	unit, ok := strings.CutPrefix(f.meaning, "timestamp[")
	if unit = strings.TrimSuffix(unit, "]"); !ok || lengthOf(unit) == 0 {
		return ""
	}
	return times.Unit(unit)
}

// timedFilter is the filter with numbers in place of times as text, as programs have it, too.
func (r *resolver) timedFilter(n *expr.Node) (*expr.Node, error) {
	timed, text, err := timed(n, func(column string) times.Unit {
		f, _ := r.source(column) // whose mistake the check of the filter reports
		return f.unit()
	})
	r.timed = text
	return timed, err
}

// timed has numbers in place of times in a transform's expression over features in the order of their names.
func (a *application) timed(param string, n *expr.Node, in []*feature) (ok bool) {
	names := n.Columns()
	_, text, err := timed(n, func(column string) times.Unit { return in[slices.Index(names, column)].unit() })
	if err != nil {
		a.problems.add(a.path+"."+param, "%v", err)
		return false
	}
	if text != "" {
		a.transform = proto.CloneOf(a.transform)
		a.transform.Params[param] = &pb.Value{Kind: &pb.Value_Text{Text: text}}
	}
	return true
}

// timed is Node.Timed, and its text if that is another one.
func timed(n *expr.Node, unitOf func(column string) times.Unit) (_ *expr.Node, text string, err error) {
	other, err := n.Timed(unitOf)
	if err != nil {
		return nil, "", err
	}
	if text = other.String(); text == n.String() {
		return n, "", nil
	}
	_, err = expr.Parse(text) // numbers may be longer
	return other, text, err
}

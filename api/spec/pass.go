package spec

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Pass is one reading of a dataset for statistics that a spec asks for.
type Pass struct {
	// Spec has the columns of Asked as its features, all in tensors of layout PASS_LAYOUT.
	Spec  *pb.Spec
	Asked []Asked
}

// Asked is a feature of a Pass, and what is asked of it.
type Asked struct {
	Column     string
	Type       Type
	Text       bool // not bytes
	Statistics []Statistic
	At         string // the first transform that asks
}

// NextPass returns what has to be read to fit what a spec asks for and Given.Fitted lacks: all statistics that depend
// on none that is missing. What depends on these takes another pass. It is empty if nothing is missing.
func NextPass(s *pb.Spec, given Given) (*Pass, error) {
	r := newResolver(s, given)
	r.pass = &pass{}
	r.session(s)
	r.transforms(s)
	r.filter(s.GetFilter())
	r.features(s)
	if err := r.problems.err(); err != nil {
		return nil, err
	}
	return r.nextPass(s), nil
}

// pass gathers what is asked of which features.
type pass struct {
	asked []*askedFeature
}

type askedFeature struct {
	*feature
	at         string
	statistics []Statistic
}

func (p *pass) ask(f *feature, at string, statistics []Statistic) {
	i := slices.IndexFunc(p.asked, func(a *askedFeature) bool { return a.feature == f })
	if i < 0 {
		i = len(p.asked)
		p.asked = append(p.asked, &askedFeature{feature: f, at: at})
	}
	for _, s := range statistics {
		known := func(o Statistic) bool { return o.String() == s.String() }
		if !slices.ContainsFunc(p.asked[i].statistics, known) {
			p.asked[i].statistics = append(p.asked[i].statistics, s)
		}
	}
}

// nextPass makes the spec of a pass: the dataset's rows, as the spec chooses them, and the steps that what is asked for
// needs. Each result has a name of its own there, since transforms may give several the same one, in turns.
func (r *resolver) nextPass(s *pb.Spec) *Pass {
	out := &Pass{Spec: &pb.Spec{
		Dataset: s.GetDataset(), Filter: s.GetFilter(), Seed: s.GetSeed(), OnError: s.GetOnError(),
		Code: s.GetCode(), Python: s.GetPython(), Fitted: s.GetFitted(),
		Epochs: 1, LastBatch: pb.LastBatch_UNEVEN, BatchSize: passBatch,
	}}
	for _, f := range r.pass.asked {
		f.needed = true
	}
	for _, st := range slices.Backward(r.steps) {
		if st.needed() {
			for _, f := range st.in {
				f.needed = true
			}
		}
	}
	names := map[*feature]string{}
	nameOf := func(f *feature) string {
		if f.source != nil {
			return f.name
		}
		return names[f]
	}
	for _, st := range r.steps {
		if !st.needed() {
			continue
		}
		for _, f := range st.outs {
			names[f] = r.fresh(len(names))
		}
		out.Spec.Transforms = append(out.Spec.Transforms, st.again(nameOf))
	}
	for _, f := range r.pass.asked {
		out.Asked = append(out.Asked, Asked{nameOf(f.feature), f.typ, f.text, f.statistics, f.at})
	}
	return out
}

// passBatch is how many rows come at once.
const passBatch = 1 << 16

// fresh is a name that nothing bears.
func (r *resolver) fresh(n int) string {
	for name := fmt.Sprintf("fitted_%d", n); ; name = "_" + name {
		if old, err := r.find(name); old == nil && err == nil {
			return name
		}
	}
}

// again is a transform that adds the step under other names.
func (st *step) again(nameOf func(*feature) string) *pb.Transform {
	t := proto.CloneOf(st.transform)
	t.In, t.Out = nil, ""
	for _, f := range st.in {
		t.In = append(t.In, nameOf(f))
	}
	if t.GetPython() == nil && len(st.outs) == 1 {
		t.Out = nameOf(st.outs[0])
		return t
	}
	for i, f := range st.outs {
		t.Outs[i].Name = nameOf(f)
	}
	return t
}

package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// DefaultEnvironment is the environment of the workers that functions run in where a spec names none.
const DefaultEnvironment = "default"

// Pin returns a copy of a spec of functions by name that says which ones they are: those that an environment has, which
// was asked for NamedCalls. What the spec leaves out of a function is as its mark says. Its errors are Problems.
func Pin(s *pb.Spec, has *pb.CallsReply) (*pb.Spec, error) {
	var n named
	var problems Problems
	out := proto.CloneOf(s)
	calls := NamedCalls(s)
	if !slices.Equal(namesOf(has.GetIdentity()), calls) || len(has.GetFunctions()) != len(calls) {
		problems.add("", "a worker was asked for %s, and told of %s, with %d marks; run workers of the masters' "+
			"release", few(calls), few(namesOf(has.GetIdentity())), len(has.GetFunctions()))
		return nil, problems
	}
	for i, t := range out.GetTransforms() {
		if t.GetPython().GetCall() == "" {
			continue
		}
		mark := has.GetFunctions()[n.number(t.GetPython())]
		p := pinning{problems: &problems, path: fmt.Sprintf("transforms[%d]", i), transform: t, mark: mark}
		p.check()
		fillCall(t.GetPython(), mark.GetFunction())
	}
	if c := s.GetCode(); c != nil {
		for _, other := range Diff(&pb.Spec{Code: c}, &pb.Spec{Code: has.GetIdentity()}) {
			problems.add("code", "the workers have another one: %s; leave `code` out to take theirs", other)
		}
	}
	checkFunctions(&problems, s, has.GetIdentity())
	out.Code = has.GetIdentity()
	return out, problems.err()
}

// fillCall sets what a function by name leaves out.
func fillCall(f, from *pb.Function) {
	f.Style = cmp.Or(f.GetStyle(), from.GetStyle())
	f.Memory = cmp.Or(f.GetMemory(), from.GetMemory())
	f.Threads = cmp.Or(f.GetThreads(), from.GetThreads())
	f.TimeoutMs = cmp.Or(f.GetTimeoutMs(), from.GetTimeoutMs())
	f.Most = cmp.Or(f.GetMost(), from.GetMost())
	f.Rng = f.GetRng() || from.GetRng()
	f.Deterministic = f.GetDeterministic() || from.GetDeterministic()
}

// PinnedLike returns a copy of a spec that takes from a session's what its functions by name are, which fitted file,
// which version of a table, and what else it is pinned to, where it does not say it: who opens a session again knows as
// little of them as who opened it first.
func PinnedLike(s, of *pb.Spec) *pb.Spec {
	s = proto.CloneOf(s)
	if f := s.GetFitted(); f.GetUri() == of.GetFitted().GetUri() && f.GetUri() != "" {
		f.Digest = cmp.Or(f.GetDigest(), of.GetFitted().GetDigest())
	}
	if s.GetPinned() == nil {
		s.Pinned = of.GetPinned()
	}
	s = AtVersion(s, TableOf(of))
	if s.GetCode() != nil || !ByName(s) || !ByName(of) {
		return s
	}
	s.Code = of.GetCode()
	for i, t := range s.GetTransforms()[:min(len(s.GetTransforms()), len(of.GetTransforms()))] {
		f, its := t.GetPython(), of.GetTransforms()[i].GetPython()
		if f.GetCall() != "" && f.GetCall() == its.GetCall() {
			fillCall(f, its)
		}
	}
	return s
}

// pinning holds a transform against the mark of the function that it calls.
type pinning struct {
	problems  *Problems
	path      string
	transform *pb.Transform
	mark      *pb.MarkedFunction
}

func (p *pinning) wrong(field, format string, args ...any) {
	p.problems.add(p.path+"."+field, format, args...)
}

// check reports where the spec says something else than the mark.
func (p *pinning) check() {
	has, mark := settledFunction(p.transform.GetPython()), settledFunction(p.mark.GetFunction())
	call := has.GetCall()
	if mark == nil {
		p.wrong("call", "a worker told nothing of %s; run workers of the masters' release", call)
		return
	}
	if has.GetKind() != mark.GetKind() {
		kind := strings.ToLower(mark.GetKind().String())
		p.wrong("kind", "found %s, and %s is marked as %s; write kind: %s, or change the mark",
			strings.ToLower(has.GetKind().String()), call, kind, kind)
		return
	}
	if has.GetRng() && !mark.GetRng() {
		p.wrong("rng", "%s is not marked with rng=True, and takes no generator; change the mark", call)
	}
	if want := p.results(); want != "" {
		p.wrong("out", "found %s, and %s is marked with %s; write it as the mark has it, in its order, or change the "+
			"mark", resultsText(p.transform.GetOuts()), call, want)
	}
}

// results are those of the mark, in text, or nothing if the spec's are the same.
func (p *pinning) results() string {
	outs, marked := p.transform.GetOuts(), p.mark.GetResults()
	equal := slices.EqualFunc(outs, marked, func(a, b *pb.Result) bool {
		name := cmp.Or(a.GetMarked(), a.GetName())
		return (name == b.GetName() || b.GetName() == "") && resultText(a) == resultText(b)
	})
	if equal {
		return ""
	}
	return resultsText(marked)
}

// resultsText writes results as a spec has them. One without a name may have any.
func resultsText(results []*pb.Result) string {
	if len(results) == 0 {
		return "nothing"
	}
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = cmp.Or(r.GetMarked(), r.GetName(), "NAME") + ": " + resultText(r)
	}
	return "{" + strings.Join(out, ", ") + "}"
}

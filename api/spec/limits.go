package spec

import (
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// WithoutLimits returns a program as it is without what its functions may take, and what they promise: these change no
// value and no row. States are of a program without limits, so that a job which needs more memory can go on with it.
func WithoutLimits(p *pb.Program) *pb.Program {
	if !Calls(p) {
		return p
	}
	p = proto.CloneOf(p)
	for _, s := range p.GetSteps() {
		withoutLimits(s.GetPython())
	}
	return p
}

func withoutLimits(f *pb.Function) {
	if f != nil {
		f.Memory, f.Threads, f.TimeoutMs, f.Most, f.Deterministic = 0, 0, 0, 0, false
	}
}

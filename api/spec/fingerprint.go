package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/pb"
)

// parts are the fields of a spec that decide which rows there are and what is in them, in the order of Fingerprint. New
// ones go to the end.
func parts() []protoreflect.Name {
	return []protoreflect.Name{
		"filter", "features", "transforms", "seed", "shuffle", "provenance", "order", "dataset", "code",
		"fitted",
	}
}

// Fingerprint is a hash of each part of a spec that checkpoints depend on: four bytes each, for Differing.
func Fingerprint(s *pb.Spec) []uint32 {
	s = explicit(s)
	for _, t := range s.GetTransforms() {
		withoutLimits(t.GetPython())
	}
	m := s.ProtoReflect()
	out := make([]uint32, len(parts()))
	for i, name := range parts() {
		one := &pb.Spec{}
		if field := m.Descriptor().Fields().ByName(name); m.Has(field) {
			one.ProtoReflect().Set(field, m.Get(field))
		}
		b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(one) // a spec that was read can be written
		sum := sha256.Sum256(b)
		out[i] = binary.LittleEndian.Uint32(sum[:])
	}
	return out
}

// Differing names the parts in which specs with two fingerprints differ, as far as both have them.
func Differing(a, b []uint32) []string {
	var out []string
	for i, name := range parts()[:min(len(parts()), len(a), len(b))] {
		if a[i] != b[i] {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

package session

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// The Python functions of a session are no part of its program, which only says where they are called: a state of the
// same program may be of functions that did something else then.

// admitCode refuses a state of other functions than the session's.
func (s *State) admitCode(p Checkpoint) error {
	other := s.codeDifferences(p)
	if len(other) == 0 {
		return nil
	}
	return refused("the state of rank %d is of other Python functions: %s; bring them back as they were, or, if what "+
		"comes out may differ from here on, restore with accept_code_change", p.Rank, strings.Join(other, "; "))
}

// codeDifferences are what a state's functions have otherwise than the session's: theirs first.
func (s *State) codeDifferences(p Checkpoint) []string {
	if proto.Equal(p.Code, s.id.Code) {
		return nil
	}
	return spec.Diff(&pb.Spec{Code: p.Code}, &pb.Spec{Code: s.id.Code})
}

// otherCode is codeDifferences of several states, each once.
func (s *State) otherCode(states []Checkpoint) (other []string) {
	for _, p := range states {
		for _, words := range s.codeDifferences(p) {
			if !slices.Contains(other, words) {
				other = append(other, words)
			}
		}
	}
	return other
}

// withoutCode are states that were admitted: each of a thousand ranks' would say the same once more.
func withoutCode(states []Checkpoint) []Checkpoint {
	states = slices.Clone(states)
	for i := range states {
		states[i].Code = nil
	}
	return states
}

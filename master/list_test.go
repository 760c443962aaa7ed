package master

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestListsFit holds that a list of very many sessions, with specs as large as they may be, is an answer that callers take.
func TestListsFit(t *testing.T) {
	var found []*pb.Session
	for range 300 {
		found = append(found, &pb.Session{
			Id: "run", Program: []byte("p"), Spec: &pb.Spec{Filter: strings.Repeat("x", maxSpecText)},
			Progress: &pb.Progress{Epoch: 3, Ranks: make([]*pb.RankProgress, 100)},
		})
	}
	shorten(found)
	size := proto.Size(&pb.ListSessionsReply{Sessions: found})
	if first, last := found[0], found[299]; size > maxList+1<<20 || first.GetProgram() != nil || first.GetSpec() == nil || len(first.GetProgress().GetRanks()) != 100 ||
		last.GetSpec() != nil || last.GetProgress().GetRanks() != nil || last.GetProgress().GetEpoch() != 3 || last.GetId() != "run" {
		t.Errorf("%d bytes; the last: %v", size, last)
	}
}

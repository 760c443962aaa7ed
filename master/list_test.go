package master

import (
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
)

// TestListsTakeTurns holds that a list waits while as many are made as may be, and not for long.
func TestListsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Master{lists: access.NewTurns(listsAtOnce, 1)}
		ctx := identity.With(t.Context(), identity.Identity{Namespace: "vision"})
		if _, ok := m.lists.Take(identity.From(ctx)); !ok {
			t.Fatal("there is no turn")
		}
		if _, err := (&service{master: m}).ListSessions(ctx,
			&pb.ListSessionsRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("one more: %v", err)
		}
	})
}

// TestListsFit holds that a list of very many sessions, with specs as large as they may be, is an answer that callers
// take.
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
	if first, last := found[0], found[299]; size > maxList+1<<20 || first.GetProgram() != nil ||
		first.GetSpec() == nil || len(first.GetProgress().GetRanks()) != 100 ||
		last.GetSpec() != nil || last.GetProgress().GetRanks() != nil || last.GetProgress().GetEpoch() != 3 ||
		last.GetId() != "run" {
		t.Errorf("%d bytes; the last: %v", size, last)
	}
}

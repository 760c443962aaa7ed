package fake

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

// Follower is a master that does not lead.
type Follower struct {
	pb.UnimplementedMasterServer
	Leader string // its address
}

// Follower serves a follower and returns what stops it.
func (n *Net) Follower(name, leader string) (stop func()) {
	f := &Follower{Leader: n.Address(leader)}
	return n.Serve(name, func(s *grpc.Server) { pb.RegisterMasterServer(s, f) })
}

func (f *Follower) refuse() error {
	st, err := status.New(codes.Unavailable, "not the leader").WithDetails(&pb.NotLeader{Leader: f.Leader})
	if err != nil {
		return err
	}
	return st.Err()
}

// Open refuses.
func (f *Follower) Open(context.Context, *pb.OpenRequest) (*pb.Session, error) {
	return nil, f.refuse()
}

// Join refuses.
func (f *Follower) Join(context.Context, *pb.JoinRequest) (*pb.JoinReply, error) {
	return nil, f.refuse()
}

// Sync refuses.
func (f *Follower) Sync(context.Context, *pb.SyncRequest) (*pb.SyncReply, error) {
	return nil, f.refuse()
}

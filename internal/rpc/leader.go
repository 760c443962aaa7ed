package rpc

import (
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

// Leader is the leader's address in the answer of a master that does not lead, or "".
func Leader(err error) string {
	for _, d := range status.Convert(err).Details() {
		if n, ok := d.(*pb.NotLeader); ok {
			return n.GetLeader()
		}
	}
	return ""
}

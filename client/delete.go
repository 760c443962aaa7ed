package client

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

// Delete has the master forget the session, for all of its ranks: for sessions of which nobody needs a State any more. Call it once Close
// has returned. A session that is not there any more is no error.
func (s *Session) Delete(ctx context.Context) error {
	m := &masters{addresses: s.cfg.Masters, pool: newPool(s.cfg.Dial, nil)}
	defer m.pool.close()
	return m.call(ctx, "delete session", leaveTimeout, func(ctx context.Context, m pb.MasterClient) error {
		_, err := m.DeleteSession(ctx, &pb.DeleteSessionRequest{Session: s.cfg.Session})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
}

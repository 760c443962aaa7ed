package master

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/telemetry"
	"github.com/penstock-ml/penstock/master/dashboard"
)

// viewTimeout bounds how long a page waits for what it asked for.
const viewTimeout = 10 * time.Second

// newHTTP is the HTTP port, nil if there is none.
func (m *Master) newHTTP() (*telemetry.Server, error) {
	if m.cfg.HTTP == nil {
		return nil, nil
	}
	web := identity.Web{
		Authenticator: m.cfg.Access.Authenticator(),
		Seal:          identity.SealWith(func() [][]byte { return m.signer.Secrets("browsers' logins") }),
	}
	viewers := func(next http.Handler) http.Handler { return web.Require(identity.Viewer, next) }
	cfg := telemetry.Config{
		Listener: m.cfg.HTTP, Logger: m.cfg.Logger, Web: web, Ready: m.ready,
		Metrics: telemetry.NewRegistry(m.cfg.Fleet.Self.Version, newMetrics().collector(m)),
		Pages: dashboard.New(dashboard.Config{
			Source: m.viewer, Guard: viewers, Version: m.cfg.Fleet.Self.Version,
			Name: m.cfg.Fleet.Self.Name,
		}),
	}
	var err error
	if cfg.TLS, err = rpc.HTTPTLS(m.cfg.RPC); err != nil {
		return nil, err
	}
	return telemetry.New(cfg)
}

// ready says why this master's answers would help nobody.
func (m *Master) ready() error {
	if m.store() == nil {
		return errors.New(awaitsEtcd)
	}
	if m.leaderAddress() == "" {
		return errors.New("no master leads at the moment")
	}
	return nil
}

// viewer answers those who look at the fleet: by itself while its master leads, else with what the leader says. So each
// master shows the same, and a viewer needs to reach but one of them, such as the one behind a Service that it happens
// to come to.
type viewer struct {
	own  *service
	pool *rpc.Pool // the connection to the leader
}

// Observe implements dashboard.Source.
func (v *viewer) Observe(ctx context.Context, req *pb.ObserveRequest) (*pb.Observation, error) {
	return ask(ctx, v, req, v.own.Observe, pb.MasterClient.Observe)
}

// ListEvents implements dashboard.Source.
func (v *viewer) ListEvents(ctx context.Context, req *pb.ListEventsRequest) (*pb.ListEventsReply, error) {
	return ask(ctx, v, req, v.own.ListEvents, pb.MasterClient.ListEvents)
}

// ListSessions implements dashboard.Source.
func (v *viewer) ListSessions(ctx context.Context, req *pb.ListSessionsRequest) (*pb.ListSessionsReply, error) {
	return ask(ctx, v, req, v.own.ListSessions, pb.MasterClient.ListSessions)
}

// ListFeatures implements dashboard.Source.
func (v *viewer) ListFeatures(ctx context.Context, req *pb.ListFeaturesRequest) (*pb.ListFeaturesReply, error) {
	return ask(ctx, v, req, v.own.ListFeatures, pb.MasterClient.ListFeatures)
}

// ask asks this master, and then whom it names as the leader.
func ask[Q, A any](ctx context.Context, v *viewer, req *Q, own func(context.Context, *Q) (*A, error),
	leaders func(pb.MasterClient, context.Context, *Q, ...grpc.CallOption) (*A, error),
) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	reply, err := own(ctx, req)
	leader := rpc.Leader(err)
	if leader == "" {
		return reply, err
	}
	if err := v.pool.Keep([]string{leader}); err != nil {
		return nil, fmt.Errorf("master: %w", err)
	}
	conn, err := v.pool.Get(leader)
	if err != nil {
		return nil, fmt.Errorf("master: %w", err)
	}
	if who := identity.From(ctx); who.Namespace != "" { // else the leader would tell a master of all namespaces
		ctx = metadata.AppendToOutgoingContext(ctx, rpc.NamespaceHeader, who.Namespace)
	}
	if reply, err = leaders(pb.NewMasterClient(conn), ctx, req); err != nil {
		said := "says"
		if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
			said = "does not answer; if it is gone, another one leads within seconds"
		}
		return nil, status.Errorf(status.Code(err), "the leading master, %s, %s: %s",
			leader, said, status.Convert(err).Message())
	}
	return reply, nil
}

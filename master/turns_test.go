package master_test

import (
	"context"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
)

// hung is a storage whose listings wait until their callers go.
type hung struct {
	storage.Storage
	lists chan struct{} // gets one for each that has begun
}

func (h hung) List(ctx context.Context, _ string, _ []string) ([]*pb.File, error) {
	h.lists <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestFewListAtOnce holds that no namespace has a master list, for stock clients, more than four datasets at once, nor
// all of them together more than sixteen: who is refused may try again, and gets a turn when another has ended.
func TestFewListAtOnce(t *testing.T) {
	h := hung{lists: make(chan struct{}, 100)}
	g := startGuarded(t, "", master.Config{Storage: h})
	text, err := spec.Format(newSpec("/nowhere"))
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group errgroup.Group
	ask := func(ctx context.Context, token string) error {
		_, err := flight.NewFlightServiceClient(g.as(token, "")).GetFlightInfo(ctx,
			&flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: text})
		return err
	}
	begin := func(ctx context.Context, token string) {
		group.Go(func() error { _ = ask(ctx, token); return nil }) // it is cancelled
		<-h.lists
	}
	refused := func(token string) {
		t.Helper()
		if err := ask(t.Context(), token); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s, one more: %v", token, err)
		}
	}
	one, end := context.WithCancel(ctx)
	begin(one, tokenOf("alice"))
	for range 3 {
		begin(ctx, tokenOf("amy")) // of the same namespace
	}
	refused(tokenOf("alice"))
	for range 4 {
		begin(ctx, tokenOf("eve"))
	}
	refused(tokenOf("eve"))
	for range 8 {
		begin(ctx, fleetToken)
	}
	refused(fleetToken)
	end()
	again, stop := context.WithCancel(t.Context())
	eventually(t, "there is a turn again", func() bool {
		done := make(chan error, 1)
		go func() { done <- ask(again, tokenOf("alice")) }()
		select {
		case <-h.lists:
			stop()
			<-done //nolint:errcheck // it was cancelled
			return true
		case err := <-done:
			if status.Code(err) != codes.ResourceExhausted {
				t.Error(err)
			}
			return false
		}
	})
	stop()
	cancel()
	check(t, group.Wait())
}

package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// TestTheRankWithAStateOpens: one without does not, which would be at a table's newest version. It gives up in time.
func TestTheRankWithAStateOpens(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		d := fake.NewDataset(7, 2, 8)
		fl.Worker("w", &fake.Worker{Data: d})
		first := &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 24, Epochs: 1}, Workers: fl.Workers("w"), Streams: 1}
		fl.Master("first", first)
		s := open(t, config(fl, "first"))
		st := s.State()
		st.Table = "delta+s3://bucket/table@v1"
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var asked []string // of opens, in their order
		fl.Master("m", &fake.Master{
			Data: d, Spec: first.Spec, Workers: fl.Workers("w"), Streams: 1, World: 2,
			Intercept: func(req proto.Message) error {
				switch req := req.(type) {
				case *pb.GetSessionRequest:
					if len(asked) == 0 {
						return status.Error(codes.NotFound, "no such session")
					}
				case *pb.OpenRequest:
					asked = append(asked, req.GetSavedTable())
				}
				return nil
			},
		})
		ranks := make([]Config, 2)
		for i := range ranks {
			ranks[i] = config(fl, "m")
			ranks[i].Rank, ranks[i].WorldSize, ranks[i].RestoreTimeout = uint32(i), 2, time.Minute
		}
		ranks[0].Restore, ranks[1].Restore = []*pb.State{}, []*pb.State{st}
		var missing *MissingError
		if _, err := Open(t.Context(), ranks[0]); !errors.As(err, &missing) || len(missing.Ranks) > 0 || len(asked) > 0 {
			t.Errorf("%v; want that no rank brings a state; opened with %q", err, asked)
		}
		opened := make(chan error)
		go func() {
			s, err := Open(context.Background(), ranks[0])
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
		synctest.Wait()
		open(t, ranks[1])
		if err := <-opened; err != nil || len(asked) != 2 || asked[0] != st.GetTable() {
			t.Errorf("%v; opened with %q, want %s first", err, asked, st.GetTable())
		}
	})
}

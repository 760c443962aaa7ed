package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/master/plan"
)

// maxEndpoints bounds the shards of one GetFlightInfo.
const maxEndpoints = 100_000

// flightInfo lets any Flight client read a dataset through the fleet, outside of sessions: nothing is recorded, and
// every call may read all of it. See worker/serve/README.md.
type flightInfo struct {
	flight.BaseFlightServer
	master *Master
}

// GetFlightInfo takes a spec, as YAML or JSON, for its command, and returns an endpoint for each shard of the first epoch.
func (f *flightInfo) GetFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	if d.GetType() != flight.DescriptorCMD {
		return nil, status.Error(codes.InvalidArgument, "the descriptor must be a command that holds a spec, as YAML or JSON")
	}
	s, err := spec.Parse(d.GetCmd())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	cfg := &f.master.cfg
	dataset, err := Resolve(ctx, cfg.Storage, f.master.footers, cfg.Ops, cfg.Plan, s)
	if err != nil {
		return nil, openError(err)
	}
	loaded, err := dataset.Footers(ctx, func(int) {})
	if err != nil {
		return nil, openError(err)
	}
	shards, counts, err := plan.Shards(cfg.Plan, dataset.Program, loaded, 0)
	if err != nil {
		return nil, openError(err)
	}
	if len(shards) > maxEndpoints {
		return nil, status.Errorf(codes.ResourceExhausted, "the dataset has %d shards; more than %d are for sessions", len(shards), maxEndpoints)
	}
	endpoints, err := f.endpoints(dataset.Program, shards)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &flight.FlightInfo{FlightDescriptor: d, Endpoint: endpoints, TotalRecords: counts.Rows, TotalBytes: -1}, nil
}

func (f *flightInfo) endpoints(program *pb.Program, shards []*pb.Shard) ([]*flight.FlightEndpoint, error) {
	serialised, err := spec.Marshal(program)
	if err != nil {
		return nil, err
	}
	places := f.master.places.get()
	if places.workers == 0 {
		return nil, errors.New("the fleet has no worker; start one with `penstock worker`")
	}
	out := make([]*flight.FlightEndpoint, len(shards))
	for i, shard := range shards {
		t := &pb.Ticket{
			Shard: uint32(i), File: shard.GetFile(), RowGroups: shard.GetRowGroups(), ProgramDigest: []byte(ticket.Digest(serialised)),
			Workers: places.workersFor(shard), ExpiresUnix: time.Now().Add(ticketLife).Unix(),
		}
		if out[i], err = f.endpoint(t, serialised); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *flightInfo) endpoint(t *pb.Ticket, program []byte) (*flight.FlightEndpoint, error) {
	text, err := f.master.signer.Sign(t)
	if err != nil {
		return nil, err
	}
	signed := &pb.SignedTicket{}
	if err := proto.Unmarshal(text, signed); err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	request, err := proto.Marshal(&pb.StreamRequest{Ticket: signed, Program: program})
	if err != nil {
		return nil, fmt.Errorf("stream request: %w", err)
	}
	e := &flight.FlightEndpoint{Ticket: &flight.Ticket{Ticket: request}}
	scheme := "grpc+tcp://"
	if f.master.cfg.RPC.Cert != "" {
		scheme = "grpc+tls://"
	}
	for _, w := range t.GetWorkers() {
		e.Location = append(e.Location, &flight.Location{Uri: scheme + w.GetAddress()})
	}
	return e, nil
}

package master

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/plan"
)

const (
	// maxEndpointBytes bounds the answer to one GetFlightInfo.
	maxEndpointBytes = 16 << 20
	// infosAtOnce bounds how many are answered at once, and infosOfOne those of a namespace.
	infosAtOnce, infosOfOne = 16, 4
)

// flightInfo lets any Flight client read a dataset through the fleet, outside of sessions: nothing is recorded, and
// every call may read all of it. See docs/internals/streams.md.
type flightInfo struct {
	flight.BaseFlightServer
	master *Master
	turns  *access.Turns
}

// GetFlightInfo takes a spec, as YAML or JSON, for its command, and returns an endpoint for each shard of the first
// epoch.
func (f *flightInfo) GetFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	if d.GetType() != flight.DescriptorCMD {
		return nil, status.Error(codes.InvalidArgument,
			"the descriptor must be a command that holds a spec, as YAML or JSON")
	}
	end, ok := f.turns.Take(identity.From(ctx))
	if !ok {
		return nil, status.Errorf(codes.ResourceExhausted,
			"too many datasets are being listed: %d at once, and %d for one namespace; try again",
			infosAtOnce, infosOfOne)
	}
	defer end()
	s, err := parseSpec(d.GetCmd(), "")
	if err != nil {
		return nil, err
	}
	cfg := &f.master.cfg
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	limits := cfg.Access.Limits(identity.From(ctx))
	if err := mayRead(limits, s); err != nil {
		return nil, err
	}
	namespace := identity.From(ctx).Home()
	if err := f.master.mayRun(namespace, s); err != nil {
		return nil, err
	}
	dataset, err := Resolve(ctx, limited{cfg.Storage, limits}, f.master.described, cfg.Ops, cfg.Plan, s)
	if err != nil {
		return nil, openError(err)
	}
	common := &pb.Ticket{}
	if spec.ByName(s) {
		common.Namespace = namespace // whose processes run them
	}
	if s, err = f.master.pin(ctx, dataset, s, common); err != nil {
		return nil, err
	}
	common.Code = codeOf(&pb.Session{Spec: s})
	list, err := f.newEndpoints(dataset.Program, common)
	if err != nil {
		return nil, err
	}
	of := &indexing{
		indexer: f.master.indexes, session: &pb.Session{Namespace: namespace}, program: dataset.Program,
		text: list.program, logger: cfg.Logger, recorded: func(string) string { return "" },
	}
	if err := dataset.eachBlock(ctx, cfg.Plan, of, list.add); err != nil {
		return nil, openError(err)
	}
	info := &flight.FlightInfo{FlightDescriptor: d, Endpoint: list.all, TotalRecords: list.rows, TotalBytes: -1}
	if spec.RowsOf(dataset.Program) != spec.SameRows {
		info.TotalRecords = -1 // how many rows pass shows when they are read
	}
	return info, nil
}

// eachBlock plans the blocks of the first epoch, one after the other, so that few descriptions of files are in memory.
// Workers index files, as for sessions.
func (d *Dataset) eachBlock(
	ctx context.Context, cfg plan.Config, of *indexing, f func(*pb.Block, plan.Counts) error,
) error {
	cut := plan.Blocks(cfg, d.Files, plan.Order(d.Files, d.Program.GetSeed(), d.Program.GetShuffle(), 0))
	for i, members := range cut {
		files := make([]*pb.File, len(members))
		for j, m := range members {
			files[j] = d.Files[m]
		}
		loaded, err := d.described.load(ctx, files, d.Program, func(int) {})
		if err == nil {
			err = of.whole(ctx, loaded.files)
		}
		if err != nil {
			return err
		}
		if err := plan.CheckStands(plan.Stands(d.Schema, d.Program), loaded.files); err != nil {
			return fmt.Errorf("master: %w", err)
		}
		shards, counts, err := plan.Shards(cfg, d.Program, loaded.files, 0)
		if err != nil {
			return fmt.Errorf("master: %w", err)
		}
		if err := f(&pb.Block{Index: uint32(i), Shards: shards}, counts); err != nil {
			return err
		}
	}
	return nil
}

// endpoints is the list under construction.
type endpoints struct {
	info    *flightInfo
	program []byte     // serialised
	ticket  *pb.Ticket // what all have
	places  *places
	all     []*flight.FlightEndpoint
	rows    int64
	bytes   int
}

func (f *flightInfo) newEndpoints(program *pb.Program, common *pb.Ticket) (*endpoints, error) {
	serialised, err := spec.Marshal(program)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	common.ProgramDigest, common.ExpiresUnix = []byte(ticket.Digest(serialised)), time.Now().Add(ticketLife).Unix()
	e := &endpoints{info: f, program: serialised, ticket: common, places: f.master.places.get()}
	if e.places.Workers == 0 {
		return nil, status.Error(codes.Unavailable, "the fleet has no worker; start one with `penstock worker`")
	}
	return e, nil
}

// add appends the shards of a block.
func (e *endpoints) add(block *pb.Block, counts plan.Counts) error {
	e.rows += counts.Rows
	for i, shard := range block.GetShards() {
		e.ticket.Block, e.ticket.Shard = block.GetIndex(), uint32(i)
		e.ticket.File, e.ticket.Extents, e.ticket.Workers = shard.GetFile(), shard.GetExtents(), e.places.For(shard, "")
		next, err := e.info.endpoint(e.ticket, e.program)
		if err != nil {
			return err
		}
		e.all = append(e.all, next)
		e.bytes += proto.Size(next)
		if e.bytes > maxEndpointBytes {
			return status.Errorf(codes.ResourceExhausted,
				"the answer would be larger than %d MiB: %d shards so far, in which the program repeats, and windows "+
					"of long gzip files lie; large datasets are for sessions",
				maxEndpointBytes>>20, len(e.all))
		}
	}
	return nil
}

func (f *flightInfo) endpoint(t *pb.Ticket, program []byte) (*flight.FlightEndpoint, error) {
	request, err := streamRequest(f.master.signer, t, program)
	if err != nil {
		return nil, err
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

// signedRequest is what a worker takes for a shard.
func signedRequest(signer *ticket.Signer, t *pb.Ticket, program []byte) (*pb.StreamRequest, error) {
	text, err := signer.Sign(t)
	if err != nil {
		return nil, err
	}
	signed := &pb.SignedTicket{}
	if err := proto.Unmarshal(text, signed); err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	return &pb.StreamRequest{Ticket: signed, Program: program}, nil
}

// streamRequest is the same, serialised.
func streamRequest(signer *ticket.Signer, t *pb.Ticket, program []byte) ([]byte, error) {
	signed, err := signedRequest(signer, t, program)
	if err != nil {
		return nil, err
	}
	request, err := proto.Marshal(signed)
	if err != nil {
		return nil, fmt.Errorf("stream request: %w", err)
	}
	return request, nil
}

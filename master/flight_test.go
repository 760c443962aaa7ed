package master_test

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master"
)

func TestAnyFlightClientGetsAllShards(t *testing.T) {
	secret := rpc.Config{Token: rpc.NewSecret("open sesame")}
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{RPC: secret}})
	text, err := spec.Format(newSpec(dataset(t, 3)))
	check(t, err)
	client := flight.NewFlightServiceClient(m.conn)
	ask := func(d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
		return client.GetFlightInfo(t.Context(), d)
	}
	command := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: text}
	if _, err := ask(command); status.Code(err) != codes.Unavailable {
		t.Errorf("without workers: %v", err)
	}
	addWorker(t, m, fleet.Member{Name: "one", Address: "10.0.0.1:1", Slots: 8})
	var info *flight.FlightInfo
	eventually(t, "there is a worker", func() bool { info, err = ask(command); return err == nil })
	if len(info.GetEndpoint()) != 3*groups || info.GetTotalRecords() != 3*groups*rows {
		t.Errorf("%d endpoints, %d rows", len(info.GetEndpoint()), info.GetTotalRecords())
	}
	filtered := &flight.FlightDescriptor{
		Type: flight.DescriptorCMD,
		Cmd:  append([]byte("filter: label > 3\n"), text...),
	}
	if some, err := ask(filtered); err != nil || some.GetTotalRecords() != -1 {
		t.Errorf("of a filter only the workers know how many rows pass: %d, %v", some.GetTotalRecords(), err)
	}
	orders, err := m.SyncWorker(t.Context(), &pb.WorkerReport{Name: "one"})
	check(t, err)
	seen := map[string]bool{}
	for _, e := range info.GetEndpoint() {
		req := &pb.StreamRequest{}
		check(t, proto.Unmarshal(e.GetTicket().GetTicket(), req))
		found, err := ticket.Verify(req, orders.GetKeys(), time.Now())
		check(t, err)
		for _, rg := range found.GetExtents() {
			seen[found.GetFile().GetUri()+string(rune('0'+rg.GetIndex()))] = true
		}
		if l := e.GetLocation(); len(l) != 1 || l[0].GetUri() != "grpc+tcp://10.0.0.1:1" {
			t.Errorf("locations %v", l)
		}
	}
	if len(seen) != 3*groups {
		t.Errorf("the endpoints hold %d row groups", len(seen))
	}
	for _, bad := range []*flight.FlightDescriptor{
		{Type: flight.DescriptorPATH, Path: []string{"x"}},
		{Type: flight.DescriptorCMD, Cmd: []byte("features: 7")},
		{Type: flight.DescriptorCMD, Cmd: []byte(strings.ReplaceAll(string(text), "label", "labl"))},
	} {
		if _, err := ask(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
	stranger, err := rpc.Dial(m.address, rpc.Config{})
	check(t, err)
	defer stranger.Close()
	if _, err := flight.NewFlightServiceClient(stranger).GetFlightInfo(t.Context(),
		command); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without the token: %v", err)
	}
	if _, err := pb.NewMasterClient(stranger).SyncWorker(t.Context(),
		&pb.WorkerReport{Name: "w"}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without the token: %v", err)
	}
}

func TestReportsAreBounded(t *testing.T) {
	m := single(t)
	long := &pb.WorkerReport{Name: "w", Sessions: make([]*pb.SessionCounters, 5000)}
	for i := range long.GetSessions() {
		long.Sessions[i] = &pb.SessionCounters{Session: strings.Repeat("x", 256)}
	}
	for _, report := range []*pb.WorkerReport{
		{},
		{Name: strings.Repeat("x", 300)},
		{Name: "w", Address: strings.Repeat("x", 300)},
		long,
	} {
		if _, err := m.SyncWorker(t.Context(), report); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%.40v: %v", report, err)
		}
	}
}

// TestRequestsAreBounded holds that a caller who is known cannot have a master keep what no request needs.
func TestRequestsAreBounded(t *testing.T) {
	m := single(t)
	_, err := m.Open(t.Context(), &pb.OpenRequest{Session: "large", SpecText: strings.Repeat("#", rpc.MaxRequest)})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("a spec of 16 MiB: %v", err)
	}
	if _, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{}); err != nil {
		t.Errorf("after it: %v", err)
	}
}

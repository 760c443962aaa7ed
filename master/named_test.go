package master_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/access"
)

// byName is the text of a spec that calls a function by its name: it makes up to four rows of each.
func byName(dir string) string {
	return fmt.Sprintf(`
dataset: {uri: "file://%s/"}
features: [{label: part}]
transforms: {op: python, call: "my.text:chunks", in: label, kind: flat_map, out: {part: int32}, args: {of: 3}}
batch_size: 4
last_batch: drop
python: vision
`, dir)
}

func openText(t *testing.T, m pb.MasterClient, id, text string) (*pb.Session, error) {
	t.Helper()
	ctx, cancel := timely(t)
	defer cancel()
	return m.Open(ctx, &pb.OpenRequest{Session: id, SpecText: text, WorldSize: 1, Defaults: 1})
}

// chunksOf is what a worker has whose files are of some content.
func chunksOf(files string) *pb.CallsReply {
	digest := sha256.Sum256([]byte(files))
	return &pb.CallsReply{
		Identity: &pb.Code{
			Digest: digest[:], Python: "3.12", Functions: []*pb.NamedDigest{{Name: "my.text:chunks", Digest: digest[:]}},
		},
		Functions: []*pb.MarkedFunction{{
			Function: &pb.Function{
				Name: "chunks", Call: "my.text:chunks", Kind: pb.FunctionKind_FLAT_MAP, Style: pb.Style_ROWS, Most: 4, Memory: 1 << 28,
			},
			Results: []*pb.Result{{Name: "part", Type: &pb.Type{Kind: pb.Kind_INT32}}},
		}},
	}
}

// having is a worker that answers with what such files have, and checks what it is asked.
func having(t *testing.T, files string) *countingWorker {
	return &countingWorker{says: fine, of: 4, has: func(of *pb.Ticket, calls []string) (*pb.CallsReply, error) {
		if of.GetEnvironment() != "vision" || of.GetNamespace() != "default" || !slices.Equal(calls, []string{"my.text:chunks"}) {
			t.Errorf("asked for %v by %v", calls, of)
		}
		return chunksOf(files), nil
	}}
}

func refusing(err error) *countingWorker {
	return &countingWorker{
		says: func(*pb.Ticket) error { return err },
		has:  func(*pb.Ticket, []string) (*pb.CallsReply, error) { return nil, err },
	}
}

func startNamed(t *testing.T, endpoints []string) *node {
	t.Helper()
	return start(t, settings{endpoints: endpoints, Config: master.Config{Code: access.ByName}})
}

// TestASessionHasTheFunctionsOfMostWorkers opens one by its text, attaches to it at another master, and has its rows
// counted: tickets name the functions that two of three workers have.
func TestASessionHasTheFunctionsOfMostWorkers(t *testing.T) {
	endpoints := etcd(t, "").Endpoints()
	m := startNamed(t, endpoints)
	dir := dataset(t, 1)
	for name, files := range map[string]string{"a": "old", "b": "new", "c": "new"} {
		startCounting(t, m, name, having(t, files))
	}
	startCounting(t, m, "d", refusing(status.Error(codes.Unimplemented, "it runs none")))
	s, err := openText(t, m, "run", byName(dir))
	check(t, err)
	want := chunksOf("new").GetIdentity()
	f := s.GetSpec().GetTransforms()[0].GetPython()
	if !proto.Equal(s.GetSpec().GetCode(), want) || f.GetStyle() != pb.Style_ROWS || f.GetMost() != 4 || s.GetCode() != nil {
		t.Errorf("the session has %v and bytes %v", s.GetSpec(), s.GetCode())
	}
	r := newTrainer(t, m, "run", 0, 1).mustJoin("x")
	r.untilGranted()
	granted := r.open(r.grants[0])
	if !proto.Equal(granted.GetCode(), &pb.StoredCode{Identity: want}) || granted.GetEnvironment() != "vision" {
		t.Errorf("the ticket has code %v of environment %q", granted.GetCode(), granted.GetEnvironment())
	}
	for _, n := range outputs(t, r.grants) {
		if n != 4*rows {
			t.Errorf("%d rows were counted, want %d", n, 4*rows)
		}
	}
	if _, err := m.GetCode(t.Context(), &pb.GetCodeRequest{Session: "run"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("bytes of functions by name: %v", err)
	}
	next := startNamed(t, endpoints)
	m.stop()
	eventually(t, "a rank attaches at the next master", func() bool {
		_, err := openText(t, next, "run", byName(dir))
		return err == nil
	})
	other := strings.Replace(byName(dir), "of: 3", "of: 5", 1)
	if _, err := openText(t, next, "run", other); status.Code(err) != codes.AlreadyExists ||
		!strings.Contains(err.Error(), "transforms[0].python.args.of: 3 and 5") {
		t.Errorf("another spec attaches: %v", err)
	}
}

// TestFunctionsThatNoWorkerHas are told of: at once where all workers say so, and where some may have them, later.
func TestFunctionsThatNoWorkerHas(t *testing.T) {
	m := startNamed(t, etcd(t, "").Endpoints())
	text := byName(dataset(t, 1))
	if _, err := openText(t, m, "run", text); !rpc.CannotYet(err) || !strings.Contains(err.Error(), "penstock worker") {
		t.Errorf("without workers: %v", err)
	}
	none := refusing(status.Error(codes.Unimplemented, "it runs none; start it with --code=by-name"))
	startCounting(t, m, "a", none)
	_, err := openText(t, m, "run", text)
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "(my.text:chunks): worker a: it runs none;") {
		t.Errorf("where none run: %v", err)
	}
	startCounting(t, m, "b", refusing(status.Error(codes.NotFound, "my.text has chunk; nearest: chunk")))
	_, err = openText(t, m, "run", text)
	if status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "worker b: my.text has chunk; nearest: chunk; 1 others have them as little") {
		t.Errorf("where they are not there: %v", err)
	}
	startCounting(t, m, "c", refusing(status.Error(codes.Unavailable, "no process starts")))
	if _, err = openText(t, m, "run", text); !rpc.CannotYet(err) || !strings.Contains(err.Error(), "worker c: no process starts") {
		t.Errorf("where one cannot tell yet: %v", err)
	}
	other := chunksOf("new")
	other.Functions[0].Function.Kind = pb.FunctionKind_MAP
	startCounting(t, m, "d", &countingWorker{says: fine, has: func(*pb.Ticket, []string) (*pb.CallsReply, error) { return other, nil }})
	if _, err = openText(t, m, "run", text); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "transforms[0].kind: found flat_map, and my.text:chunks is marked as map") {
		t.Errorf("of another kind: %v", err)
	}
	bad := chunksOf("new")
	bad.Identity.Digest = nil
	startCounting(t, m, "e", &countingWorker{says: fine, has: func(*pb.Ticket, []string) (*pb.CallsReply, error) { return bad, nil }})
	startCounting(t, m, "f", &countingWorker{says: fine, has: func(*pb.Ticket, []string) (*pb.CallsReply, error) { return bad, nil }})
	if _, err = openText(t, m, "run", text); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "digest") {
		t.Errorf("of an identity that is none: %v", err)
	}
}

// TestWhoMayHaveFunctionsByName holds that by-name allows what the workers have, and no more, also to those who read
// outside of sessions.
func TestWhoMayHaveFunctionsByName(t *testing.T) {
	dir := dataset(t, 1)
	value := newFunctions("splits", 1, 500)
	for code, may := range map[access.Code]struct{ name, value bool }{
		access.NoCode: {}, access.ByName: {name: true}, access.ByValue: {true, true},
	} {
		m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Code: code}})
		startCounting(t, m, "a", having(t, "new"))
		_, err := openText(t, m, "run", byName(dir))
		_, infoErr := flight.NewFlightServiceClient(m.conn).GetFlightInfo(t.Context(), &flight.FlightDescriptor{
			Type: flight.DescriptorCMD, Cmd: []byte(byName(dir)),
		})
		for _, err := range []error{err, infoErr} {
			if may.name != (err == nil) || !may.name && (status.Code(err) != codes.FailedPrecondition ||
				!strings.Contains(err.Error(), "--code by-name")) {
				t.Errorf("by name with --code %s: %v", code, err)
			}
		}
		_, err = m.PutCode(t.Context(), &pb.CodePart{Sha256: value.GetSha256(), Size: value.GetSize(), Data: value.data})
		if may.value != (err == nil) || code == access.ByName && !strings.Contains(err.Error(), "by name: penstock.op") {
			t.Errorf("by value with --code %s: %v", code, err)
		}
	}
}

// TestStreamsOutsideOfSessionsHaveFunctions has tickets of any Flight client name the functions.
func TestStreamsOutsideOfSessionsHaveFunctions(t *testing.T) {
	m := startNamed(t, etcd(t, "").Endpoints())
	ask := func() (*flight.FlightInfo, error) {
		return flight.NewFlightServiceClient(m.conn).GetFlightInfo(t.Context(), &flight.FlightDescriptor{
			Type: flight.DescriptorCMD, Cmd: []byte(byName(dataset(t, 1))),
		})
	}
	if _, err := ask(); status.Code(err) != codes.Unavailable {
		t.Errorf("without workers: %v", err)
	}
	startCounting(t, m, "a", having(t, "new"))
	info, err := ask()
	check(t, err)
	var req pb.StreamRequest
	var of pb.Ticket
	check(t, proto.Unmarshal(info.GetEndpoint()[1].GetTicket().GetTicket(), &req))
	check(t, proto.Unmarshal(req.GetTicket().GetTicket(), &of))
	if !proto.Equal(of.GetCode().GetIdentity(), chunksOf("new").GetIdentity()) || of.GetEnvironment() != "vision" ||
		of.GetNamespace() != "default" || of.GetShard() != 1 {
		t.Errorf("the ticket is %v", &of)
	}
}

// TestStatesOfFunctionsThatChanged are restored only where that is asked for: the workers' environment is another one.
func TestStatesOfFunctionsThatChanged(t *testing.T) {
	m := startNamed(t, etcd(t, "").Endpoints())
	text := byName(dataset(t, 1))
	files := "old"
	startCounting(t, m, "a", &countingWorker{says: fine, of: 4, has: func(*pb.Ticket, []string) (*pb.CallsReply, error) {
		return chunksOf(files), nil
	}})
	was, err := openText(t, m, "before", text)
	check(t, err)
	state := newTrainer(t, m, "before", 0, 1).mustJoin("a").state()
	state.Code, files = was.GetSpec().GetCode(), "new"
	_, err = openText(t, m, "after", text)
	check(t, err)
	req := &pb.JoinRequest{Session: "after", WorldSize: 1, Nonce: "b", Restoring: true, Restore: []*pb.State{state}}
	if _, err := m.Join(t.Context(), req); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "function my.text:chunks differs") {
		t.Errorf("restored with changed functions: %v", err)
	}
	req.AcceptCodeChange = true
	reply, err := m.Join(t.Context(), req)
	check(t, err)
	if reply.GetKind() != pb.JoinKind_RESTORED {
		t.Errorf("joined as %v", reply.GetKind())
	}
}

// TestCodeSentForFunctionsByName is refused: the workers have it.
func TestCodeSentForFunctionsByName(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Code: access.ByValue}})
	_, err := m.Open(t.Context(), &pb.OpenRequest{
		Session: "run", SpecText: byName(dataset(t, 1)), Code: newFunctions("splits", 1, 500).StoredCode,
	})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "send no code") {
		t.Errorf("got %v", err)
	}
}

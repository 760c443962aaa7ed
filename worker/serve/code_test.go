package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/apache/arrow/go/v15/arrow/flight"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/python"
)

// keeper are the Functions of a test.
type keeper struct {
	mu     sync.Mutex
	kept   []byte
	refuse error
}

func (k *keeper) Calls(_ context.Context, t *pb.Ticket, calls []string) (*pb.CallsReply, error) {
	reply := &pb.CallsReply{Identity: &pb.Code{Python: t.GetEnvironment()}}
	for _, call := range calls {
		if call != "mypkg:has" {
			return nil, &python.AbsentError{What: "mypkg has has"}
		}
		reply.Functions = append(reply.Functions, &pb.MarkedFunction{Function: &pb.Function{Call: call}})
	}
	return reply, k.refuse
}

func (k *keeper) Keep(t *pb.Ticket, p *pb.CodePart) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != nil {
		return k.refuse
	}
	if !bytes.Equal(t.GetCode().GetSha256(), p.GetSha256()) {
		return errors.New("a part of other code than the ticket's")
	}
	k.kept = append(k.kept, p.GetData()...)
	return nil
}

// sendCode sends a part as a trainer does.
func (r *rig) sendCode(ctx context.Context, t *testing.T, p *pb.CodePart) error {
	t.Helper()
	body, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.client.DoAction(ctx, &flight.Action{Type: "code", Body: body})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// askCalls asks what functions there are.
func (r *rig) askCalls(ctx context.Context, t *testing.T, signed *pb.SignedTicket, calls ...string) (*pb.CallsReply, error) {
	t.Helper()
	body, err := proto.Marshal(&pb.CallsRequest{Ticket: signed, Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.client.DoAction(ctx, &flight.Action{Type: "calls", Body: body})
	if err != nil {
		return nil, err
	}
	result, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	reply := &pb.CallsReply{}
	return reply, proto.Unmarshal(result.GetBody(), reply)
}

func TestFunctionsByNameAreToldToTickets(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20)
	stream := r.request(t, pipeline.Cursor{}).GetTicket()
	if _, err := r.askCalls(t.Context(), t, stream, "mypkg:has"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with the ticket of a stream: %v", err)
	}
	r.ticket.Environment, r.ticket.File = "torch", nil
	good := r.request(t, pipeline.Cursor{}).GetTicket()
	reply, err := r.askCalls(t.Context(), t, good, "mypkg:has", "mypkg:has")
	if err != nil || len(reply.GetFunctions()) != 2 || reply.GetIdentity().GetPython() != "torch" {
		t.Errorf("told %v: %v", reply, err)
	}
	_, err = r.askCalls(t.Context(), t, good, "mypkg:had")
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "mypkg has has") {
		t.Errorf("of a function that is not there: %v", err)
	}
	bad := proto.CloneOf(good)
	bad.Signature[3] ^= 1
	if _, err = r.askCalls(t.Context(), t, bad, "mypkg:has"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with a ticket that nobody signed: %v", err)
	}
	r.keeper.refuse = fmt.Errorf("%w: by --code", python.ErrCannotRun)
	if _, err = r.askCalls(t.Context(), t, good, "mypkg:has"); status.Code(err) != codes.Unimplemented {
		t.Errorf("where none run: %v", err)
	}
}

// ofCode has the rig's ticket be of a session of functions, and returns parts of them.
func (r *rig) ofCode(t *testing.T, size int) []*pb.CodePart {
	t.Helper()
	data := bytes.Repeat([]byte("code"), size/4)
	r.ticket.Code = code.Of(data, &pb.Code{Digest: make([]byte, 32)})
	signed := r.request(t, pipeline.Cursor{}).GetTicket()
	var parts []*pb.CodePart
	for p := range code.Parts(r.ticket.Code, data) {
		p.Ticket = signed
		parts = append(parts, p)
	}
	return parts
}

func TestCodeIsKept(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20)
	parts := r.ofCode(t, code.PartBytes+8)
	var want []byte
	for _, p := range parts {
		if err := r.sendCode(t.Context(), t, p); !isEOF(err) {
			t.Fatal(err)
		}
		want = append(want, p.GetData()...)
	}
	if !bytes.Equal(r.keeper.kept, want) {
		t.Errorf("%d bytes were kept of %d", len(r.keeper.kept), len(want))
	}
	if err := r.server.KeepCode(t.Context(), parts[0]); err != nil {
		t.Errorf("in this process: %v", err)
	}
}

func isEOF(err error) bool { return err != nil && err.Error() == "EOF" }

func TestCodeIsRefused(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20)
	good := r.ofCode(t, 800)[0]
	r.ticket.ExpiresUnix = time.Now().Unix() - 1
	late := r.ofCode(t, 800)[0]
	refused := func(p *pb.CodePart, code codes.Code, says string) {
		t.Helper()
		if err := r.sendCode(t.Context(), t, p); status.Code(err) != code || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %v with %q", err, code, says)
		}
	}
	changed := func(change func(*pb.CodePart)) *pb.CodePart {
		p := proto.CloneOf(good)
		change(p)
		return p
	}
	refused(late, codes.PermissionDenied, "expired")
	refused(changed(func(p *pb.CodePart) { p.Ticket = nil }), codes.PermissionDenied, "key")
	refused(changed(func(p *pb.CodePart) { p.Ticket.Signature[3] ^= 1 }), codes.PermissionDenied, "signature")
	refused(changed(func(p *pb.CodePart) { p.Sha256[3] ^= 1 }), codes.PermissionDenied, "other code")
	refused(changed(func(p *pb.CodePart) { p.Size++ }), codes.PermissionDenied, "other code")
	refused(changed(func(p *pb.CodePart) { p.Data = p.Data[1:] }), codes.InvalidArgument, "is none of code")
	for err, want := range map[error]codes.Code{
		errors.New("another hash"):                        codes.InvalidArgument,
		fmt.Errorf("%w: by --code", python.ErrCannotRun):  codes.Unimplemented,
		fmt.Errorf("%w: no memory", python.ErrNoProcess):  codes.Unavailable,
		fmt.Errorf("keep: %w", context.DeadlineExceeded):  codes.Unavailable,
		&python.NeedCodeError{SHA256: good.GetSha256()}:   codes.FailedPrecondition,
		fmt.Errorf("%w: %w", errYielded, errors.New("x")): codes.ResourceExhausted,
	} {
		r.keeper.refuse = err
		refused(good, want, "")
	}
	r.keeper.refuse = nil
	r.server.Drain()
	refused(good, codes.Unavailable, "drains")
	if len(r.keeper.kept) > 0 {
		t.Errorf("%d bytes were kept", len(r.keeper.kept))
	}
	none := New(nil, 1, nil, slog.New(slog.DiscardHandler))
	none.SetKeys(r.signer.Keys())
	if err := none.KeepCode(t.Context(), good); status.Code(err) != codes.Unimplemented {
		t.Errorf("a worker without Python: %v", err)
	}
}

// TestAStreamAsksForCode holds that a worker's word for what it lacks reaches the trainer.
func TestAStreamAsksForCode(t *testing.T) {
	need := &python.NeedCodeError{SHA256: bytes.Repeat([]byte{7}, 32)}
	store := &pipelinetest.Store{}
	r := newRig(t, store, 1, nil).shard(t, 20)
	store.Hook = func(context.Context, *pb.File, int64, int64) error { return need }
	body, err := proto.Marshal(r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.client.DoGet(t.Context(), &flight.Ticket{Ticket: body})
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition || !bytes.Equal(code.Need(err), need.SHA256) {
		t.Errorf("%v asks for %x", err, code.Need(err))
	}
}

// TestStatusesOfFunctions says who can help where a function cannot be run, or fails.
func TestStatusesOfFunctions(t *testing.T) {
	failed := &python.FunctionError{Op: "tokenize (transforms[1])", What: "ValueError: bad text"}
	for err, want := range map[error]codes.Code{
		failed: codes.DataLoss, fmt.Errorf("read f: %w", failed): codes.DataLoss,
		fmt.Errorf("%w: numpy is not there", python.ErrCannotRun): codes.Unimplemented,
		fmt.Errorf("%w: no memory", python.ErrNoProcess):          codes.Unavailable,
		errors.Join(failed, context.DeadlineExceeded):             codes.DataLoss,
	} {
		if got := status.Code(grpcError(err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// TestATracebackKeepsItsEnds holds that what is long loses its middle: the head line says where, the end what.
func TestATracebackKeepsItsEnds(t *testing.T) {
	failed := &python.FunctionError{
		Op: "tokenize (transforms[1])", What: "ValueError: " + strings.Repeat("ä", 1000),
		Traceback: strings.Repeat("  File \"train.py\", line 7, in tokenize\n", 90) + "ValueError: the last line",
	}
	err := grpcError(fmt.Errorf("s3://bucket/%s.parquet row group 3: %w", strings.Repeat("long/", 100), failed))
	text := status.Convert(err).Message()
	if !strings.HasPrefix(text, "s3://bucket/long/") || !strings.HasSuffix(text, "\nValueError: the last line") ||
		!strings.Contains(text, "\n  File \"train.py\"") || len(text) > maxMessage+100 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

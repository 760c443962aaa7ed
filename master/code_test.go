package master_test

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/access"
)

// functions are what a trainer has of its Python functions: equal ones may have other bytes.
type functions struct {
	*pb.StoredCode
	data []byte
}

func newFunctions(does string, seed byte, size int) functions {
	digest := sha256.Sum256([]byte(does))
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return functions{code.Of(data, &pb.Code{
		Digest: digest[:], Python: "3.12",
		Functions: []*pb.NamedDigest{{Name: "tokenize", Digest: digest[:]}},
	}), data}
}

func (f functions) request(id string, s *pb.Spec) *pb.OpenRequest {
	s = proto.CloneOf(s)
	s.Code = f.GetIdentity()
	return &pb.OpenRequest{Session: id, Spec: s, WorldSize: 1, Code: f.StoredCode}
}

func (f functions) put(t *testing.T, m pb.MasterClient) {
	t.Helper()
	for p := range code.Parts(f.StoredCode, f.data) {
		_, err := m.PutCode(t.Context(), p)
		check(t, err)
	}
}

// needs fails the test unless an answer asks for the functions' bytes.
func (f functions) needs(t *testing.T, what string, err error) {
	t.Helper()
	if status.Code(err) != codes.FailedPrecondition || !bytes.Equal(code.Need(err), f.GetSha256()) {
		t.Errorf("%s: %v; want it to ask for %x", what, err, f.GetSha256())
	}
}

// are fails the test unless a session's functions are these, and a member gets their bytes.
func (f functions) are(t *testing.T, m pb.MasterClient, id string) {
	t.Helper()
	s, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: id})
	check(t, err)
	if !proto.Equal(s.GetCode(), f.StoredCode) {
		t.Errorf("the session's code is %v, want %v", s.GetCode(), f.StoredCode)
	}
	var got []byte
	for int64(len(got)) < f.GetSize() {
		p, err := m.GetCode(t.Context(), &pb.GetCodeRequest{Session: id, Offset: int64(len(got))})
		check(t, err)
		check(t, code.CheckPart(p))
		got = append(got, p.GetData()...)
	}
	if !bytes.Equal(got, f.data) {
		t.Error("other bytes come back than were sent")
	}
}

// startCode runs a master whose sessions may have functions.
func startCode(t *testing.T, endpoints []string) *node {
	t.Helper()
	return start(t, settings{endpoints: endpoints, Config: master.Config{Code: access.ByValue}})
}

// TestTheBytesOfWhoOpensServeAll opens a session of functions at two masters, one after the other, and attaches a rank
// whose functions are the same and have other bytes.
func TestTheBytesOfWhoOpensServeAll(t *testing.T) {
	endpoints := etcd(t, "").Endpoints()
	first := startCode(t, endpoints)
	s := newSpec(dataset(t, 2))
	opener := newFunctions("splits", 1, code.PartBytes+100)
	other := newFunctions("splits", 2, 500)
	changed := newFunctions("joins", 3, 500)
	open := func(m *node, f functions) error {
		_, err := m.Open(t.Context(), f.request("run", s))
		return err
	}
	opener.needs(t, "open", open(first, opener))
	for p := range code.Parts(opener.StoredCode, opener.data) {
		_, err := first.PutCode(t.Context(), p)
		check(t, err)
		break
	}
	opener.needs(t, "open with half of it there", open(first, opener))
	second := startCode(t, endpoints)
	first.stop()
	eventually(t, "the second master leads", func() bool { return code.Need(open(second, opener)) != nil })
	opener.put(t, second)
	check(t, open(second, opener))
	check(t, open(second, other))
	opener.are(t, second, "run")
	if err := open(second, changed); status.Code(err) != codes.AlreadyExists {
		t.Errorf("other functions attach: %v", err)
	}
	_, err := second.Open(t.Context(), &pb.OpenRequest{Session: "run", Spec: s})
	if status.Code(err) != codes.AlreadyExists {
		t.Errorf("a spec without functions attaches: %v", err)
	}
	if err := newTrainer(t, second, "run", 0, 1).join("a"); err != nil {
		t.Errorf("join: %v", err)
	}
	r := newTrainer(t, second, "run", 0, 1).mustJoin("b")
	r.untilGranted()
	if got := r.open(r.grants[0]).GetCode(); !proto.Equal(got, opener.StoredCode) {
		t.Errorf("the ticket's code is %v", got)
	}
	check(t, second.master.DeleteCode())
	opener.are(t, second, "run")
}

// TestRequestsOfCode are those that contradict themselves.
func TestRequestsOfCode(t *testing.T) {
	m := startCode(t, etcd(t, "").Endpoints())
	s := newSpec(dataset(t, 1))
	f := newFunctions("splits", 1, 500)
	f.put(t, m)
	for want, change := range map[string]func(*pb.OpenRequest){
		"does not say which bytes": func(r *pb.OpenRequest) { r.Code = nil },
		"other functions than its spec": func(r *pb.OpenRequest) {
			r.Code = newFunctions("joins", 2, 5).StoredCode
		},
		"SHA-256 has 3 bytes": func(r *pb.OpenRequest) { r.Code.Sha256 = r.Code.Sha256[:3] },
		"has 16777217 bytes":  func(r *pb.OpenRequest) { r.Code.Size = code.MaxBytes + 1 },
		"digest of 2 bytes": func(r *pb.OpenRequest) {
			r.Code.Identity.Digest = r.Code.Identity.Digest[:2]
			r.Spec.Code = r.Code.Identity
		},
	} {
		r := proto.CloneOf(f.request("run", s))
		change(r)
		if _, err := m.Open(t.Context(), r); status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err := m.PutCode(t.Context(), &pb.CodePart{Sha256: f.GetSha256(), Size: 10, Data: []byte("123")})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a part that is none: %v", err)
	}
	g := newFunctions("joins", 2, 20)
	_, err = m.PutCode(t.Context(), &pb.CodePart{Sha256: g.GetSha256(), Size: 20, Data: f.data[:20]})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("bytes of another hash: %v", err)
	}
	g.needs(t, "opened by them", func() error { _, err := m.Open(t.Context(), g.request("run", s)); return err }())
	_, err = m.Open(t.Context(), f.request("run", s))
	check(t, err)
	if _, err := m.GetCode(t.Context(), &pb.GetCodeRequest{Session: "run", Offset: 7}); status.Code(err) !=
		codes.InvalidArgument {
		t.Errorf("no part's offset: %v", err)
	}
	openSession(t, m, "plain", s, 1)
	if _, err := m.GetCode(t.Context(), &pb.GetCodeRequest{Session: "plain"}); status.Code(err) !=
		codes.FailedPrecondition {
		t.Errorf("the code of a session without: %v", err)
	}
}

// TestWhoMayHaveCode holds that functions are run only where whoever runs the fleet allows it, for a namespace or all.
func TestWhoMayHaveCode(t *testing.T) {
	dir := dataset(t, 1)
	namespaces := "namespaces:\n  vision: {datasets: ['file://" + dir + "/'], code: by-value}\n  speech: {datasets: " +
		"['file://" + dir + "/'], code: none}\n"
	f := newFunctions("splits", 1, 500)
	for flag, want := range map[access.Code]map[string]bool{
		"":             {"alice": true, "eve": false, "fleet": false},
		access.ByValue: {"alice": true, "eve": false, "fleet": true},
	} {
		g := startGuarded(t, namespaces, master.Config{Code: flag})
		for who, may := range want {
			m := g.MasterClient
			if who != "fleet" {
				m = g.master(who)
			}
			_, err := m.Open(t.Context(), f.request("run", newSpec(dir)))
			_, putErr := m.PutCode(t.Context(), &pb.CodePart{Sha256: f.GetSha256(), Size: f.GetSize(), Data: f.data})
			if may {
				f.needs(t, who, err)
				check(t, putErr)
				continue
			}
			for _, err := range []error{err, putErr} {
				if status.Code(err) != codes.FailedPrecondition || code.Need(err) != nil || !strings.Contains(err.Error(), "code: by-value") ||
					!strings.Contains(err.Error(), "--code by-value") {
					t.Errorf("%s with --code %q: %v", who, flag, err)
				}
			}
		}
	}
}

// TestAClosedSessionTakesOtherBytes holds that a session whose bytes were deleted after its end goes on with those of
// whoever restores it.
func TestAClosedSessionTakesOtherBytes(t *testing.T) {
	endpoints := etcd(t, "").Endpoints()
	m := startCode(t, endpoints)
	s := newSpec(dataset(t, 2))
	was := newFunctions("splits", 1, 500)
	was.put(t, m)
	_, err := m.Open(t.Context(), was.request("run", s))
	check(t, err)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	begin := r.state()
	begin.Code = was.GetIdentity()
	r.work(r.finished)
	leaveAll(t, m, "run", r)
	was.are(t, m, "run") // a while longer
	check(t, m.master.DeleteCode())
	if _, err := m.GetCode(t.Context(), &pb.GetCodeRequest{Session: "run"}); status.Code(err) !=
		codes.FailedPrecondition {
		t.Errorf("what was deleted comes: %v", err)
	}
	if _, err := m.Open(t.Context(), was.request("run", s)); err != nil { // to look at it, or to restore it
		t.Errorf("open: %v", err)
	}
	restore := func(m *node, f functions) error {
		reply, err := m.Join(t.Context(), &pb.JoinRequest{
			Session: "run", WorldSize: 1, Nonce: "b", Restoring: true, Restore: []*pb.State{begin}, Code: f.StoredCode,
		})
		if err == nil && reply.GetKind() != pb.JoinKind_RESTORED {
			t.Errorf("joined as %v", reply.GetKind())
		}
		return err
	}
	if err := restore(m, functions{}); status.Code(err) != codes.FailedPrecondition || code.Need(err) != nil {
		t.Errorf("restored by a rank without functions: %v", err)
	}
	other := newFunctions("joins", 3, 500)
	if err := restore(m, other); status.Code(err) != codes.FailedPrecondition || code.Need(err) != nil {
		t.Errorf("restored by a rank with other functions: %v", err)
	}
	now := newFunctions("splits", 2, 700)
	now.needs(t, "restore", restore(m, now))
	now.put(t, m)
	check(t, restore(m, now))
	now.are(t, m, "run")
	r = newTrainer(t, m, "run", 0, 1)
	r.nonce = "b"
	check(t, r.restore("b", true, begin))
	r.untilGranted()
	if got := r.open(r.grants[0]).GetCode(); !proto.Equal(got, now.StoredCode) {
		t.Errorf("the ticket's code is %v", got)
	}
	check(t, m.master.DeleteCode())
	m.stop()
	next := startCode(t, endpoints)
	now.are(t, next, "run")
	if _, err := next.Open(t.Context(), was.request("run", s)); err != nil {
		t.Errorf("a rank with the bytes of before attaches: %v", err)
	}
}

// TestCodeMakesRoom holds that runs which follow each other, of which each has other bytes, find room for them: what was
// used last some time ago goes before its hour.
func TestCodeMakesRoom(t *testing.T) {
	m := startCode(t, etcd(t, "").Endpoints())
	first := func(f functions) *pb.CodePart {
		for part := range code.Parts(f.StoredCode, f.data) {
			return part
		}
		return nil
	}
	begin := func(ago time.Duration) {
		for i := range byte(4) { // of all the bytes that it may have
			part := first(newFunctions("splits", i, code.MaxBytes))
			check(t, m.master.PutCode(t.Context(), identity.DefaultNamespace, part, time.Now().Add(-ago)))
		}
	}
	f := newFunctions("splits", 9, 500)
	begin(10 * time.Minute)
	if _, err := m.PutCode(t.Context(), first(f)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the namespace has more than it may: %v", err)
	}
	check(t, m.master.DeleteCode())
	begin(20 * time.Minute)
	f.put(t, m)
	_, err := m.Open(t.Context(), f.request("run", newSpec(dataset(t, 2))))
	check(t, err)
}

// TestStatesOfOtherFunctions holds that a state is not restored with functions that were changed, unless that is asked
// for, and that it is told then.
func TestStatesOfOtherFunctions(t *testing.T) {
	m := startCode(t, etcd(t, "").Endpoints())
	s := newSpec(dataset(t, 2))
	was, is := newFunctions("splits", 1, 500), newFunctions("joins", 2, 500)
	for id, f := range map[string]functions{"before": was, "after": is} {
		f.put(t, m)
		_, err := m.Open(t.Context(), f.request(id, s))
		check(t, err)
	}
	old := newTrainer(t, m, "before", 0, 1).mustJoin("a")
	state := old.state()
	state.Code = was.GetIdentity()
	req := &pb.JoinRequest{
		Session: "after", WorldSize: 1, Nonce: "b", Restoring: true, Restore: []*pb.State{state}, Code: is.StoredCode,
	}
	_, err := m.Join(t.Context(), req)
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "other Python functions") ||
		!strings.Contains(err.Error(), "accept_code_change") {
		t.Errorf("joined with states of others: %v", err)
	}
	_, err = m.RestoreSession(t.Context(), &pb.RestoreSessionRequest{
		Session: "after", Name: "noon", Nonce: "c",
		Checkpoint: &pb.Checkpoint{Name: "noon", WorldSize: 1, State: state},
	})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "other Python functions") {
		t.Errorf("put back to a checkpoint of others: %v", err)
	}
	req.AcceptCodeChange = true
	reply, err := m.Join(t.Context(), req)
	check(t, err)
	if reply.GetKind() != pb.JoinKind_RESTORED {
		t.Errorf("joined as %v", reply.GetKind())
	}
	eventually(t, "the change is told", func() bool {
		events, err := m.ListEvents(t.Context(), &pb.ListEventsRequest{Session: "after"})
		check(t, err)
		for _, e := range events.GetEvents() {
			if strings.Contains(e.GetWords(), "restored with other code") {
				return true
			}
		}
		return false
	})
	own := newTrainer(t, m, "after", 0, 1)
	state = proto.CloneOf(state)
	state.Code, state.Session = is.GetIdentity(), "before"
	if err := own.restore("d", true, state); err != nil {
		t.Errorf("a state of the same functions: %v", err)
	}
}

// TestASessionThatSleptTakesOtherBytes is the same of a session that nobody was in, and somebody comes back to.
func TestASessionThatSleptTakesOtherBytes(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{
		Code: access.ByValue, Lease: 200 * time.Millisecond, CloseAfter: time.Millisecond,
	}})
	s := newSpec(dataset(t, 2))
	was, now := newFunctions("splits", 1, 500), newFunctions("splits", 2, 700)
	was.put(t, m)
	_, err := m.Open(t.Context(), was.request("run", s))
	check(t, err)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	r.untilGranted()
	asleep(t, m, "run")
	check(t, m.master.DeleteCode())
	join := &pb.JoinRequest{Session: "run", WorldSize: 1, Nonce: "b", Code: now.StoredCode}
	_, err = m.Join(t.Context(), join)
	now.needs(t, "join", err)
	now.put(t, m)
	_, err = m.Join(t.Context(), join)
	check(t, err)
	now.are(t, m, "run")
	asleep(t, m, "run")
	now.are(t, m, "run") // as its summary says
}

// TestStatesOfOtherLimits holds that a state is restored where functions may take more than they might, or promise more,
// and not where they are called otherwise.
func TestStatesOfOtherLimits(t *testing.T) {
	m := startCode(t, etcd(t, "").Endpoints())
	f := newFunctions("chunks", 1, 500)
	f.put(t, m)
	dir := dataset(t, 2)
	limited := func(f *pb.Function) {
		f.Memory, f.Threads, f.TimeoutMs, f.Most, f.Deterministic = 1<<30, 2, 1000, 9, true
	}
	digests := map[string]string{} // of tickets' programs, which say it all
	var state *pb.State
	for id, change := range map[string]func(*pb.Function){
		"before": func(*pb.Function) {}, "after": limited, "random": func(f *pb.Function) { f.Rng = true },
	} {
		s := chunked(dir)
		s.LastBatch = pb.LastBatch_UNEVEN
		change(s.GetTransforms()[0].GetPython())
		_, err := m.Open(t.Context(), f.request(id, s))
		check(t, err)
		r := newTrainer(t, m, id, 0, 1).mustJoin("a")
		r.untilGranted()
		digests[id] = string(r.open(r.grants[0]).GetProgramDigest())
		if id == "before" {
			state = r.state()
			state.Code = f.GetIdentity()
		}
	}
	if digests["before"] == digests["after"] {
		t.Error("workers take one program for another that has other limits")
	}
	if err := newTrainer(t, m, "after", 0, 1).restore("b", true, state); err != nil {
		t.Errorf("with other limits: %v", err)
	}
	err := newTrainer(t, m, "random", 0, 1).restore("b", true, state)
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "of another spec") {
		t.Errorf("called otherwise: %v", err)
	}
}

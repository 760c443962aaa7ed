package master_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/apache/arrow/go/v15/arrow/flight"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// guarded is a master with tokens: those of tokenOf, and the fleet's.
type guarded struct {
	*node
	t *testing.T
}

func tokenOf(name string) string { return name + "-token-of-16-or-more" }

const fleetToken = "the-fleets-own"

func startGuarded(t *testing.T, namespaces string, cfg master.Config) guarded {
	t.Helper()
	return startGuardedAt(t, etcd(t, "").Endpoints(), namespaces, cfg)
}

func startGuardedAt(t *testing.T, endpoints []string, namespaces string, cfg master.Config) guarded {
	t.Helper()
	text := "tokens:\n"
	for name, as := range map[string]string{
		"alice": "namespace: vision, roles: [trainer]", "amy": "namespace: vision, roles: [trainer]",
		"boss": "namespace: vision, roles: [admin]",
		"eve":  "namespace: speech, roles: [admin]", "wall": "namespace: '*', roles: [viewer]",
		"worker": "namespace: '*', roles: [worker]",
	} {
		text += fmt.Sprintf("  - {token: %s, subject: %s, %s}\n", tokenOf(name), name, as)
	}
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	check(t, os.WriteFile(tokens, []byte(text), 0o600))
	own := access.Config{Fleet: rpc.NewSecret(fleetToken), Tokens: tokens, Logger: slog.New(slog.DiscardHandler)}
	if namespaces != "" {
		own.Namespaces = filepath.Join(dir, "namespaces.yaml")
		check(t, os.WriteFile(own.Namespaces, []byte(namespaces), 0o600))
	}
	var err error
	cfg.Access, err = access.New(own)
	check(t, err)
	cfg.RPC.Token = rpc.NewSecret(fleetToken)
	return guarded{start(t, settings{endpoints: endpoints, Config: cfg}), t}
}

// as returns a connection of somebody's, that is about a namespace.
func (g guarded) as(token, namespace string) *grpc.ClientConn {
	g.t.Helper()
	conn, err := rpc.Dial(g.address, rpc.Config{Token: rpc.NewSecret(token), Namespace: namespace})
	check(g.t, err)
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (g guarded) master(name string) pb.MasterClient {
	return pb.NewMasterClient(g.as(tokenOf(name), ""))
}

// call invokes a method of the master's service with a request that names a session, and returns all that the answer
// says.
func call(t *testing.T, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, session string) (string, codes.Code) {
	t.Helper()
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	for name, value := range map[protoreflect.Name]string{"session": session, "nonce": "n", "name": "c"} {
		if f := m.Input().Fields().ByName(name); f != nil {
			in.Set(f, protoreflect.ValueOfString(value))
		}
	}
	ctx, cancel := timely(t)
	defer cancel()
	err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()), in, out)
	return status.Convert(err).Message() + prototext.Format(out), status.Code(err)
}

// TestOthersSessionsAreNotThere tries each call with the id of another namespace's session: the answer is that of an id
// which nobody has.
func TestOthersSessionsAreNotThere(t *testing.T) {
	g := startGuarded(t, "", master.Config{})
	dir := dataset(t, 2)
	openSession(t, g.master("alice"), "hidden-run", newSpec(dir), 1)
	methods := pb.File_api_pb_control_proto.Services().ByName("Master").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		theirs, code := call(t, g.as(tokenOf("eve"), ""), m, "hidden-run")
		nobodys, none := call(t, g.as(tokenOf("eve"), ""), m, "no-such-run")
		for _, leak := range []string{dir, "alice", "vision"} {
			if strings.Contains(theirs, leak) {
				t.Errorf("%s tells another namespace of %q: %s", m.Name(), leak, theirs)
			}
		}
		if m.Name() != "Observe" && m.Name() != "GetFleet" &&
			strings.ReplaceAll(theirs, "hidden-run", "no-such-run") != nobodys || code != none {
			t.Errorf("%s tells a hidden session (%v: %s) from one that is not there (%v: %s)",
				m.Name(), code, theirs, none, nobodys)
		}
		if m.Input().Fields().ByName("session") != nil && m.Name() != "ListEvents" && code == codes.OK {
			t.Errorf("%s is taken: %s", m.Name(), theirs)
		}
		for token, want := range map[string]codes.Code{
			"": codes.Unauthenticated, "wrong": codes.Unauthenticated,
			tokenOf("alice") + "x": codes.Unauthenticated,
		} {
			if said, code := call(t, g.as(token, ""), m, "hidden-run"); code != want ||
				strings.Contains(said, "hidden-run") {
				t.Errorf("%s with token %q: %v, %s", m.Name(), token, code, said)
			}
		}
		if said, code := call(t, g.as(tokenOf("eve"), "vision"), m, "hidden-run"); code != codes.PermissionDenied ||
			strings.Contains(said, "hidden-run") {
			t.Errorf("%s in another's namespace: %v, %s", m.Name(), code, said)
		}
	}
	if s, err := g.master("alice").GetSession(t.Context(), &pb.GetSessionRequest{Session: "hidden-run"}); err != nil ||
		s.GetOwner() != "alice" || s.GetNamespace() != "vision" || s.GetGeneration() != 1 {
		t.Errorf("after all that: %v, %v", s, err)
	}
}

func TestNamespacesHaveTheirOwnSessions(t *testing.T) {
	g := startGuarded(t, "", master.Config{})
	one, other := newSpec(dataset(t, 1)), newSpec(dataset(t, 2))
	openSession(t, g.master("alice"), "run", one, 1)
	openSession(t, g.master("eve"), "run", other, 2)
	openSession(t, g.MasterClient, "run", one, 3)
	list := func(m pb.MasterClient) (out string) {
		l, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{})
		check(t, err)
		for _, s := range l.GetSessions() {
			out += fmt.Sprintf("%s/%s of %s, %d files; ", s.GetNamespace(), s.GetId(), s.GetOwner(), s.GetFiles())
		}
		return out
	}
	const vision, speech = "vision/run of alice, 1 files; ", "speech/run of eve, 2 files; "
	for name, want := range map[string]string{
		"alice": vision, "amy": vision, "eve": speech,
		"wall": "default/run of fleet, 1 files; " + speech + vision,
	} {
		if got := list(g.master(name)); got != want {
			t.Errorf("%s sees %q, want %q", name, got, want)
		}
	}
	if got := list(pb.NewMasterClient(g.as(tokenOf("wall"), "speech"))); got != speech {
		t.Errorf("in one namespace: %q", got)
	}
	ask := &pb.DeleteSessionRequest{Session: "run"}
	for name, want := range map[string]codes.Code{
		"amy": codes.PermissionDenied, "wall": codes.PermissionDenied,
		"worker": codes.PermissionDenied,
	} {
		if _, err := g.master(name).DeleteSession(t.Context(), ask); status.Code(err) != want {
			t.Errorf("%s deletes: %v", name, err)
		}
	}
	if _, err := g.master("amy").RestoreSession(t.Context(), &pb.RestoreSessionRequest{
		Session: "run", Name: "c",
		Nonce: "n",
	}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("amy restores: %v", err)
	}
	if _, err := g.master("alice").DeleteSession(t.Context(), ask); err != nil {
		t.Error(err)
	}
	if _, err := g.master("eve").GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"}); err != nil {
		t.Errorf("alice deleted eve's: %v", err)
	}
	openSession(t, g.master("alice"), "run", one, 1)
	if _, err := g.master("boss").DeleteSession(t.Context(), ask); err != nil {
		t.Errorf("the administrator: %v", err)
	}
	events, err := g.master("eve").ListEvents(t.Context(), &pb.ListEventsRequest{})
	check(t, err)
	for _, e := range events.GetEvents() {
		if e.GetSession() != "" && e.GetNamespace() != "speech" || strings.Contains(e.GetWords(), "vision") {
			t.Errorf("eve is told: %v", e)
		}
	}
}

func TestNamespacesReadWhatIsTheirs(t *testing.T) {
	mine, others := dataset(t, 1), dataset(t, 1)
	check(t, os.Symlink(filepath.Join(others, "day=0"), filepath.Join(mine, "link")))
	check(t, os.Symlink(filepath.Join(others, "day=0", "part.parquet"), filepath.Join(mine, "day=0", "x.parquet")))
	limits := fmt.Sprintf(
		"namespaces:\n  vision: {datasets: ['file://%s/'], max_sessions: 2, max_workers: 4}\n  speech: {}\n", mine)
	g := startGuarded(t, limits, master.Config{})
	addSpec := func(uri string) *pb.Spec {
		s := newSpec("")
		s.Dataset.Uri = []string{uri}
		return s
	}
	try := func(m pb.MasterClient, id string, s *pb.Spec, min uint32) error {
		ctx, cancel := timely(t)
		defer cancel()
		_, err := m.Open(ctx, &pb.OpenRequest{Session: id, Spec: s, Share: &pb.Share{MinWorkers: min}})
		return err
	}
	refused := func(what string, err error, words string) {
		t.Helper()
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.FailedPrecondition ||
			!strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "part.parquet") {
			t.Errorf("%s: %v", what, err)
		}
	}
	alice := g.master("alice")
	for _, uri := range []string{
		others + "/", mine + "/../" + filepath.Base(others) + "/", mine + "*/",
		filepath.Dir(mine) + "/**", "s3://bucket/",
	} {
		refused(uri, try(alice, "x", addSpec(uri), 0), "may not read")
	}
	refused("a link to a directory", try(alice, "x", addSpec(mine+"/link/"), 0), "by a link")
	refused("a link to a file", try(alice, "x", addSpec(mine+"/day=0/"), 0), "leads out of it")
	check(t, os.WriteFile(filepath.Join(others, "README.md"), []byte("---\nconfigs: secret\n---\n"), 0o644))
	check(t, os.Symlink(filepath.Join(others, "README.md"), filepath.Join(mine, "README.md")))
	split := addSpec(mine + "/")
	split.Dataset.Split = "train"
	refused("what tells of splits, by a link", try(alice, "x", split, 0), "leads out of it")
	profile := addSpec(mine + "/day=0/part.parquet")
	profile.Dataset.Storage = "others"
	refused("a profile", try(alice, "x", profile, 0), `may not use storage profile "others"`)
	join := func(table, profile string) *pb.Spec {
		s := addSpec(mine + "/day=0/part.parquet")
		text := func(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }
		params := map[string]*pb.Value{"table": text(table), "columns": text("x"), "duplicates": text("first")}
		if profile != "" {
			params["storage"] = text(profile)
		}
		s.Transforms = []*pb.Transform{{Op: spec.LookupOp, In: []string{"label"}, Out: "joined", Params: params}}
		s.Features[0].Name = []string{"joined"}
		return s
	}
	const table = "transforms[0].table: namespace vision may not "
	refused("a table", try(alice, "x", join(others+"/day=0/", ""), 0), table+"read")
	refused("a table by a link", try(alice, "x", join(mine+"/link/", ""), 0), "leads out of")
	refused("a table's profile", try(alice, "x", join(mine+"/day=0/part.parquet", "others"), 0), table+"use")
	fitted := func(uri string) *pb.Spec {
		s := addSpec(mine + "/day=0/part.parquet")
		s.Fitted = &pb.Fitted{Uri: uri}
		return s
	}
	refused("a fitted file", try(alice, "x", fitted(others+"/fitted"), 0), "fitted: namespace vision may not read")
	refused("a fitted file by a link", try(alice, "x", fitted(mine+"/link/fitted.parquet"), 0), "leads out of")
	refused("a namespace with nothing", try(g.master("eve"), "x", newSpec(mine), 0), "below nothing")
	text, err := spec.Format(addSpec(others + "/"))
	check(t, err)
	_, err = flight.NewFlightServiceClient(g.as(tokenOf("alice"), "")).GetFlightInfo(t.Context(),
		&flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: text})
	refused("by Flight", err, "may not read")

	good := addSpec(mine + "/day=0/part.parquet")
	check(t, try(alice, "a", good, 3))
	refused("workers", try(alice, "b", good, 2), "max_workers")
	check(t, try(alice, "b", good, 1))
	check(t, try(alice, "b", good, 1)) // it is there
	refused("sessions", try(alice, "c", good, 0), "max_sessions")
	// no limit binds the fleet's own
	check(t, try(pb.NewMasterClient(g.as(fleetToken, "vision")), "c", addSpec(others+"/"), 0))
	who, err := alice.WhoAmI(t.Context(), &pb.WhoAmIRequest{})
	check(t, err)
	if who.GetSubject() != "alice" || who.GetNamespace() != "vision" || len(who.GetDatasets()) != 1 ||
		who.GetMaxSessions() != 2 || who.GetUnlimited() || who.GetCode() != "none" {
		t.Errorf("alice is %v", who)
	}
}

// TestNothingIsKeptForSessionsThatAreOver holds that a session which is over takes none of its namespace's workers from
// the next one, and is not brought back while that has them.
func TestNothingIsKeptForSessionsThatAreOver(t *testing.T) {
	dir := dataset(t, 1)
	g := startGuarded(t, fmt.Sprintf("namespaces:\n  vision: {datasets: ['file://%s/'], max_workers: 4}\n", dir),
		master.Config{})
	alice := g.master("alice")
	open := func(id string) error {
		ctx, cancel := timely(t)
		defer cancel()
		_, err := alice.Open(ctx, &pb.OpenRequest{
			Session: id, Spec: newSpec(dir), WorldSize: 1,
			Share: &pb.Share{MinWorkers: 4},
		})
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "max_workers") {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(t, open("monday"))
	refused("the next one while the first is read", open("tuesday"))
	r := newTrainer(t, g.node, "monday", 0, 1)
	r.master = alice
	begin := r.mustJoin("a").state()
	r.work(r.finished)
	check(t, open("tuesday"))
	refused("restored, while the next one is there", r.restore("b", true, begin))
	_, err := alice.RestoreSession(t.Context(), &pb.RestoreSessionRequest{Session: "monday", Name: "none", Nonce: "c"})
	refused("put back to a checkpoint", err)
	tuesday := &pb.DeleteSessionRequest{Session: "tuesday"}
	_, err = alice.DeleteSession(t.Context(), tuesday)
	check(t, err)
	if _, err := alice.RestoreSession(t.Context(), &pb.RestoreSessionRequest{
		Session: "monday", Name: "none",
		Nonce: "c",
	}); status.Code(err) != codes.NotFound {
		t.Errorf("put back to a checkpoint that is not there: %v", err)
	}
	check(t, open("tuesday")) // what failed keeps nothing
	_, err = alice.DeleteSession(t.Context(), tuesday)
	check(t, err)
	check(t, r.restore("b", true, begin))
	refused("the next one once the first is back", open("wednesday"))
}

// TestOneOfTwoIsBroughtBack holds that two sessions which are restored at the same time do not both come back if there
// are workers for one.
func TestOneOfTwoIsBroughtBack(t *testing.T) {
	e := etcd(t, "")
	proxy, err := storetest.NewProxy(t.Context(), e.Endpoints()[0])
	check(t, err)
	t.Cleanup(func() { check(t, proxy.Close()) })
	dir := dataset(t, 1)
	g := startGuardedAt(t, []string{proxy.Endpoint},
		fmt.Sprintf("namespaces:\n  vision: {datasets: ['file://%s/'], max_workers: 4}\n", dir), master.Config{})
	alice := g.master("alice")
	var trainers []*trainer
	var begins []*pb.State
	for _, id := range []string{"monday", "tuesday"} {
		_, err := alice.Open(t.Context(), &pb.OpenRequest{
			Session: id, Spec: newSpec(dir), WorldSize: 1,
			Share: &pb.Share{MinWorkers: 4},
		})
		check(t, err)
		r := newTrainer(t, g.node, id, 0, 1)
		r.master = alice
		trainers, begins = append(trainers, r), append(begins, r.mustJoin("a").state())
		r.work(r.finished)
	}

	// Both restores are there before either session, which waits for etcd, takes up its own.
	held, slow := make(chan struct{}, 100), make(chan struct{})
	proxy.OnTxn(func(forward func() error) error {
		held <- struct{}{}
		<-slow
		return forward()
	})
	var group errgroup.Group
	for _, r := range trainers {
		last := r.request()
		group.Go(func() error {
			_, err := alice.Sync(t.Context(), last)
			// another transaction was held, as of an event, and the restore came first
			if status.Code(err) == codes.Aborted {
				return nil
			}
			return err
		})
		<-held
	}
	var back atomic.Int32
	for i, r := range trainers {
		group.Go(func() error {
			err := r.restore("b", true, begins[i])
			if err == nil {
				back.Add(1)
			} else if status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), "max_workers") {
				return nil
			}
			return err
		})
	}
	time.AfterFunc(200*time.Millisecond, func() { close(slow) })
	check(t, group.Wait())
	if n := back.Load(); n != 1 {
		t.Errorf("%d sessions came back, and there are workers for one", n)
	}
}

// TestAbandonedSessionsExpire holds that a session is deleted when no trainer was heard of for long, by whichever
// master leads then, and not before.
func TestAbandonedSessionsExpire(t *testing.T) {
	etcd := etcd(t, "")
	const ttl = 4 * time.Second
	cfg := master.Config{Lease: 200 * time.Millisecond, SessionTTL: ttl}
	first := start(t, settings{endpoints: etcd.Endpoints(), Config: cfg, ttl: time.Second})
	dir := dataset(t, 2)
	openSession(t, first, "abandoned", newSpec(dir), 1)
	openSession(t, first, "read", newSpec(dir), 1)
	trainer := newTrainer(t, first, "read", 0, 1)
	trainer.mustJoin("start")
	first.stop()
	second := start(t, settings{endpoints: etcd.Endpoints(), Config: cfg, ttl: time.Second})
	trainer.master = second
	there := func(id string) bool {
		check(t, trainer.sync())
		_, err := second.GetSession(t.Context(), &pb.GetSessionRequest{Session: id})
		return status.Code(err) != codes.NotFound
	}
	opened := time.Now()
	eventually(t, "the abandoned session is gone", func() bool { return !there("abandoned") })
	if !there("read") {
		t.Error("a session that is read expired")
	}
	t.Logf("it went after %v", time.Since(opened))
	eventually(t, "the event is told", func() bool {
		events, err := second.ListEvents(t.Context(), &pb.ListEventsRequest{Session: "abandoned"})
		check(t, err)
		for _, e := range events.GetEvents() {
			if strings.Contains(e.GetWords(), "expired") {
				return true
			}
		}
		return false
	})
}

// TestFollowersTellNoMore holds that a master that does not lead shows a caller what the leader would, of its own
// namespace and of no other.
func TestFollowersTellNoMore(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	endpoints := etcd(t, "").Endpoints()
	var addresses []string
	var masters []guarded
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		addresses = append(addresses, "http://"+l.Addr().String())
		masters = append(masters, startGuardedAt(t, endpoints, "", master.Config{HTTP: l}))
	}
	s := newSpec(dataset(t, 1))
	for name, id := range map[string]string{"alice": "seen-by-vision", "eve": "seen-by-speech"} {
		_, err := masters[0].master(name).Open(t.Context(), &pb.OpenRequest{Session: id, Spec: s, WorldSize: 1})
		check(t, err)
		eventually(t, "its event is kept", func() bool {
			_, body := httpGet(t, addresses[0]+"/api/v1/events", tokenOf(name))
			return strings.Contains(body, id)
		})
	}
	for i, at := range addresses {
		for _, path := range []string{
			"sessions", "observation?workers=1", "events", "events?session=seen-by-vision",
			"observation?session=seen-by-vision",
		} {
			if code, body := httpGet(t, at+"/api/v1/"+path, tokenOf("alice")); code != 200 ||
				strings.HasPrefix(path, "sess") && !strings.Contains(body, "seen-by-vision") ||
				strings.Contains(body, "seen-by-speech") {
				t.Errorf("master %d shows vision %s: %d %s", i, path, code, body)
			}
			code, body := httpGet(t, at+"/api/v1/"+path, tokenOf("eve"))
			if want := map[bool]int{true: 404, false: 200}[path == "observation?session=seen-by-vision"]; code != want {
				t.Errorf("master %d answers speech %s: %d %s", i, path, code, body)
			}
			for _, others := range []string{"seen-by-vision\",", "vision\"", "alice"} {
				if strings.Contains(body, others) {
					t.Errorf("master %d shows speech %q of others, %s: %s", i, others, path, body)
				}
			}
		}
		if code, body := httpGet(t, at+"/api/v1/events", tokenOf("alice")); code != 200 ||
			!strings.Contains(body, "seen-by-vision") {
			t.Errorf("master %d shows vision's own events: %d %s", i, code, body)
		}
	}
	if _, err := masters[1].master("eve").ListEvents(t.Context(),
		&pb.ListEventsRequest{}); status.Code(err) != codes.Unavailable || rpc.Leader(err) != masters[0].address {
		t.Errorf("a call of a master that does not lead: %v", err)
	}
}

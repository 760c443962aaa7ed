package client

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// joined is a config of a session that the test itself opens and joins.
func joined(t *testing.T, fl *fake.Net, cfg Config) Config {
	t.Helper()
	conn, err := fl.Dial(cfg.Masters[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cfg = cfg.withDefaults()
	m, j := pb.NewMasterClient(conn), &Joined{Nonce: "of the program", Sent: time.Now()}
	if j.Session, err = m.Open(t.Context(), &pb.OpenRequest{Session: cfg.Session, Spec: cfg.Spec, WorldSize: cfg.WorldSize}); err != nil {
		t.Fatal(err)
	}
	req := &pb.JoinRequest{Session: cfg.Session, Rank: cfg.Rank, WorldSize: cfg.WorldSize, Nonce: j.Nonce}
	if j.Join, err = m.Join(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	cfg.Spec, cfg.Joined = nil, j
	return cfg
}

// TestJoinedByOthers makes no calls but Syncs, as the one that joined.
func TestJoinedByOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		cfg := joined(t, fl, config(fl, "m"))
		m.Intercept = func(req proto.Message) error {
			if req, ok := req.(*pb.SyncRequest); !ok || req.GetNonce() != "of the program" || req.GetIncarnation() != 1 {
				t.Errorf("the call %v", req)
			}
			return nil
		}
		s := open(t, cfg)
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if !m.Ranks[0].Left {
			t.Error("the rank did not leave")
		}
		checkMaster(t, m)
	})
}

// TestJoinedLease runs from when the Join was sent.
func TestJoinedLease(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		m.Intercept = func(req proto.Message) error {
			if req, ok := req.(*pb.SyncRequest); ok && !req.GetLeave() {
				return status.Error(codes.Unavailable, "etcd is away")
			}
			return nil
		}
		m.LeaseMs = 30_000
		cfg := joined(t, fl, config(fl, "m"))
		time.Sleep(20 * time.Second)
		s := open(t, cfg)
		for _, at := range []struct {
			after  time.Duration
			lapsed bool
		}{{9 * time.Second, false}, {2 * time.Second, true}} {
			time.Sleep(at.after)
			synctest.Wait()
			if w := s.Waiting(); w.Lapsed != at.lapsed {
				t.Errorf("%v behind the Join, with a lease of 30 s: %+v", time.Since(cfg.Joined.Sent), w)
			}
		}
	})
}

// TestJoinedAnswersAreChecked as those to calls of Open's own.
func TestJoinedAnswersAreChecked(t *testing.T) {
	good := &pb.Session{Spec: &pb.Spec{}, BatchSize: 8}
	for _, j := range []*Joined{
		{},
		{Session: good, Join: &pb.JoinReply{}},
		{Session: &pb.Session{}, Join: &pb.JoinReply{LeaseMs: 1000}},
		{Session: &pb.Session{Spec: &pb.Spec{Order: pb.Order_DETERMINISTIC}, BatchSize: 8}, Join: &pb.JoinReply{LeaseMs: 1000}},
		{Session: &pb.Session{State: pb.SessionState_FAILED, BatchSize: 8}, Join: &pb.JoinReply{LeaseMs: 1000}},
	} {
		cfg := config(fake.InMemory(t), "m")
		cfg.Joined = j
		if s, err := Open(t.Context(), cfg); err == nil {
			_ = s.Close()
			t.Errorf("opened with %v", j)
		}
	}
}

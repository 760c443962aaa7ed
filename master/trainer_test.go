package master_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/ticket"
)

// trainer is a scripted trainer: it consumes what it is granted without asking a worker.
type trainer struct {
	t       *testing.T
	master  pb.MasterClient
	session string
	rank    uint32
	world   uint32
	zone    string
	joined  *pb.JoinReply
	nonce   string // of the Join
	keys    map[string][]byte

	consumed position.Set
	epoch    uint32
	grants   []*pb.Grant
	tickets  int // that came with them
	last     *pb.SyncReply
	counters pb.Counters
	read     map[string]int // how often a row group was consumed, whole
}

func newTrainer(t *testing.T, m *node, session string, rank, world uint32) *trainer {
	t.Helper()
	orders, err := m.SyncWorker(t.Context(), &pb.WorkerReport{Name: "w"})
	check(t, err)
	return &trainer{
		t: t, master: m, session: session, rank: rank, world: world, keys: orders.GetKeys(),
		read: map[string]int{},
	}
}

// timely bounds a call.
func timely(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}

func (r *trainer) join(nonce string) error { return r.restore(nonce, false) }

// restore joins with states, and takes part in a restore even without any.
func (r *trainer) restore(nonce string, restoring bool, states ...*pb.State) error {
	r.t.Helper()
	ctx, cancel := timely(r.t)
	defer cancel()
	reply, err := r.master.Join(ctx, &pb.JoinRequest{
		Session: r.session, Rank: r.rank, WorldSize: r.world, Nonce: nonce, Restore: states, Restoring: restoring,
	})
	if err != nil {
		return err
	}
	r.joined, r.nonce, r.last, r.grants = reply, nonce, nil, nil
	r.consumed, r.epoch = position.SetFromProto(reply.GetConsumed()), reply.GetClosedEpochs()
	return nil
}

func (r *trainer) mustJoin(nonce string) *trainer {
	r.t.Helper()
	check(r.t, r.join(nonce))
	return r
}

func (r *trainer) request() *pb.SyncRequest {
	return &pb.SyncRequest{
		Session: r.session, Rank: r.rank, Nonce: r.nonce, Generation: r.joined.GetGeneration(),
		Incarnation: r.joined.GetIncarnation(),
		Consumed:    r.consumed.Proto(), Revision: r.last.GetRevision(), BaseVersion: r.last.GetBaseVersion(),
		WantsMore: true,
		Zone:      r.zone, Counters: proto.CloneOf(&r.counters),
	}
}

// sync makes one exchange and takes over the reply.
func (r *trainer) sync() error { return r.send(r.request()) }

// untilGranted calls until the rank is granted something.
func (r *trainer) untilGranted() {
	r.t.Helper()
	eventually(r.t, "shards are granted", func() bool {
		check(r.t, r.sync())
		return len(r.last.GetGrants()) > 0
	})
}

func (r *trainer) send(req *pb.SyncRequest) error {
	ctx, cancel := timely(r.t)
	defer cancel()
	reply, err := r.master.Sync(ctx, req)
	if err != nil {
		return err
	}
	if !reply.GetUnchanged() {
		r.grants, r.tickets = reply.GetGrants(), 0
		for i, g := range r.grants {
			if len(g.GetTicket()) == 0 {
				g.Ticket = r.grants[i-1].GetTicket()
			} else {
				r.tickets++
			}
		}
	}
	for r.epoch < reply.GetClosedEpochs() {
		r.epoch++
		r.consumed = r.consumed.Subtract(position.Set{{To: position.Position{Epoch: r.epoch}}})
	}
	r.last = reply
	return nil
}

// consume hands over all of the first n grants of the open epoch that it has not handed over yet, and says how many
// there were.
func (r *trainer) consume(n int) (done int) {
	r.t.Helper()
	for _, g := range r.grants {
		iv := position.IntervalFromProto(g.GetInterval())
		if done == n || iv.From.Epoch != r.epoch || r.consumed.Contains(iv.From) {
			continue
		}
		done++
		t := r.open(g)
		for _, rg := range t.GetExtents() {
			r.read[fmt.Sprintf("%d %s %d", t.GetEpoch(), t.GetFile().GetUri(), rg.GetIndex())]++
			r.counters.Rows += rg.GetRows()
		}
		r.consumed = r.consumed.Union(position.Set{iv})
	}
	return done
}

// open verifies a grant's ticket as a worker does.
func (r *trainer) open(g *pb.Grant) *pb.Ticket {
	r.t.Helper()
	signed := &pb.SignedTicket{}
	check(r.t, proto.Unmarshal(g.GetTicket(), signed))
	t, err := ticket.Verify(&pb.StreamRequest{Ticket: signed, Program: r.joined.GetSession().GetProgram()}, r.keys,
		time.Now())
	check(r.t, err)
	from := g.GetInterval().GetFrom()
	if t.GetSession() != r.session || t.GetEpoch() != from.GetEpoch() || t.GetBlock() != from.GetBlock() ||
		t.GetShard() != from.GetShard() ||
		t.GetGeneration() != r.joined.GetGeneration() {
		r.t.Errorf("the ticket of %v is %v", g.GetInterval(), t)
	}
	return t
}

// work Syncs and consumes until a condition holds after a Sync. Masters may be away for a while.
func (r *trainer) work(until func() bool) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("rank %d is done", r.rank), func() bool {
		r.consume(1 << 20)
		err := r.sync()
		if status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded {
			return false
		}
		check(r.t, err)
		return until()
	})
}

// state is the trainer's checkpoint.
func (r *trainer) state() *pb.State {
	s := r.joined.GetSession()
	return &pb.State{
		Version: 1, Session: r.session, Generation: r.joined.GetGeneration(), Rank: r.rank, WorldSize: r.world,
		Base: r.joined.GetBase(), Consumed: r.consumed.Proto(), ClosedEpochs: r.epoch,
		ProgramDigest: s.GetProgramDigest(), DatasetDigest: s.GetDatasetDigest(), PlannerDigest: s.GetPlannerDigest(),
		BaseVersion: r.joined.GetBaseVersion(), Members: r.joined.GetMembers(), Departed: r.joined.GetDeparted(),
		DepartedRows: r.joined.GetDepartedRows(), Indexes: r.last.GetIndexes(),
	}
}

func (r *trainer) finished() bool { return r.last.GetFinished() }

// once fails the test unless trainers together read each row group of a dataset once per epoch.
func once(t *testing.T, files, epochs int, trainers ...*trainer) {
	t.Helper()
	total := map[string]int{}
	for _, r := range trainers {
		for key, n := range r.read {
			total[key] += n
		}
	}
	if len(total) != files*groups*epochs {
		t.Errorf("%d row groups were read, want %d", len(total), files*groups*epochs)
	}
	for key, n := range total {
		if n != 1 {
			t.Errorf("row group %s was read %d times", key, n)
		}
	}
}

func openSession(t *testing.T, m pb.MasterClient, id string, s *pb.Spec, world uint32) *pb.Session {
	t.Helper()
	ctx, cancel := timely(t)
	defer cancel()
	out, err := m.Open(ctx, &pb.OpenRequest{Session: id, Spec: s, WorldSize: world})
	check(t, err)
	return out
}

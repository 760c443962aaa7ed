package session

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// model is a whole job: the state machine, the etcd it is written to, trainers, and the network between them.
type model struct {
	draw      func(n int) int
	d         dataset
	id        Identity
	s         *State
	etcd      map[string][]byte
	writes    uint64          // to etcd
	masters   *masters        // nil: one that never fails
	trainers  []*trainer      // the newest start of each rank
	away      map[uint32]bool // ranks that left and never come again
	network   []request       // sent and not delivered, or to be delivered again
	nonces    int
	mostWorld int // of jobs that are restored
	execute   executor

	batchSize int                            // 0: ranks do not count steps
	drop      *dropped                       // nil: last batches are not dropped
	ends      map[epochEnd]map[uint32]uint64 // after how many batches training loops ended epochs, by rank
	lives     int                            // of etcd

	handed  tally // rows handed over
	excused tally // rows that a dead trainer may have handed over without reporting it
	saved   *saved
	taken   map[uint32]stale // an earlier state of each rank

	passes *modelPasses // nil: no training loop leaves an epoch before its end
	faults *faults      // nil: all rows can be read
	moved  bool         // states went to another etcd, where of what was skipped only the number is known
	before position.Set // what was skipped before the restored states

	began    tally                       // rows consumed when the generation began
	together bool                        // all ranks start
	gone     tally                       // rows of ranks of it that left and came back
	parts    map[uint64]map[uint32]tally // rows that ranks had consumed when they took States, by order
	kept     *Named                      // a checkpoint, outside of etcd
	truth    tally                       // the rows that it consumed
}

// executor is State.Apply, or one with a planted bug.
type executor func(s *State, c Command) (Reply, Changes, error)

// chaos says what may happen in a run, besides lost, doubled and reordered calls and restarts of the master.
type chaos struct {
	deaths, restores bool
	checkpoints      bool // with names
	pad              bool // last batches, for ranks in lock-step
	drop             bool // last batches, for ranks in lock-step
	passes           bool // training loops leave epochs before their ends
	bad              bool // rows, that workers cannot read
	steps            int
	execute          executor
	masters          bool // two, of which one leads
	masterBug        masterBug
}

// comparing compares whole states; nil and empty are the same.
var comparing = cmp.Options{
	cmp.Comparer(func(a, b *pb.Code) bool { return proto.Equal(a, b) }),
	cmp.AllowUnexported(State{}, members{}, passes{}, plannedBlocks{}, Skipped{}, badRows{}, rank{}, block{}, counts{}, epochPlan{},
		seen{}, restore{}, part{}, taking{}),
	cmpopts.EquateEmpty(),
}

type modelError struct{ error }

func (m *model) fail(format string, args ...any) { panic(modelError{fmt.Errorf(format, args...)}) }

// recovered is deferred by what calls parts of the model: they panic where something is wrong.
func recovered(err *error) {
	if r := recover(); r != nil && r != (modelEnded{}) {
		e, ok := r.(modelError)
		if !ok {
			panic(r)
		}
		*err = e
	}
}

// newModel is a job that has not begun. execute is State.Apply if nil.
func newModel(draw func(n int) int, d dataset, execute executor) *model {
	if execute == nil {
		execute = (*State).Apply
	}
	return &model{
		draw: draw, d: d, id: testID, execute: execute, etcd: map[string][]byte{}, mostWorld: 4,
		handed: tally{}, excused: tally{}, ends: map[epochEnd]map[uint32]uint64{}, taken: map[uint32]stale{},
		began: tally{}, gone: tally{}, parts: map[uint64]map[uint32]tally{},
	}
}

// run plays a job to its end and returns what went wrong.
func run(draw func(n int) int, c chaos) (err error) {
	m := newModel(draw, randomDataset(draw), c.execute)
	defer recovered(&err)
	m.id.BatchSize = uint64(1 + draw(4))
	if c.pad {
		m.beginPadding(int(m.id.BatchSize))
	}
	if !c.drop {
		m.id.Selects = draw(2) == 0
	}
	if c.drop {
		m.beginDropping(1 + draw(4))
	}
	m.id.Epochs, m.id.FirstWorldSize = uint32(len(m.d)), uint32(1+draw(3))
	if c.passes {
		m.passes = newModelPasses()
	}
	if c.bad {
		m.faults = randomFaults(m.d, draw)
		_, ever := m.faults.rowGroups()
		m.id.Skip = uint32(max(0, ever-max(0, draw(4)-2)))
	}
	if m.s, err = New(m.id); err != nil {
		return err
	}
	m.write(Changes{Head: true})
	if c.masters {
		m.masters = &masters{m: m, bug: c.masterBug}
	}
	m.trainers = make([]*trainer, m.id.FirstWorldSize)
	ops := m.ops(c)
	for range c.steps {
		ops[draw(len(ops))]()
	}
	m.finish()
	return m.verdict()
}

func (m *model) ops(c chaos) []func() {
	ops := []func(){
		m.handSome, m.handSome, m.handSome, m.send, m.send, m.deliver, m.deliver, m.deliver, m.join,
		m.plan, m.recall, m.restart, m.loseApply, m.leave,
	}
	if c.deaths {
		ops = append(ops, m.die, m.cutOff, m.expire)
	}
	if c.deaths && (c.pad || c.drop) {
		ops = append(ops, m.restartAll)
	}
	if c.passes {
		ops = append(ops, m.leavePass)
	}
	if c.bad { // what was refused goes round
		ops = append(ops, m.recall, m.recall, m.recall, m.send)
	}
	if c.restores {
		ops = append(ops, m.checkpoint, m.part, m.restoreJob, m.moveJob, m.abandon)
	}
	if c.restores && c.pad { // States differ where one step is an epoch's last but one
		ops = append(ops, m.trainOn, m.checkpoint, m.checkpoint)
	}
	if c.checkpoints {
		ops = append(ops, m.take, m.take, m.trainOn, m.giveUp, m.restoreNamed)
	}
	return ops
}

// handSome lets a trainer hand over rows.
func (m *model) handSome() {
	if t := m.someone(); t != nil {
		m.hand(t)
	}
}

// send lets a trainer call.
func (m *model) send() {
	if t := m.someone(); t != nil {
		m.network = append(m.network, t.request(m.draw))
	}
}

// someone is a running trainer, or nil.
func (m *model) someone() *trainer {
	t := m.trainers[m.draw(len(m.trainers))]
	if t == nil || t.dead || t.generation == 0 {
		return nil
	}
	return t
}

// apply executes a command, writes what changed, and checks everything that always holds.
func (m *model) apply(c Command) (Reply, error) {
	if m.masters != nil {
		return m.masters.call(c)
	}
	closed, abandoned, rest := m.s.closed, m.s.abandonedEpochs, m.unconsumed(c)
	r, ch, err := m.execute(m.s, c)
	m.write(ch)
	if back := m.load(); !reflect.DeepEqual(back, m.s) {
		if diff := cmp.Diff(m.s, back, comparing); diff != "" {
			m.fail("after %T (%v): the state read back differs: -want +got:\n%s", c, err, diff)
		}
	}
	if err := m.s.Check(); err != nil {
		m.fail("after %T %+v: %w", c, c, err)
	}
	for _, name := range ch.Checkpoints {
		if n := m.s.Named(name); n != nil {
			m.verify(n)
		}
	}
	if m.s.Failure() != "" {
		m.failed()
	}
	m.checkShares()
	m.checkTogether()
	m.closedSince(c, closed, abandoned, rest)
	if q, ok := c.(Sync); ok && err == nil {
		m.checkEven(q.Rank)
	}
	return r, err
}

// write puts the keys that changed, and only those.
func (m *model) write(ch Changes) {
	m.writes++
	put := func(key string, v proto.Message) {
		b, err := proto.Marshal(v)
		if err != nil {
			m.fail("marshal: %w", err)
		}
		m.etcd[key] = b
	}
	if ch.Head {
		put("head", m.s.Head())
	}
	for _, name := range ch.Checkpoints {
		if n := m.s.Named(name); n != nil {
			put("checkpoint/"+name, n.Proto())
		} else {
			delete(m.etcd, "checkpoint/"+name)
		}
	}
	for _, r := range ch.Ranks {
		put(fmt.Sprint("rank/", r), m.s.Rank(r))
	}
}

func (m *model) load() *State {
	var head pb.SessionHead
	ranks := map[uint32]*pb.SessionRank{}
	var named []*pb.Checkpoint
	for key, b := range m.etcd {
		var r uint32
		if strings.HasPrefix(key, "checkpoint/") {
			named = append(named, new(pb.Checkpoint))
			if err := proto.Unmarshal(b, named[len(named)-1]); err != nil {
				m.fail("%s: %w", key, err)
			}
			continue
		}
		if key == "head" {
			if err := proto.Unmarshal(b, &head); err != nil {
				m.fail("head: %w", err)
			}
		} else if _, err := fmt.Sscanf(key, "rank/%d", &r); err == nil {
			ranks[r] = new(pb.SessionRank)
			if err := proto.Unmarshal(b, ranks[r]); err != nil {
				m.fail("%s: %w", key, err)
			}
		}
	}
	s, err := Load(m.id, &head, ranks, m.d.blocks(&head, m.planned), named)
	if err != nil {
		m.fail("load: %w", err)
	}
	return s
}

// restart is a change of the leader.
func (m *model) restart() {
	m.s = m.load()
	if err := summarized(m.s); err != nil {
		m.fail("%w", err)
	}
}

// loseApply is a master that dies between Apply and the transaction: nobody hears of it.
func (m *model) loseApply() {
	if len(m.network) > 0 {
		q := m.network[m.draw(len(m.network))]
		_, _, _ = m.execute(m.s, q.sync)
		m.restart()
	}
}

func (m *model) plan() {
	if epoch, index, ok := m.s.NeedsPlan(); ok {
		if int(index) >= len(m.d[epoch]) {
			m.fail("asked to plan block %d of %d of epoch %d", index, len(m.d[epoch]), epoch)
		}
		m.must(m.planned(epoch, index))
		if m.draw(4) == 0 {
			m.must(m.planned(epoch, index))
		}
	}
}

func (m *model) must(c Command) Reply {
	r, err := m.insist(c)
	if err != nil {
		m.fail("%T %+v: %w", c, c, err)
	}
	return r
}

// insist repeats a call until it is answered.
func (m *model) insist(c Command) (Reply, error) {
	for range 1000 {
		if r, err := m.apply(c); !errors.Is(err, errUnavailable) {
			return r, err
		}
	}
	m.fail("no master answers %T %+v", c, c)
	return Reply{}, nil
}

// deliver applies one of the calls under way; it may be delivered again, and its answer may be lost.
func (m *model) deliver() {
	if len(m.network) == 0 {
		return
	}
	i := m.draw(len(m.network))
	q := m.network[i]
	if m.draw(3) > 0 {
		m.network = append(m.network[:i], m.network[i+1:]...)
	}
	m.call(q, m.draw(4) == 0)
}

func (m *model) call(q request, lost bool) {
	r, err := m.apply(q.sync)
	var fenced *FencedError
	switch {
	case errors.Is(err, errUnavailable):
	case q.from.orphan && (errors.As(err, &fenced) || errors.Is(err, ErrInvalid)):
	case q.from.orphan:
		m.fail("%v speaks for a start of another life of the session", q.from)
	case err == nil && !lost:
		q.from.receive(q, r, m.draw)
	case err == nil:
	case errors.As(err, &fenced):
		m.fenced(q, fenced)
	default:
		m.fail("%v: %w", q.from, err)
	}
}

// fenced checks that only those are fenced who should be.
func (m *model) fenced(q request, e *FencedError) {
	if e.Expired && !q.from.cut && !q.from.dead {
		m.fail("%v was fenced, though its lease did not end: %w", q.from, e)
	}
	newer := e.Generation > q.sync.Generation || e.Incarnation > q.sync.Incarnation
	if !e.Expired && !newer {
		m.fail("%v was fenced by nothing newer: %w", q.from, e)
	}
	q.from.dead = true
}

// verdict compares what was handed over with what there is.
func (m *model) verdict() error {
	if m.drop != nil {
		return m.verdictOnDropped()
	}
	skipped, err := m.unskipped()
	if err != nil {
		return err
	}
	for _, row := range m.d.rows(m.d.all()) {
		n := m.handed[row]
		want := 1
		if skipped(row) || m.isAbandoned(row) && n == 0 {
			want = 0
		}
		if n < want || n > want+m.excused[row] {
			return fmt.Errorf("row %v was handed over %d times, want %d; %d repeats are excused",
				row, n, want, m.excused[row])
		}
	}
	return nil
}

// unreported excuses the rows that a trainer handed over and the state does not know as consumed, now that they go
// back.
func (m *model) unreported(t *trainer) {
	known := m.s.base
	if k := m.s.rank(t.rank); k != nil {
		known = known.Union(k.consumed)
	}
	m.excused.add(m.d.rows(from(t.consumed.Subtract(known), position.Position{Epoch: m.s.closed})))
}

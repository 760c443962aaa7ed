package session

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// masters are two masters in a model, which hold states of the session and etcd between them. Each believes that it
// leads; etcd knows which one does. They keep the rules of master's runner: Apply, then a transaction that holds only
// for the leader and only if nobody else changed the keys since, then the answer. After any other outcome the state is
// loaded anew before the next Apply.
type masters struct {
	m      *model
	leader int
	states [2]*State // nil: to be loaded
	seen   [2]uint64 // the revision of etcd at which a state was read or written
	blind  [2]bool   // by a bug: the next transaction compares nothing
	bug    masterBug
}

type masterBug string

const (
	answersBeforeWriting masterBug = "a grant before its write"
	acknowledgesIdly     masterBug = "an idle acknowledgement by an ex-leader"
	retriesBlindly       masterBug = "an ambiguous transaction retried blindly"
	keepsFailedState     masterBug = "a state that was not written is kept"
	comparesNothing      masterBug = "a transaction that compares no revisions"
)

// errUnavailable is a call without an answer: it was done, or it was not.
var errUnavailable = errors.New("no answer")

// outcome of a transaction.
type outcome int

const (
	committed outcome = iota
	declined
	unknown
)

// commit is a transaction of a master. It may get lost on its way there, and its answer on the way back.
func (g *masters) commit(who int, ch Changes) outcome {
	if g.m.draw(6) == 0 {
		return unknown
	}
	if who != g.leader || g.seen[who] != g.m.writes && !g.blind[who] {
		return declined
	}
	if !ch.Empty() {
		truth := g.m.s
		g.m.s = g.states[who]
		g.m.write(ch)
		g.m.s = truth
	}
	if g.m.draw(6) == 0 {
		return unknown
	}
	g.seen[who] = g.m.writes
	return committed
}

// apply is a call that reaches one of the masters.
func (g *masters) apply(c Command) (Reply, error) {
	if g.m.draw(12) == 0 {
		g.leader = 1 - g.leader
	}
	who := g.leader
	if g.m.draw(4) == 0 {
		who = 1 - g.leader
	}
	if g.states[who] == nil {
		g.states[who], g.seen[who] = g.m.load(), g.m.writes
	}
	r, ch, err := g.states[who].Apply(c)
	if g.bug == acknowledgesIdly && ch.Empty() {
		return r, err
	}
	done := g.commit(who, ch)
	g.blind[who] = g.bug == comparesNothing || g.bug == retriesBlindly && done == unknown
	if done == committed {
		return r, err
	}
	if g.bug != keepsFailedState && !g.blind[who] {
		g.states[who] = nil
	}
	if g.bug == answersBeforeWriting {
		return r, err
	}
	return Reply{}, errUnavailable
}

// call is apply with what always holds after it.
func (g *masters) call(c Command) (Reply, error) {
	r, err := g.apply(c)
	truth := g.m.load()
	if err := truth.Check(); err != nil {
		g.m.fail("after %T %+v: %w", c, c, err)
	}
	if s := g.states[g.leader]; s != nil && g.seen[g.leader] == g.m.writes && g.bug == "" {
		if diff := cmp.Diff(truth, s, comparing); diff != "" {
			g.m.fail("after %T: the leader's state is not that in etcd: -want +got:\n%s", c, diff)
		}
	}
	g.m.s = truth
	return r, err
}

func TestMasters(t *testing.T) {
	endsWell(t, map[string]chaos{
		"deaths":           {steps: 200, masters: true, deaths: true},
		"deaths, restores": {steps: 200, masters: true, deaths: true, restores: true},
		"in step, deaths":  {steps: 200, masters: true, pad: true, deaths: true},
	})
}

// TestMastersFindBugs shows that the model can fail.
func TestMastersFindBugs(t *testing.T) {
	bugs := map[string]masterBug{}
	for _, bug := range []masterBug{
		answersBeforeWriting, acknowledgesIdly, retriesBlindly, keepsFailedState,
		comparesNothing,
	} {
		bugs[string(bug)] = bug
	}
	findsBugs(t, 2000, bugs, func(seed uint64, bug masterBug) error {
		return run(rand.New(rand.NewPCG(seed, 0)).IntN, chaos{steps: 150, masters: true, masterBug: bug, deaths: true})
	})
}

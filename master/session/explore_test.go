package session

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
)

// scope bounds a job of which every run is explored: each order of calls, lost, late and doubled ones, deaths and
// restores.
type scope struct {
	d       dataset
	world   int
	pad     int  // batch size; 0: last batches are not padded
	selects bool // rows may be left out: idle ranks take over whole windows, else none
	network int  // calls under way at once
	most    budget
}

// budget is how often events may happen that could happen for ever.
type budget [kinds]int

const (
	deaths = iota
	cuts
	expiries
	leaves
	recalls
	checkpoints
	restores
	leftPasses
	kinds
	unlimited
)

var (
	oneRow  = []int{1} // a shard of a window of a row
	twoRows = []int{2}
)

// TestExplore explores small jobs exhaustively: in each state that can be reached the invariants hold and no row was
// handed over too often, and from a part of them, as from the last ones, the job is seen to come to its end with every
// row handed over.
func TestExplore(t *testing.T) {
	scopes := map[string]scope{
		"windows":      {d: dataset{{{{2, 1}}}}, world: 2, network: 1},
		"an idle rank": {d: dataset{{{{1, 1}}}}, world: 2, network: 1, selects: true},
		"a death": {
			d: dataset{{{oneRow, oneRow}}}, world: 1, network: 1,
			most: budget{deaths: 1, expiries: 1},
		},
		"a lease that ends": {
			d: dataset{{{oneRow, oneRow}}}, world: 1, network: 1,
			most: budget{cuts: 1, expiries: 1},
		},
		"leaving": {d: dataset{{{oneRow, oneRow}}}, world: 1, network: 1, most: budget{leaves: 1}},
		"a restore": {
			d: dataset{{{oneRow, oneRow}}}, world: 1, network: 1,
			most: budget{checkpoints: 1, restores: 1},
		},
		"ranks in step":  {d: dataset{{{oneRow}}}, world: 2, network: 1, pad: 1},
		"a pass is left": {d: dataset{{{oneRow}}}, world: 2, network: 1, most: budget{leftPasses: 1}},
		"a pass is left in step": {
			d: dataset{{{oneRow}}, {{oneRow}}}, world: 1, network: 1, pad: 1,
			most: budget{leftPasses: 1},
		},
	}
	if os.Getenv("PENSTOCK_SOAK") != "" {
		scopes = map[string]scope{
			"late and doubled calls": {d: dataset{{{oneRow, oneRow}}}, world: 2, network: 1},
			"two epochs":             {d: dataset{{{oneRow}}, {{oneRow}}}, world: 2, network: 1},
			"a recall":               {d: dataset{{{oneRow}}}, world: 2, network: 1, most: budget{recalls: 1}},
			"calls under way":        {d: dataset{{{oneRow, oneRow}}}, world: 2, network: 2},
			"three ranks":            {d: dataset{{{twoRows, oneRow}}}, world: 3, network: 1},
			"deaths": {
				d: dataset{{{oneRow, oneRow}}}, world: 2, network: 1,
				most: budget{deaths: 1, cuts: 1, expiries: 1},
			},
			"leaving and a recall": {
				d: dataset{{{oneRow, twoRows}}}, world: 2, network: 1,
				most: budget{leaves: 1, recalls: 1},
			},
			"a death and a restore": {
				d: dataset{{{oneRow, oneRow}}}, world: 2, network: 1,
				most: budget{deaths: 1, checkpoints: 1, restores: 1},
			},
			"a pass is left": {
				d: dataset{{{oneRow}}, {{oneRow}}}, world: 2, network: 1,
				most: budget{leftPasses: 1},
			},
			"a death, ranks in step": {
				d: dataset{{{oneRow, oneRow}}}, world: 2, network: 1, pad: 1,
				most: budget{deaths: 1},
			},
		}
	}
	for name, c := range scopes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := explorer{scope: c}
			if err := x.run(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d transitions, %d runs to the end", len(x.seen), x.transitions, x.ends)
		})
	}
}

// TestExploreFindsBugs shows that the exploration can fail.
func TestExploreFindsBugs(t *testing.T) {
	small := scope{d: dataset{{{oneRow, oneRow}}}, world: 2, network: 1}
	for name, most := range map[string]budget{
		"grants are not recorded":                       {},
		"the grants of a lost reply are forgotten":      {},
		"an ended lease loses what was held":            {deaths: 1, expiries: 1},
		"old starts are not fenced":                     {deaths: 1},
		"a recall does not wait for the release":        {recalls: 1},
		"what a leaving rank consumed is granted again": {leaves: 1},
		"a restore forgets the base":                    {checkpoints: 1, restores: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := explorer{scope: small, execute: bugs()[name]}
			x.most = most
			err := x.run()
			if err == nil {
				t.Fatalf("%d states were explored, and the planted bug was not found", len(x.seen))
			}
			t.Log(err)
		})
	}
}

// endEvery is of how many states one is run to the end of the job.
const endEvery = 16

// explorer visits every state of a job once, those that take fewer events first.
type explorer struct {
	scope
	execute executor // nil: State.Apply

	seed        maphash.Seed
	seen        map[uint64]bool
	transitions int
	ends        int
}

// node is a state of a job, and how it was reached.
type node struct {
	m    *model
	left budget
	from *node
	by   string
}

func (x *explorer) run() error {
	x.seed, x.seen = maphash.MakeSeed(), map[uint64]bool{}
	begin, err := x.begin()
	if err != nil {
		return err
	}
	for queue := []*node{begin}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		last := len(queue) == 1
		for _, e := range x.events(n) {
			for s := (&script{most: max(2, x.world), free: e.choices}); s != nil; s = s.next() {
				next, err := x.after(n, e, s)
				if err != nil {
					return fmt.Errorf("%w; after:%s", err, next.path())
				}
				if key := next.fingerprint(x.seed); !x.seen[key] {
					x.seen[key] = true
					queue = append(queue, next)
				}
			}
		}
		if last || len(x.seen)%endEvery == 0 {
			if err := x.end(n); err != nil {
				return fmt.Errorf("%w; after:%s", err, n.path())
			}
		}
		queue[0] = nil
	}
	return nil
}

func (x *explorer) begin() (*node, error) {
	m := newModel(nil, x.d, x.execute)
	m.batchSize, m.trainers, m.mostWorld = x.pad, make([]*trainer, x.world), x.world
	m.id.Epochs, m.id.FirstWorldSize, m.id.LastBatch, m.id.Selects = uint32(len(x.d)), uint32(x.world),
		ending(x.pad > 0), x.selects
	m.id.BatchSize = uint64(cmp.Or(x.pad, 100))
	m.passes = newModelPasses()
	s, err := New(m.id)
	if err != nil {
		return nil, err
	}
	m.s = s
	m.write(Changes{Head: true})
	return &node{m: m, left: x.most}, nil
}

// event is something that may happen to a job.
type event struct {
	name    string
	kind    int
	choices int // of which each is explored; later ones are always the same
	happen  func(m *model)
}

// events lists what may happen now.
func (x *explorer) events(n *node) []event {
	all := []event{
		{"join", unlimited, 2, (*model).join},
		{"plan", unlimited, 0, (*model).plan},
		{"hand", unlimited, 5, (*model).handSome},
		{"deliver", unlimited, 5, (*model).deliver},
		{"expire", expiries, 1, (*model).expire},
		{"die", deaths, 1, (*model).die},
		{"cut off", cuts, 1, (*model).cutOff},
		{"leave", leaves, 2, (*model).leave},
		{"recall", recalls, 2, (*model).recall},
		{"checkpoint", checkpoints, 0, (*model).checkpoint},
		{"restore", restores, 2, (*model).restoreJob},
		{"leave a pass", leftPasses, 2, (*model).leavePass},
	}
	var out []event
	for _, e := range all {
		if e.kind == unlimited || n.left[e.kind] > 0 {
			out = append(out, e)
		}
	}
	if len(n.m.network) < x.network {
		out = append(out, event{"call", unlimited, 2, (*model).send})
	}
	return out
}

// script makes the choices of a model: all combinations of the first few, one after the other.
type script struct {
	most    int // of the possibilities of each choice
	free    int
	choices []int
	outOf   []int
	at      int
	rest    *rand.Rand
}

func (s *script) draw(n int) int {
	if s.at == s.free {
		if s.rest == nil {
			s.rest = rand.New(rand.NewPCG(1, 1))
		}
		return s.rest.IntN(n)
	}
	if s.at == len(s.choices) {
		s.choices, s.outOf = append(s.choices, 0), append(s.outOf, 0)
	}
	s.outOf[s.at] = min(n, s.most)
	s.at++
	return s.choices[s.at-1]
}

// next is the script of the next combination, or nil.
func (s *script) next() *script {
	choices := s.choices[:s.at]
	for i := len(choices) - 1; i >= 0; i-- {
		if choices[i]+1 < s.outOf[i] {
			choices[i]++
			return &script{most: s.most, free: s.free, choices: choices[:i+1], outOf: s.outOf[:i+1]}
		}
	}
	return nil
}

// after is the job after an event.
func (x *explorer) after(n *node, e event, s *script) (next *node, err error) {
	x.transitions++
	next = &node{m: n.m.copy(), left: n.left, from: n, by: e.name}
	if e.kind != unlimited {
		next.left[e.kind]--
	}
	next.m.draw = s.draw
	defer recovered(&err)
	e.happen(next.m)
	return next, next.m.overdone()
}

// end runs a job to its end.
func (x *explorer) end(n *node) (err error) {
	x.ends++
	m := n.m.copy()
	m.draw = rand.New(rand.NewPCG(2, 2)).IntN
	defer recovered(&err)
	m.finish()
	return m.verdict()
}

func (n *node) path() string {
	var b strings.Builder
	for ; n != nil && n.from != nil; n = n.from {
		b.WriteString(" < " + n.by)
	}
	return b.String()
}

// fingerprint is the same for states that go on in the same way.
func (n *node) fingerprint(seed maphash.Seed) uint64 {
	f := newFingerprinter(seed)
	f.add(reflect.ValueOf(n.m).Elem())
	for _, left := range n.left {
		f.number(uint64(left))
	}
	for _, q := range n.m.network { // calls are numbered; what counts is which ones end a lease's wait
		f.add(reflect.ValueOf(q.seq > q.from.cutAt))
	}
	return f.hash.Sum64()
}

// overdone fails if a row was handed over more often than is excused.
func (m *model) overdone() error {
	for row, n := range m.handed {
		if n > 1+m.excused[row] {
			return fmt.Errorf("row %v was handed over %d times; %d repeats are excused", row, n, m.excused[row])
		}
	}
	return nil
}

// copy is an independent job in the same state.
func (m *model) copy() *model {
	c, d := new(model), m.d
	m.d = nil // never changes
	defer func() { m.d, c.d = d, d }()
	copier{}.copy(reflect.ValueOf(c).Elem(), reflect.ValueOf(m).Elem())
	c.draw, c.execute = nil, m.execute
	for _, t := range c.trainers {
		if t != nil && t.loop != nil {
			t.loop.ended = c.loopEnded
		}
	}
	return c
}

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Classes of faults, by what they befall.
const (
	workers  = "workers"
	masters  = "masters"
	etcd     = "etcd"
	trainers = "trainers"
	network  = "network"
	disk     = "disk"
	// functions is of the processes in which workers run Python functions.
	functions = "functions"
)

func classes() []string { return []string{workers, masters, etcd, trainers, network, disk, functions} }

func classNames() string { return strings.Join(classes(), ",") }

func checkClasses(only []string) error {
	for _, c := range only {
		if !slices.Contains(classes(), c) {
			return fmt.Errorf("--only: want some of %s, found %q", classNames(), c)
		}
	}
	return nil
}

// Fault is one thing that happens to the fleet.
type Fault struct {
	Number int // counts from 1
	Class  string
	Kind   string
	// Target is a process ("worker-2"), or which of a kind ("leader", "all"), as it is when the fault strikes.
	Target string
	// Peer is the other end of a cut: a process, or all of a kind ("masters"). "" is everybody.
	Peer string
	// For is how long it lasts; what was killed is started again then.
	For time.Duration
	// World is the world size that the job goes on with, relative to the first; for faults after which it starts again.
	World int
}

func (f Fault) String() string {
	text := fmt.Sprintf("#%-4d %-8s %-9s %s", f.Number, f.Class, f.Kind, f.Target)
	if f.Peer != "" {
		text += " from " + f.Peer
	}
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	if f.World != 0 {
		text += fmt.Sprintf(", world %+d", f.World)
	}
	return text
}

// shape is what a schedule has to know of the fleet.
type shape struct {
	Workers, Masters, Trainers int
	Lease                      time.Duration
	// Isolated says that each process has a network of its own, which can be cut.
	Isolated bool
	// Functions says that workers run some.
	Functions bool
}

// kind is a kind of fault. Its target is drawn from targets, where "worker" stands for any of the workers, and so on.
type kind struct {
	class, name string
	weight      int
	targets     []string
	peers       []string
	min, max    time.Duration
	resizes     bool // the job starts again after it, perhaps with another world size
	isolated    bool // needs networks, or disks, of its own
}

// kinds lists all of them. Beyond the lease of a trainer, and that of a leader in etcd (5 s), a hang is another kind
// than a stop.
func kinds(lease time.Duration) []kind {
	const ms, s = time.Millisecond, time.Second
	return []kind{
		{class: workers, name: "kill", weight: 4, targets: []string{"worker"}, min: 100 * ms, max: 3 * s},
		{class: workers, name: "stop", weight: 2, targets: []string{"worker"}, min: 200 * ms, max: 2 * s},
		{class: workers, name: "hang", weight: 1, targets: []string{"worker"}, min: 5 * s, max: 10 * s},
		{class: workers, name: "slow", weight: 1, targets: []string{"worker"}, min: 2 * s, max: 6 * s},
		{class: workers, name: "drain", weight: 2, targets: []string{"worker"}, min: 100 * ms, max: 2 * s},
		{class: workers, name: "join", weight: 1, targets: []string{"extra"}, min: 2 * s, max: 6 * s},
		{class: workers, name: "roll", weight: 1, targets: []string{"workers"}},
		{class: workers, name: "squeeze", weight: 1, targets: []string{"worker"}, min: 2 * s, max: 5 * s},

		{
			class: masters, name: "kill", weight: 3, targets: []string{"leader", "leader", "master"}, min: 100 * ms,
			max: 4 * s,
		},
		{class: masters, name: "stop", weight: 2, targets: []string{"leader", "master"}, min: 200 * ms, max: 3 * s},
		{class: masters, name: "hang", weight: 1, targets: []string{"leader"}, min: 6 * s, max: 9 * s},
		{class: masters, name: "slow", weight: 1, targets: []string{"leader"}, min: 2 * s, max: 5 * s},
		{class: masters, name: "end", weight: 1, targets: []string{"leader", "master"}, min: 100 * ms, max: 2 * s},
		{class: masters, name: "kill", weight: 1, targets: []string{"masters"}, min: 200 * ms, max: 3 * s},

		{class: etcd, name: "kill", weight: 3, targets: []string{"etcd"}, min: 100 * ms, max: 4 * s},
		{class: etcd, name: "stop", weight: 2, targets: []string{"etcd"}, min: 200 * ms, max: 2 * s},
		{class: etcd, name: "hang", weight: 1, targets: []string{"etcd"}, min: 4 * s, max: 8 * s},
		{class: etcd, name: "slow", weight: 1, targets: []string{"etcd"}, min: 2 * s, max: 5 * s},
		{
			class: etcd, name: "kill", weight: 1, targets: []string{"etcd-majority", "etcds"}, min: 500 * ms,
			max: 5 * s,
		},
		{
			class: etcd, name: "stop", weight: 1, targets: []string{"etcd-majority", "etcds"}, min: 500 * ms,
			max: 8 * s,
		},

		{class: trainers, name: "kill", weight: 3, targets: []string{"trainer", "trainer", "trainers"}, resizes: true},
		{class: trainers, name: "stop", weight: 2, targets: []string{"trainer"}, min: 200 * ms, max: 3 * s},
		{
			class: trainers, name: "hang", weight: 1, targets: []string{"trainer"}, min: lease * 5 / 4,
			max: lease * 7 / 4,
		},
		{class: trainers, name: "slow", weight: 1, targets: []string{"trainer"}, min: 2 * s, max: 5 * s},
		{class: trainers, name: "resize", weight: 1, targets: []string{"trainers"}, resizes: true},

		{
			class: network, name: "cut", weight: 3, targets: []string{"worker"}, min: 500 * ms, max: 8 * s,
			isolated: true,
		},
		{
			class: network, name: "cut", weight: 2, targets: []string{"worker"},
			peers: []string{"storage", "trainer", "masters"}, min: 500 * ms, max: 6 * s, isolated: true,
		},
		{
			class: network, name: "cut", weight: 2, targets: []string{"leader"},
			peers: []string{"etcds", "trainers", "workers", ""}, min: 500 * ms, max: 8 * s, isolated: true,
		},
		{
			class: network, name: "cut", weight: 1, targets: []string{"trainer"}, peers: []string{"masters", ""},
			min: 500 * ms, max: lease * 7 / 4, isolated: true,
		},
		{
			class: network, name: "cut", weight: 2, targets: []string{"etcd"}, peers: []string{"etcds", "masters", ""},
			min: 500 * ms, max: 6 * s, isolated: true,
		},
		{
			class: network, name: "lossy", weight: 2, targets: []string{
				"worker", "leader", "etcd", "trainer",
				"storage",
			},
			min: s, max: 5 * s, isolated: true,
		},

		{class: disk, name: "kill", weight: 2, targets: []string{"storage"}, min: 100 * ms, max: 4 * s},
		{class: disk, name: "stop", weight: 2, targets: []string{"storage"}, min: 200 * ms, max: 6 * s},
		{class: disk, name: "slow", weight: 1, targets: []string{"storage"}, min: 2 * s, max: 6 * s},
		{class: disk, name: "fill", weight: 1, targets: []string{"etcd"}, min: s, max: 4 * s, isolated: true},

		{class: functions, name: "kill", weight: 3, targets: []string{"worker"}, min: 200 * ms, max: 2 * s},
		{class: functions, name: "hang", weight: 1, targets: []string{"worker"}},
	}
}

// schedule is the faults of a seed, in their order.
func schedule(seed uint64, n int, fleet shape, only []string) []Fault {
	if len(only) == 0 {
		only = classes()
	}
	byClass := map[string][]kind{}
	for _, k := range kinds(fleet.Lease) {
		if slices.Contains(only, k.class) && (fleet.Isolated || !k.isolated) &&
			(fleet.Functions || k.class != functions) {
			byClass[k.class] = append(byClass[k.class], k)
		}
	}
	var possible []string
	for _, c := range classes() {
		if len(byClass[c]) > 0 {
			possible = append(possible, c)
		}
	}
	if len(possible) == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, 0))
	faults := make([]Fault, n)
	for i := range faults {
		k := pick(random, byClass[possible[random.IntN(len(possible))]])
		faults[i] = draw(random, k, fleet)
		faults[i].Number = i + 1
	}
	return faults
}

// pick chooses by weight.
func pick(random *rand.Rand, from []kind) kind {
	total := 0
	for _, k := range from {
		total += k.weight
	}
	at := random.IntN(total)
	for _, k := range from {
		if at -= k.weight; at < 0 {
			return k
		}
	}
	panic("weights do not add up")
}

func draw(random *rand.Rand, k kind, fleet shape) Fault {
	f := Fault{Class: k.class, Kind: k.name, Target: one(random, k.targets, fleet)}
	if len(k.peers) > 0 {
		f.Peer = one(random, k.peers, fleet)
	}
	if k.max > 0 {
		f.For = (k.min + time.Duration(random.Int64N(int64(k.max-k.min)+1))).Round(time.Millisecond)
	}
	if k.resizes {
		f.World = random.IntN(3) - 1
	}
	return f
}

// one draws a name; of a kind of which there are several, one of them.
func one(random *rand.Rand, names []string, fleet shape) string {
	name := names[random.IntN(len(names))]
	several := map[string]int{
		"worker": fleet.Workers, "master": fleet.Masters, "trainer": fleet.Trainers,
		"etcd": etcdMembers,
	}
	if n := several[name]; n > 0 {
		return fmt.Sprintf("%s-%d", name, 1+random.IntN(n))
	}
	return name
}

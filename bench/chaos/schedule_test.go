package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func testShape() shape {
	return shape{Workers: 3, Masters: 3, Trainers: 3, Lease: 8 * time.Second, Isolated: true, Functions: true}
}

func TestScheduleIsAFunctionOfTheSeed(t *testing.T) {
	first := schedule(7, 200, testShape(), nil)
	if !slices.Equal(first, schedule(7, 200, testShape(), nil)) {
		t.Error("two schedules of one seed differ")
	}
	if slices.Equal(first, schedule(8, 200, testShape(), nil)) {
		t.Error("the schedules of two seeds are the same")
	}
	if longer := schedule(7, 300, testShape(), nil); !slices.Equal(first, longer[:200]) {
		t.Error("a longer schedule does not begin like a shorter one of its seed")
	}
}

func TestScheduleHasEveryKind(t *testing.T) {
	have := map[string]int{}
	for _, f := range schedule(1, 2000, testShape(), nil) {
		have[f.Class+" "+f.Kind]++
		if f.For < 0 || f.For > 20*time.Second {
			t.Errorf("%v lasts %v", f, f.For)
		}
		if f.World < -1 || f.World > 1 {
			t.Errorf("%v asks for a world of %+d", f, f.World)
		}
	}
	for _, k := range kinds(time.Second) {
		if have[k.class+" "+k.name] < 10 {
			t.Errorf("%s %s: %d of 2000", k.class, k.name, have[k.class+" "+k.name])
		}
	}
}

func TestScheduleKeepsToItsClasses(t *testing.T) {
	for _, f := range schedule(3, 300, testShape(), []string{workers, disk}) {
		if f.Class != workers && f.Class != disk {
			t.Errorf("%v is of neither class", f)
		}
	}
	alone := testShape()
	alone.Isolated, alone.Functions = false, false
	for _, f := range schedule(3, 300, alone, nil) {
		if f.Class == network || f.Class == functions || f.Kind == "fill" {
			t.Errorf("%v needs a network or a disk of its own, or functions", f)
		}
	}
	if faults := schedule(3, 300, alone, []string{network}); faults != nil {
		t.Errorf("%d faults of a class that is not possible", len(faults))
	}
	if err := checkClasses([]string{"wokers"}); err == nil || !strings.Contains(err.Error(), "wokers") {
		t.Errorf("a misspelt class: %v", err)
	}
}

// TestTargetsExist holds that each name that a schedule draws is one that strike knows.
func TestTargetsExist(t *testing.T) {
	s := &storm{fleet: &fleet{options: options{workers: 3, masters: 3, trainers: 3}, leader: "master-1"}}
	known := append(append(names("worker", 3), names("master", 3)...), "extra", "storage", "leader", "trainers",
		"etcd-majority")
	known = append(append(known, names("etcd", 3)...), names("trainer", 4)...)
	for _, f := range schedule(5, 1000, testShape(), nil) {
		for _, name := range append(s.members(f.Target), f.Peer) {
			for _, one := range s.members(name) {
				if one != "" && !slices.Contains(known, one) {
					t.Errorf("%v: nothing is named %s", f, one)
				}
			}
		}
	}
}

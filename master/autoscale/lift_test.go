package autoscale

import (
	"math"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// runAs is run with samples that are changed before they are decided on.
func (f *fleet) runAs(d time.Duration, change func(*Sample)) {
	for end := f.now.Add(d); f.now.Before(end); f.now = f.now.Add(2 * time.Second) {
		s := f.sample()
		change(&s)
		f.step(s)
	}
}

// Trainers that begin with empty buffers lose less and less time until they are full.
func TestCatchingUpIsNoLift(t *testing.T) {
	f := newFleet(t, Config{}, 100, train(8000, 0.01))
	begin := f.now
	f.runAs(20*time.Minute, func(s *Sample) {
		one := &s.Sessions[0]
		one.Stall = max(0, 0.2*(1-s.At.Sub(begin).Seconds()/150))
		one.Rate = one.Demand * (1 - one.Stall)
	})
	if len(f.decisions) > 0 {
		t.Error(f.decisions[0].Reason)
	}
}

func TestALiftAddsATenthAtMost(t *testing.T) {
	s := train(8000, 0.01)
	s.efficiency = 0.75
	f := newFleet(t, Config{}, 100, s)
	f.run(20 * time.Minute)
	if len(f.decisions) == 0 || f.decisions[0].To > 110 || f.wanted() < 107 {
		t.Errorf("%d workers, by %v", f.wanted(), f.decisions)
	}
}

// The more is lost, the sooner it is mended.
func TestALossIsMended(t *testing.T) {
	for _, c := range []struct {
		efficiency float64
		after      time.Duration
	}{
		{0.75, 2 * time.Minute}, {0.78, 3 * time.Minute}, {0.792, 5 * time.Minute},
	} {
		s := train(8000, 0.01)
		s.efficiency = c.efficiency
		f := newFleet(t, Config{}, 100, s)
		begin := f.now
		f.run(20 * time.Minute)
		if len(f.decisions) == 0 || f.decisions[0].At.Sub(begin) > c.after || f.newest.Stall > 0 {
			t.Errorf("efficiency %g: %d workers, by %v", c.efficiency, f.wanted(), f.decisions)
		}
	}
}

// What rows cost while hardly any are made is no reason for more workers, as long as nobody waits.
func TestIdleWorkersAreEnough(t *testing.T) {
	f := newFleet(t, Config{}, 100, train(8000, 0.01))
	f.run(10 * time.Minute)
	f.runAs(2*time.Minute, func(s *Sample) {
		s.Busy, s.Sessions[0].Rate, s.Sessions[0].Cost = 0.05, 300, 0.013
	})
	f.run(10 * time.Minute)
	if len(f.decisions) > 0 {
		t.Error(f.decisions[0].Reason)
	}
}

func TestAnIdleFleetGrowsToASessionsMinimum(t *testing.T) {
	s := train(1, 0.01)
	f := newFleet(t, Config{}, 2, s)
	f.run(time.Minute)
	s.MinWorkers = 10
	f.run(5 * time.Minute)
	if f.wanted() != 10 {
		t.Errorf("%d workers: %s", f.wanted(), f.newest.Reason)
	}
}

// What a row seems to cost on one worker is what it costs on that one.
func TestALeapIsLookedAtAgain(t *testing.T) {
	for _, seems := range []float64{0.0115, 0.0085} {
		s := train(8000, 0.01)
		f := newFleet(t, Config{}, 0, s)
		f.runAs(10*time.Minute, func(sample *Sample) {
			if sample.Workers == 1 {
				sample.Sessions[0].Cost = seems
			}
		})
		if len(f.decisions) > 3 || math.Abs(float64(f.wanted()-100)) > 11 || f.wanted() < 89 {
			t.Errorf("%g: %d workers after %d decisions", seems, f.wanted(), len(f.decisions))
		}
		if seems > s.cost && f.wanted() != 100 {
			t.Errorf("%d workers stay", f.wanted())
		}
	}
}

// Streams that wait for storage look busy. What they seem to do is not what the session needs.
func TestABrakeOfSlowStorageKeepsNoMore(t *testing.T) {
	s := train(8000, 0.01)
	f := newFleet(t, Config{}, 100, s)
	f.run(10 * time.Minute)
	s.limit = 3000
	f.runAs(3*time.Minute, func(s *Sample) { s.Sessions[0].Cost *= 0.7 })
	if f.wanted() != 100 || f.newest.Bottleneck != pb.Bottleneck_STORAGE {
		t.Errorf("%d workers: %s", f.wanted(), f.newest.Reason)
	}
}

// Buffers hide for a while that storage gives less than is needed. Workers that were asked for in that time are found
// to be of no help, too.
func TestSlowStorageBehindBuffersBrakes(t *testing.T) {
	s := train(8000, 0.01)
	f := newFleet(t, Config{}, 100, s)
	f.run(10 * time.Minute)
	s.limit = 5600
	slow := f.now
	f.runAs(5*time.Minute, func(sample *Sample) {
		if sample.At.Sub(slow) < 20*time.Second {
			sample.Sessions[0].Rate, sample.Sessions[0].Stall = 7800, 0.025
		}
	})
	if f.wanted() != 100 || f.newest.Bottleneck != pb.Bottleneck_STORAGE {
		t.Errorf("%d workers: %s", f.wanted(), f.newest.Reason)
	}
}

// Trainers that take all that comes get twice the workers as long as these are not idle, and bring noticeably more.
func TestWorkersForATrainerThatTakesAll(t *testing.T) {
	s := train(1e12, 1.0/2300)
	f := newFleet(t, Config{}, 1, s)
	f.runAs(30*time.Minute, func(sample *Sample) {
		n := float64(sample.Workers)
		one := &sample.Sessions[0]
		one.Rate = 18_500 * (1 - math.Exp(-n/6))
		one.Stall, sample.Busy = 1, min(1, one.Rate*s.cost/n)
	})
	if f.wanted() < 16 || f.wanted() > 20 {
		t.Errorf("%d workers: %s", f.wanted(), f.newest.Reason)
	}
}

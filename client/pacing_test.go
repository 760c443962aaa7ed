package client

import (
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// TestPacingOf holds that each ending and order has the pacing that its ranks are told of.
func TestPacingOf(t *testing.T) {
	l := newLedger(holdings{})
	for _, c := range []struct {
		spec *pb.Spec
		want pacing
	}{
		{&pb.Spec{}, free{l}},
		{&pb.Spec{LastBatch: pb.LastBatch_UNEVEN, Order: pb.Order_FAST}, free{l}},
		{&pb.Spec{LastBatch: pb.LastBatch_PAD}, padded{free: free{l}}},
		{&pb.Spec{LastBatch: pb.LastBatch_PAD, Filter: "a > 1"}, padded{free{l}, true}},
		{&pb.Spec{LastBatch: pb.LastBatch_DROP}, counted{ledger: l}},
		{&pb.Spec{Order: pb.Order_DETERMINISTIC}, counted{ledger: l}},
		{&pb.Spec{Order: pb.Order_DETERMINISTIC, LastBatch: pb.LastBatch_PAD}, counted{ledger: l, pad: true}},
	} {
		if got := pacingOf(c.spec, false, l); got != c.want {
			t.Errorf("%v has %T %+v, want %T %+v", c.spec, got, got, c.want, c.want)
		}
	}
}

// TestPacingOfExcludedRows holds that windows of tables may have fewer rows than their files.
func TestPacingOfExcludedRows(t *testing.T) {
	l := newLedger(holdings{})
	got := pacingOf(&pb.Spec{LastBatch: pb.LastBatch_PAD}, true, l)
	if want := (padded{free{l}, true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestEachEndingHasItsPacing holds that no value of the enum is taken for another one.
func TestEachEndingHasItsPacing(t *testing.T) {
	l, found := newLedger(holdings{}), map[string]pb.LastBatch{}
	for n := range pb.LastBatch_name {
		of := pb.LastBatch(n)
		if of == pb.LastBatch_LAST_BATCH_UNSPECIFIED { // of sessions that an earlier release opened: uneven
			continue
		}
		kind := fmt.Sprintf("%T", pacingOf(&pb.Spec{LastBatch: of}, false, l))
		if other, taken := found[kind]; taken {
			t.Errorf("%v and %v are both %s", of, other, kind)
		}
		found[kind] = of
	}
}

// TestNext is what a loop gets in the second of three epochs, with batches of ten rows.
func TestNext(t *testing.T) {
	type moment struct {
		ended, closed, final uint32
		steps                uint64 // of the loop's epoch
		have                 int
		through, pending     bool
		finished, ends       bool
	}
	at := func(change func(*moment)) moment {
		m := moment{ended: 1, closed: 1}
		change(&m)
		return m
	}
	isFree := func(l *ledger) pacing { return free{l} }
	isPadded := func(l *ledger) pacing { return padded{free: free{l}} }
	isCounted := func(l *ledger) pacing { return counted{ledger: l} }
	for name, c := range map[string]struct {
		pacing func(*ledger) pacing
		moment moment
		want   next
	}{
		"some rows":           {isFree, at(func(m *moment) { m.have = 9 }), nextWaits},
		"a full batch":        {isFree, at(func(m *moment) { m.have = 10 }), nextBatch},
		"the last rows":       {isFree, at(func(m *moment) { m.have, m.through = 9, true }), nextBatch},
		"no rows":             {isFree, at(func(m *moment) { m.pending = true }), nextPasses},
		"left":                {isFree, at(func(m *moment) { m.ended, m.have = 2, 10 }), nextWaits},
		"closed":              {isFree, at(func(m *moment) { m.closed = 2 }), nextWaits},
		"closed, and told":    {isFree, at(func(m *moment) { m.closed, m.ends = 2, true }), nextEpochEnd},
		"finished":            {isFree, at(func(m *moment) { m.closed, m.finished = 3, true }), nextEnd},
		"finished, and told":  {isFree, at(func(m *moment) { m.finished, m.ends = true, true }), nextEpochEnd},
		"all epochs":          {isFree, at(func(m *moment) { m.ended, m.have = 3, 10 }), nextEnd},
		"others have a step":  {isPadded, at(func(m *moment) { m.through, m.steps = true, 1 }), nextPadding},
		"they may":            {isPadded, at(func(m *moment) { m.through = true }), nextWaits},
		"behind":              {isPadded, at(func(m *moment) { m.closed, m.final, m.steps = 2, 2, 1 }), nextPadding},
		"behind, not heard":   {isPadded, at(func(m *moment) { m.closed, m.final, m.steps = 2, 1, 1 }), nextWaits},
		"behind, through":     {isPadded, at(func(m *moment) { m.closed, m.final, m.have = 2, 2, 10 }), nextEpochEnd},
		"no step yet":         {isCounted, at(func(m *moment) { m.have = 10 }), nextWaits},
		"a step":              {isCounted, at(func(m *moment) { m.have, m.steps = 10, 1 }), nextBatch},
		"a step, not full":    {isCounted, at(func(m *moment) { m.have, m.steps = 9, 1 }), nextWaits},
		"all steps":           {isCounted, at(func(m *moment) { m.final, m.have = 2, 10 }), nextEpochEnd},
		"all steps of epochs": {isCounted, at(func(m *moment) { m.ended = 3 }), nextEnd},
	} {
		l, m := newLedger(holdings{}), c.moment
		l.pacing, l.finished, l.epoch, l.through = c.pacing(l), m.finished, m.closed, m.through
		l.steps = steps{
			ended: m.ended, epochs: 3, batch: 10, final: m.final,
			planned: map[uint32]epochSteps{m.ended: {steps: m.steps, final: m.final > m.ended}},
		}
		if m.pending {
			l.pending = append(l.pending, position.Interval{To: position.Position{Epoch: 1}})
		}
		if got := l.pacing.next(m.have, m.ends); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestCountedGivesItsBatchUp holds that rows which are asked for leave the batch in the making, and that others stay.
func TestCountedGivesItsBatchUp(t *testing.T) {
	at := func(shard uint32) position.Position { return position.Position{Shard: shard} }
	making := position.Interval{From: at(1), To: at(2)}
	for name, c := range map[string]struct {
		asked position.Interval
		left  bool
	}{
		"rows of the batch": {making, false},
		"others":            {position.Interval{From: at(2), To: at(3)}, true},
	} {
		l := newLedger(holdings{})
		l.pending = append(l.pending, making)
		asked := position.NewSet(c.asked)
		if got := (counted{ledger: l}).gives(asked, 1); !asked.Covers(got) || len(got) == 0 {
			t.Errorf("%s: it gives %v of %v", name, got, asked)
		}
		if left := len(l.pending) > 0 && !l.discard; left != c.left {
			t.Errorf("%s: the batch stays: %v, want %v", name, left, c.left)
		}
	}
}

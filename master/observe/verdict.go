package observe

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/words"
)

const (
	// waits is the share of its time from which on a trainer that waits is a reason to look for why.
	waits = 0.05
	// dominant is the share of a stream's time that holds it up.
	dominant = 0.5
	// crowded is the share of all slots from which on a stream is likely to find none.
	crowded = 0.85
	// full is the share of its time for which a worker is busy that has hardly any left. A stream for each of three
	// quarters of its slots is all that trainers are asked to open.
	full = 0.6
	// mentioned is the share of the workers' work from which on a stage is named.
	mentioned = 0.1
	// slots is the stage of a session whose streams find none.
	slots = "slots"
)

// evidence is what a verdict rests on besides the session's numbers.
type evidence struct {
	measured           int  // trainers
	batches            bool // there was more than a first one
	workers, reporting int
	slots              int
	client             float64 // share of the trainers' time that the client worked
	buffered           float64 // batches' rows that a trainer had received
	used               float64 // share of the workers' time, where this session's streams are
	stages             map[string]float64
	// Of other sessions: open streams, on average, and those of them that their trainers took nothing of.
	others, held float64
}

// shutOut tells that streams of other sessions, whose trainers take nothing, have the slots that this session's streams
// wait for. Where all are read, trainers are asked to leave a part of the slots free.
func (e *evidence) shutOut(s *Session) bool {
	return e.used < full && e.others+s.Open >= crowded*float64(e.slots) && e.held >= dominant*e.others &&
		e.others >= dominant*s.Open
}

// judge says what holds a session's trainers up. The first rule that holds decides:
//
//	too little     no trainer has told for long enough, or has a second batch
//	trainer        they waited for less than 5% of the time
//	client         most of that was the client's own work
//	workers        there are none
//	too little     none has reported for long enough
//	streams        those of other sessions, whose trainers take nothing, have the slots; the stage is "slots"
//	streams        none is open
//	client         workers wait for trainers for half of the time that streams are open, though their processors are not busy, and
//	               trainers have rows to hand over
//	network        workers wait so, and trainers have none
//	storage        of the rest of the time, streams wait for storage longest
//	workers        those of this session's streams have hardly any time left; what they do most is the stage
//	streams        they have
func judge(s *Session, e *evidence) Cause {
	waited := min(1, s.Stall+e.client)
	if e.measured == 0 || !e.batches && s.Stall < 1-waits {
		return Cause{Verdict: "too little was measured yet: that takes a few seconds of reading"}
	}
	c := Cause{}
	switch {
	case waited < waits:
		c.Bottleneck = pb.Bottleneck_TRAINER
	case e.client > s.Stall:
		c.Bottleneck = pb.Bottleneck_CLIENT
	case e.workers == 0:
		c.Bottleneck = pb.Bottleneck_WORKERS
	case e.reporting == 0:
	case e.shutOut(s):
		c.Bottleneck, c.Stage = pb.Bottleneck_STREAMS, slots
	case s.Open == 0:
		c.Bottleneck = pb.Bottleneck_STREAMS
	case s.Blocked >= dominant && e.used < full && e.buffered >= 2:
		c.Bottleneck = pb.Bottleneck_CLIENT
	case s.Blocked >= dominant && e.used < full: // workers that lack processors are slow to send, too
		c.Bottleneck = pb.Bottleneck_NETWORK
	default:
		c = inWorkers(s, e)
	}
	c.Why = because(c, s, e)
	c.Verdict = fmt.Sprintf("trainers waited %s of the time; %s", percent(waited), c.Why)
	return c
}

// silent is of trainers of which nothing was heard for longer than they let pass.
func silent(trainers int) Cause {
	words := fmt.Sprintf(
		"nothing was heard of its %s for %.0f seconds: %s ended without closing the loader, %s stopped or %s cut off; "+
			"the rows go to others when the lease ends", english.PluralWord(trainers, "trainer",
			fmt.Sprintf("%d trainers", trainers)), window.Seconds(),
		english.PluralWord(trainers, "it", "they"), english.PluralWord(trainers, "is", "are"),
		english.PluralWord(trainers, "is", "are"))
	return Cause{Verdict: words, Why: words}
}

// inWorkers is where in the workers rows take long.
func inWorkers(s *Session, e *evidence) Cause {
	work := 0.0
	for name, seconds := range e.stages {
		if name != "storage" {
			work += seconds
		}
	}
	stage := ""
	if len(s.Stages) > 0 {
		stage = s.Stages[0].Name
	}
	switch {
	case e.stages["storage"] > work:
		return Cause{Bottleneck: pb.Bottleneck_STORAGE, Stage: "storage"}
	case e.used >= full && (s.Needed == 0 || s.Needed > s.Granted): // else they have time to spare
		if stage == "storage" && len(s.Stages) > 1 {
			stage = s.Stages[1].Name // all others together take longer
		}
		return Cause{Bottleneck: pb.Bottleneck_WORKERS, Stage: stage}
	}
	return Cause{Bottleneck: pb.Bottleneck_STREAMS, Stage: stage}
}

// because says why.
func because(c Cause, s *Session, e *evidence) string {
	switch c.Bottleneck {
	case pb.Bottleneck_TRAINER:
		return "the training loop is the bottleneck"
	case pb.Bottleneck_CLIENT:
		return fmt.Sprintf(
			"the trainers' own processes are the bottleneck: rows of %s were received, and making batches took %s "+
				"of the time",
			english.Plural(int(math.Round(e.buffered)), "batch", "batches"), percent(e.client))
	case pb.Bottleneck_NETWORK:
		return fmt.Sprintf("the network is the bottleneck: workers' streams wait %s of the time to send",
			percent(s.Blocked))
	case pb.Bottleneck_STORAGE:
		return fmt.Sprintf("storage is the bottleneck: workers' streams wait for it %s of the time", percent(s.Storage))
	case pb.Bottleneck_WORKERS:
		if e.workers == 0 {
			return "there are no workers: start some, or see with `penstock doctor` why the master knows none"
		}
		return fmt.Sprintf("workers are the bottleneck: they are busy %s of it, with %s%s",
			percent(e.used), doing(s, e), needs(s))
	case pb.Bottleneck_STREAMS:
		return tooFewStreams(c, s, e)
	}
	return "the workers have not reported for long enough to say why"
}

func tooFewStreams(c Cause, s *Session, e *evidence) string {
	switch all := english.Plural(e.slots, "slot", ""); {
	case c.Stage == slots:
		return fmt.Sprintf(
			"slots are the bottleneck: streams of other sessions, whose trainers take nothing from them, have %.1f "+
				"of %s; "+
				"give workers more --slots, or close the loaders that are not read", e.others, all)
	case s.Open >= 0.05: // which does not round to none
		return fmt.Sprintf("streams are the bottleneck: %.1f are open on %s, and workers are busy %s of it; %s",
			s.Open, all, percent(e.used), moreStreams(s.Open+e.others, e.slots))
	case s.Trainers < s.World:
		return fmt.Sprintf(
			"no stream is open on the workers: nothing is left to read for the %s, of %d, that %s joined",
			english.Plural(s.Trainers, "trainer", ""), s.World, english.PluralWord(s.Trainers, "has", "have"))
	case s.World > 1:
		return "no stream is open on the workers: nothing is left to read, or other ranks hold the rest"
	}
	return "no stream is open on the workers: nothing is left to read"
}

// moreStreams says which setting lets more streams be open, by whether the slots or what there is to read bounds them.
func moreStreams(open float64, slots int) string {
	if open < 0.8*float64(slots) {
		return "more shards would fill the other slots: `penstock convert --row-group-rows` makes smaller row groups"
	}
	return "`penstock worker --slots` lets each worker serve more at once"
}

// doing is such as "hash 61%, decode 30%".
func doing(s *Session, e *evidence) string {
	sum := 0.0
	for _, seconds := range e.stages {
		sum += seconds
	}
	var named []string
	for _, stage := range s.Stages {
		if share := stage.Seconds / sum; share >= mentioned {
			named = append(named, stage.Name+" "+percent(share))
		}
	}
	return strings.Join(named, ", ")
}

func needs(s *Session) string {
	if s.Needed <= 0 {
		return ""
	}
	if words.Unbounded(s.Demand) {
		return fmt.Sprintf("; its trainers take all that comes, and it has %.1f workers", s.Granted)
	}
	return fmt.Sprintf("; %s need %.1f workers, and it has %.1f", words.Rate(s.Demand), s.Needed, s.Granted)
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// together is what holds most of the trainers up.
func together(f *Fleet) Cause {
	var first, worst *Session
	read, known, waiting := 0, 0, 0
	for i := range f.Sessions {
		s := &f.Sessions[i]
		if !s.Reads() {
			continue
		}
		if read++; first == nil {
			first = s
		}
		if s.Bottleneck == pb.Bottleneck_BOTTLENECK_UNSPECIFIED {
			continue
		}
		if known++; s.Bottleneck == pb.Bottleneck_TRAINER {
			continue
		}
		waiting++
		if worst == nil || s.waits*float64(s.Trainers) > worst.waits*float64(worst.Trainers) {
			worst = s
		}
	}
	switch {
	case read == 0:
		return allUnread(f.Sessions)
	case known == 0:
		return first.Cause
	case worst == nil && read == 1:
		return Cause{Bottleneck: first.Bottleneck, Verdict: fmt.Sprintf("%s, and workers are busy %s of it",
			first.Verdict, percent(f.Busy))}
	case worst == nil:
		return Cause{Bottleneck: pb.Bottleneck_TRAINER, Verdict: fmt.Sprintf(
			"no trainer of %d sessions waits: training loops are the bottleneck, and workers are busy %s of the time",
			read, percent(f.Busy))}
	case read == 1:
		return worst.Cause
	}
	return Cause{
		Bottleneck: worst.Bottleneck, Stage: worst.Stage, Verdict: fmt.Sprintf("%d of %d sessions %s, %s most: %s",
			waiting, read, english.PluralWord(waiting, "waits", "wait"), worst.ID, worst.Verdict),
	}
}

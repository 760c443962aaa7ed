package autoscale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/words"
)

// maxNamed bounds the sessions that a reason names.
const maxNamed = 8

// decision puts numbers and words to what was chosen.
func (s *scaler) decision(to int, k kind) Decision {
	d := Decision{
		At: s.now.At, From: s.now.Wanted, To: to, Demand: s.demand(), Needed: s.sum, Stall: s.stall(),
		Busy: s.recent.mean((*Sample).busy), Missing: max(0, s.missing()),
	}
	busy, known := 0.0, 0.0
	for i := range s.needs {
		n := &s.needs[i]
		if n.Cost > 0 {
			busy, known = busy+n.Demand*n.Cost, known+n.Demand
		}
		d.Parts = append(d.Parts, Part{Session: n.ID, Needed: n.part, Braked: n.braked})
		d.Braked = d.Braked || n.braked
	}
	if busy > 0 {
		d.Capacity = known / busy
	}
	slices.SortFunc(d.Parts, func(a, b Part) int { return strings.Compare(a.Session, b.Session) })
	d.Bottleneck = s.bottleneck(d)
	d.Reason = s.reason(d, k)
	return d
}

// bottleneck is what holds the session up that waits most.
func (s *scaler) bottleneck(d Decision) pb.Bottleneck {
	if len(s.needs) == 0 {
		return pb.Bottleneck_BOTTLENECK_UNSPECIFIED
	}
	n := s.slowest()
	switch {
	case n.wait < muchStall && n.Rate > 0:
		return pb.Bottleneck_NONE
	case n.Storage > 0.5, n.braked && n.Storage >= muchStorage:
		return pb.Bottleneck_STORAGE
	case n.braked && n.Stage == "send":
		return pb.Bottleneck_NETWORK
	case n.braked:
		return pb.Bottleneck_CLIENT
	case n.workers == 0:
		return pb.Bottleneck_BOTTLENECK_UNSPECIFIED
	case s.sum > float64(s.now.Workers) || d.Busy > s.cfg.Utilisation:
		return pb.Bottleneck_WORKERS
	case n.Stage == "send":
		return pb.Bottleneck_NETWORK
	default:
		return pb.Bottleneck_CLIENT
	}
}

// slowest is the session whose trainers wait most.
func (s *scaler) slowest() *need {
	worst := &s.needs[0]
	for i := range s.needs {
		if n := &s.needs[i]; n.wait*float64(n.Trainers) > worst.wait*float64(worst.Trainers) {
			worst = n
		}
	}
	return worst
}

func (s *scaler) reason(d Decision, k kind) string {
	change := fmt.Sprintf("%s to %d", workers(d.From), d.To)
	switch k {
	case bounds:
		return fmt.Sprintf("%s: the pool is set to have %d to %d", change, s.cfg.MinWorkers, s.cfg.MaxWorkers)
	case braking:
		return s.brakeReason(d, change)
	case stale:
		return fmt.Sprintf("%s kept: %d of %d sent no report lately, so what is needed is not known",
			workersAre(d.From), s.now.Silent, s.now.Workers+s.now.Silent)
	case full:
		return fmt.Sprintf("%s the most that the pool may have (--max-workers): %s. %s",
			workersAre(d.From), s.because(d), waits(d))
	case missing:
		return fmt.Sprintf(
			"%s wanted, and %d did not come within %s: see whether there is room for them, and why they do not "+
				"start; %s. %s",
			workersAre(d.From), d.Missing, s.late(), s.because(d), waits(d))
	case grow:
		return fmt.Sprintf("%s: %s. %s", change, s.because(d), waits(d))
	case shrink:
		if len(s.needs) == 0 {
			return change + ": no session runs"
		}
		return fmt.Sprintf("%s: %s, and no more were needed for %s", change, s.because(d), s.lasted)
	default:
		if len(s.needs) == 0 {
			return fmt.Sprintf("%s kept: no session runs", workersAre(d.From))
		}
		return fmt.Sprintf("%s kept: %s. %s", workersAre(d.From), s.because(d), waits(d))
	}
}

// because says how the number of workers comes about.
func (s *scaler) because(d Decision) string {
	var parts []string
	switch {
	case d.Capacity > 0 && words.Unbounded(d.Demand):
		parts = append(parts, fmt.Sprintf("trainers take all that comes, and a busy worker makes %s rows/s",
			number(d.Capacity)))
	case d.Capacity > 0:
		parts = append(parts,
			fmt.Sprintf("trainers could take %s rows/s and a busy worker makes %s, so %.1f at %.0f%% busy",
				number(d.Demand), number(d.Capacity), d.Demand/d.Capacity/s.cfg.Utilisation, 100*s.cfg.Utilisation))
	}
	needs := slices.Clone(s.needs)
	slices.SortStableFunc(needs, func(a, b need) int { return cmp.Compare(b.part, a.part) })
	named, others := 0, 0
	for i := range needs {
		switch words := s.peculiar(&needs[i]); {
		case words == "":
		case named == maxNamed:
			others++
		default:
			parts = append(parts, words)
			named++
		}
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("the like holds for %s with no larger parts",
			english.Plural(others, "more session", "")))
	}
	if len(parts) == 0 {
		return "no trainer is there"
	}
	return strings.Join(parts, "; ")
}

// peculiar says why a session's part is another than its trainers' demand makes it, "" if it is not.
func (s *scaler) peculiar(n *need) string {
	switch {
	case n.unknown() && n.part == 0:
		return fmt.Sprintf("session %s has its share of them until its speed is known", n.ID)
	case n.unknown():
		return fmt.Sprintf("session %s gets %s until its speed is known", n.ID, fraction(n.part))
	case n.braked:
		return fmt.Sprintf("session %s is kept to %s, for more did not help it", n.ID, fraction(n.part))
	case n.part < n.workers && n.MaxWorkers > 0 && n.part == float64(n.MaxWorkers):
		return fmt.Sprintf("session %s has its maximum of %d", n.ID, n.MaxWorkers)
	case n.part > n.workers && s.past.liftOf(n.ID) >= 0:
		return fmt.Sprintf(
			"session %s needs %.2f times as much as that, for it takes %s rows/s though workers have time to spare: "+
				"its streams are few, or uneven", n.ID, n.part/n.workers, number(n.Rate))
	case n.part < n.workers && brakeOf(s.past.Brakes, n.ID) != nil:
		return fmt.Sprintf("session %s gets %s, to see whether they help now", n.ID, fraction(n.part))
	case n.part < n.workers && words.Unbounded(n.Demand):
		return fmt.Sprintf("session %s gets %s first, to see whether they help", n.ID, fraction(n.part))
	case n.part < n.workers:
		return fmt.Sprintf(
			"session %s gets %s first, to see whether they help: its streams wait for storage %.0f%% of their time",
			n.ID, fraction(n.part), 100*n.Storage)
	case n.part > n.workers && n.part == float64(n.MinWorkers):
		return fmt.Sprintf("session %s has its minimum of %d", n.ID, n.MinWorkers)
	}
	return ""
}

func (s *scaler) brakeReason(d Decision, change string) string {
	b := s.vain[0]
	i := slices.IndexFunc(s.needs, func(n need) bool { return n.ID == b.Session })
	n := &s.needs[i]
	elsewhere := "the bottleneck is not the workers"
	switch d.Bottleneck {
	case pb.Bottleneck_STORAGE:
		elsewhere = fmt.Sprintf("storage gives no more: its streams wait for it %.0f%% of their time", 100*n.Storage)
	case pb.Bottleneck_NETWORK:
		elsewhere = "the network or the trainers' clients take no more"
	case pb.Bottleneck_CLIENT:
		elsewhere = fmt.Sprintf("workers are %s busy: its trainers' clients take no more, or have no more streams",
			words.Percent(d.Busy))
	}
	tried := fmt.Sprintf(
		"more workers did not help session %s, which takes %s rows/s after %s, and loses %s of its time to waiting "+
			"after %s",
		b.Session, number(n.Rate), number(b.Rate), words.Percent(n.wait), words.Percent(b.Wait))
	if n.Rate > faster*b.Rate { // it is no longer what it was before they came
		tried = fmt.Sprintf(
			"session %s has little use for all of its workers: it takes %s rows/s, and loses %s of its time to waiting",
			b.Session, number(n.Rate), words.Percent(n.wait))
	}
	until := brakeOf(s.past.Brakes, b.Session).Until.Sub(s.now.At)
	return fmt.Sprintf("%s: %s; %s. No more for %s", change, tried, elsewhere, until)
}

func waits(d Decision) string {
	return fmt.Sprintf("Trainers wait %s of their time; workers are %s busy",
		words.Percent(d.Stall), words.Percent(d.Busy))
}

func workers(n int) string { return english.Plural(n, "worker", "") }

func workersAre(n int) string { return workers(n) + " " + english.PluralWord(n, "is", "are") }

func fraction(n float64) string {
	if n == math.Trunc(n) {
		return workers(int(n))
	}
	return fmt.Sprintf("%.1f workers", n)
}

// number writes three digits that count, and the rest as zeros: 12,300.
func number(x float64) string {
	if x < 100 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	scale := math.Pow(10, math.Floor(math.Log10(x))-2)
	digits := strconv.FormatInt(int64(math.Round(x/scale)*scale), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

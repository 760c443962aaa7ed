package master

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/telemetry"
	"github.com/penstock-ml/penstock/master/observe"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/words"
)

// maxSessionSeries bounds how many sessions have series of their own, of those that run, by name, and of those that
// failed.
const maxSessionSeries = 200

// metrics are what a master tells Prometheus. The leader alone knows of demand and sessions; the others say that they
// do not lead. Workers tell of themselves, and trainers are summed up by session, so that the number of series follows
// the sessions alone.
type metrics struct {
	leading, members, untrusted, sessionsTotal, sessionsLeftOut              telemetry.Metric
	workers, wanted, needed, demand, capacity, rate, stall, busy, bottleneck telemetry.Metric
	read, sent, crossZone                                                    telemetry.Metric
	session                                                                  sessionMetrics
}

type sessionMetrics struct {
	demand, rate, stall, worst, cost, needed, granted, trainers, epoch, delivered, abandoned, bottleneck,
	state telemetry.Metric
	imbalance,
	padding telemetry.Metric
}

func newMetrics() metrics {
	const pool, by = "fleet_", "session"
	return metrics{
		leading: telemetry.Gauge("master_leading", "1 for the master that leads, 0 for the others."),
		members: telemetry.Gauge("fleet_members",
			"Processes that gossip knows, by role and whether they drain.", "role", "draining"),
		untrusted: telemetry.Counter("master_untrusted_statistics_total",
			"Column chunks of filters whose statistics contradict themselves, and so exclude nothing."),
		sessionsTotal: telemetry.Gauge("sessions", "Sessions that are not over."),
		sessionsLeftOut: telemetry.Gauge("sessions_left_out",
			"Sessions without series of their own, for there are too many."),

		workers: telemetry.Gauge(pool+"workers", "Workers that report and do not drain."),
		wanted:  telemetry.Gauge(pool+"workers_wanted", "Workers that the scaler wants."),
		needed: telemetry.Gauge(pool+"workers_needed",
			"Workers that the demand takes; not there while it is unknown."),
		demand: telemetry.Gauge(pool+"demand_rows_per_second",
			"Rows a second that trainers could take; not there while it is unknown."),
		capacity: telemetry.Gauge(pool+"capacity_rows_per_second",
			"Rows a second that the workers could give to the sessions that run."),
		rate:  telemetry.Gauge(pool+"delivered_rows_per_second", "Rows a second handed over to training loops."),
		stall: telemetry.Gauge(pool+"stall_ratio", "Part of their time that trainers waited for batches, 0 to 1."),
		busy:  telemetry.Gauge(pool+"busy_ratio", "Part of their time that workers were busy, 0 to 1."),
		bottleneck: telemetry.Gauge(pool+"bottleneck_info", "1; the label says what holds the trainers up.",
			"bottleneck"),
		read: telemetry.Gauge(pool+"storage_bytes_per_second", "Bytes a second read from storage."),
		sent: telemetry.Gauge(pool+"sent_bytes_per_second", "Bytes a second of tensors sent to trainers."),
		crossZone: telemetry.Gauge(pool+"cross_zone_bytes_per_second",
			"Bytes a second of tensors sent to trainers of another zone."),

		session: sessionMetrics{
			demand: telemetry.Gauge("session_demand_rows_per_second",
				"Rows a second that its trainers could take; not there while it is unknown.", by),
			rate: telemetry.Gauge("session_delivered_rows_per_second",
				"Rows a second handed over to its training loops.", by),
			stall: telemetry.Gauge("session_stall_ratio",
				"Part of their time that its trainers waited for batches, 0 to 1.", by),
			worst: telemetry.Gauge("session_stall_ratio_max", "The same of the trainer that waited most.", by),
			cost: telemetry.Gauge("session_row_cost_seconds",
				"Busy time of a worker for one row; not there while it is unknown.", by),
			needed:   telemetry.Gauge("session_workers_needed", "Workers that its demand takes.", by),
			granted:  telemetry.Gauge("session_workers_granted", "Workers that its streams come to.", by),
			trainers: telemetry.Gauge("session_trainers", "Trainers that are present.", by),
			epoch:    telemetry.Gauge("session_epoch", "Epochs that are closed.", by),
			imbalance: telemetry.Gauge("session_rank_imbalance_ratio",
				"By which part the rank with the fewest rows is behind the one with the most, 0 to 1.", by),
			padding: telemetry.Gauge("session_padding_ratio",
				"Part of the rows of batches that is padding, 0 to 1, where last batches are padded.", by),
			delivered: telemetry.Counter("session_delivered_rows_total",
				"Rows handed over to training loops since the session began or was restored.", by),
			abandoned: telemetry.Counter("session_abandoned_shards_total",
				"About how many shards nobody got, since all trainers left their epochs before the end.", by),
			bottleneck: telemetry.Gauge("session_bottleneck_info",
				"1; the labels say what holds its trainers up, and the busiest stage.", by, "bottleneck", "stage"),
			state: telemetry.Gauge("session_state_info",
				"1; the label is its state: waiting, running, idle, abandoned, or failed and not closed yet.",
				by, "state"),
		},
	}
}

// newestPoint is how old the newest point may be, of those that are taken every two seconds.
const newestPoint = 10 * time.Second

func (m metrics) collector(of *Master) prometheus.Collector {
	return telemetry.Func(func(ch chan<- prometheus.Metric) {
		m.writeMembers(ch, of)
		term := of.leading()
		m.leading.Write(ch, telemetry.Bool(term != nil))
		m.untrusted.Write(ch, float64(of.untrusted.Load()))
		if term == nil {
			return
		}
		m.session.writeFailed(ch, term.all())
		ctx, cancel := context.WithTimeout(identity.With(context.Background(), identity.Anyone()), viewTimeout)
		defer cancel()
		// else it has just stopped to lead
		if seen, err := of.viewer.own.Observe(ctx,
			&pb.ObserveRequest{SinceUnixMs: time.Now().Add(-newestPoint).UnixMilli()}); err == nil {
			m.write(ch, seen)
		}
	})
}

func (m metrics) writeMembers(ch chan<- prometheus.Metric, of *Master) {
	type kind struct {
		role     fleet.Role
		draining bool
	}
	counts := map[kind]int{}
	for _, role := range []fleet.Role{fleet.Master, fleet.Worker} {
		counts[kind{role, false}], counts[kind{role, true}] = 0, 0
		for _, x := range of.fleet.Members(role) {
			counts[kind{role, x.Draining}]++
		}
	}
	for k, n := range counts {
		m.members.Write(ch, float64(n), string(k.role), strconv.FormatBool(k.draining))
	}
}

func (m metrics) write(ch chan<- prometheus.Metric, seen *pb.Observation) {
	if points := seen.GetPoints(); len(points) > 0 {
		p := points[len(points)-1]
		m.workers.Write(ch, float64(p.GetWorkers()))
		m.wanted.Write(ch, float64(p.GetWanted()))
		known(ch, m.needed, p.GetNeeded())
		known(ch, m.demand, p.GetDemand())
		known(ch, m.capacity, p.GetCapacity())
		m.rate.Write(ch, p.GetRate())
		m.stall.Write(ch, p.GetStall())
		m.busy.Write(ch, p.GetBusy())
		m.read.Write(ch, p.GetBytesRead())
		m.sent.Write(ch, p.GetBytesSent())
		m.crossZone.Write(ch, p.GetBytesCrossZone())
	}
	m.bottleneck.Write(ch, 1, bottleneckLabel(seen.GetBottleneck()))
	sessions := slices.Clone(seen.GetSessions())
	slices.SortFunc(sessions, func(a, b *pb.SessionLoad) int {
		return cmp.Or(-cmp.Compare(running(a), running(b)), cmp.Compare(a.GetSession(), b.GetSession()))
	})
	shown := sessions[:min(maxSessionSeries, len(sessions))]
	m.sessionsTotal.Write(ch, float64(len(sessions)))
	m.sessionsLeftOut.Write(ch, float64(len(sessions)-len(shown)))
	for _, s := range shown {
		m.session.write(ch, s)
	}
}

func (m sessionMetrics) write(ch chan<- prometheus.Metric, s *pb.SessionLoad) {
	id := store.NameOf(s.GetNamespace(), s.GetSession()).String()
	known(ch, m.demand, s.GetDemand(), id)
	known(ch, m.cost, s.GetCost(), id)
	m.rate.Write(ch, s.GetRate(), id)
	m.stall.Write(ch, s.GetStall(), id)
	worst, present := 0.0, 0
	for _, t := range s.GetTrainers() {
		worst = max(worst, t.GetStall())
		if t.GetPresent() {
			present++
		}
	}
	m.worst.Write(ch, worst, id)
	m.needed.Write(ch, s.GetNeeded(), id)
	m.granted.Write(ch, s.GetGranted(), id)
	m.trainers.Write(ch, float64(present), id)
	m.epoch.Write(ch, float64(s.GetProgress().GetEpoch()), id)
	m.delivered.Write(ch, float64(s.GetProgress().GetRowsDelivered()), id)
	m.abandoned.Write(ch, float64(s.GetProgress().GetAbandonedShards()), id)
	if n, ok := observe.SharesOf(s.GetProgress(), s.GetPaddedBatch()); ok && n.MaxRows > 0 {
		m.imbalance.Write(ch, float64(n.MaxRows-n.MinRows)/float64(n.MaxRows), id)
		if s.GetPaddedBatch() > 0 {
			m.padding.Write(ch, n.Padding, id)
		}
	}
	m.bottleneck.Write(ch, 1, id, bottleneckLabel(s.GetBottleneck()), s.GetStage())
	if !isOver(s.GetState()) { // else writeFailed tells
		m.state.Write(ch, 1, id, words.State(s.GetState()))
	}
}

// writeFailed tells of sessions that failed, until they are closed, which is late enough for an alert. Of one that
// finished there is nothing.
func (m sessionMetrics) writeFailed(ch chan<- prometheus.Metric, sessions []*runner) {
	failed := slices.DeleteFunc(sessions, func(r *runner) bool { return !r.failed.Load() })
	slices.SortFunc(failed, func(a, b *runner) int { return cmp.Compare(a.name, b.name) })
	for _, r := range failed[:min(maxSessionSeries, len(failed))] {
		m.state.Write(ch, 1, r.name.String(), words.State(pb.SessionState_FAILED))
	}
}

// known leaves out a number that stands for "not known".
func known(ch chan<- prometheus.Metric, m telemetry.Metric, value float64, labels ...string) {
	if value != 0 {
		m.Write(ch, value, labels...)
	}
}

func running(s *pb.SessionLoad) int {
	return int(telemetry.Bool(s.GetState() == pb.SessionState_RUNNING))
}

func bottleneckLabel(b pb.Bottleneck) string {
	if b == pb.Bottleneck_BOTTLENECK_UNSPECIFIED {
		return "unknown"
	}
	return strings.ToLower(b.String())
}

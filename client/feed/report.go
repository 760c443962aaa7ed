package feed

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// failed is a session's end.
func failed(err error) *reply {
	out := &failure{Words: err.Error(), Code: status.Code(err).String()}
	var session *client.FailedError
	var refused *client.RefusedError
	var absent *client.AbsentError
	var missing *client.MissingError
	said := client.Masters(err)
	switch {
	case errors.As(err, &refused):
		out.Kind, out.Words, out.Address = kindRefused, refused.Err.Error(), refused.Address
		out.Shard, out.File, out.Stranger = refused.Shard.String(), refused.File, errors.Is(err, client.ErrNoWorker)
	case errors.As(err, &session):
		out.Kind, out.Words, out.BadData = kindSession, session.Words, errors.Is(err, client.ErrData)
	case errors.As(err, &absent):
		out.Kind, out.Words = kindAbsent, absent.Words()
	case errors.As(err, &missing):
		out.Kind, out.Words = kindMissing, missing.Error()
	case len(said) > 0:
		out.Kind, out.Words, out.Op = kindMaster, lines(said), said[0].Op
		out.NoHandshake, out.CannotYet, out.Spec = client.NoHandshake(err), client.CannotYet(err), refusedSpec(err)
		if slices.ContainsFunc(said, func(e *client.MasterError) bool { return rpc.NotMaster(e.Err) != "" }) {
			out.Code = codes.Unavailable.String() // it is no master's answer to what was asked
		}
	}
	return &reply{Error: out}
}

// misused is an error of the request itself.
func misused(err error) *reply {
	return &reply{Error: &failure{Kind: kindUsage, Words: err.Error(), Code: codes.InvalidArgument.String()}}
}

// lines are what masters said, one a line.
func lines(said []*client.MasterError) string {
	words := make([]string, len(said))
	for i, e := range said {
		words[i] = e.Error()
	}
	return strings.Join(words, "\n")
}

// refusedSpec is what the session reads that was to be restored, nil if that is not what failed.
func refusedSpec(err error) map[string]any {
	var restore *client.RestoreError
	if !errors.As(err, &restore) {
		return nil
	}
	return fingerprint(restore.Spec)
}

func waitingFor(w client.Waiting) *waiting {
	out := &waiting{Idle: w.Idle.Seconds(), Lapsed: w.Lapsed}
	if w.Master != nil {
		out.Master = w.Master.Error()
	}
	for _, a := range w.Workers {
		one := asked{Name: a.Name, Address: a.Address}
		if a.Err != nil {
			one.Error = a.Err.Error()
		}
		out.Workers = append(out.Workers, one)
	}
	return out
}

func (f *feeder) figures() *figures {
	s := f.session.Stats()
	out := &figures{
		Epoch: f.session.Epoch(), Rows: s.Rows, Batches: s.Batches, Bytes: s.Bytes, Dropped: s.Dropped,
		SkippedRows: s.SkippedRows,
		Stall:       s.Stall.Seconds(), LongestStall: s.LongestStall.Seconds(), Compute: s.Compute.Seconds(),
		Failovers: s.Failovers, Hedges: s.Hedges, Buffered: s.Buffered, PeakBuffered: s.PeakBuffered,
		Workers: s.Workers, Streams: s.Streams, RowsByWorker: s.RowsByWorker, StreamsByWorker: s.StreamsByWorker,
		Ways: s.Ways,
	}
	if s.Cause != nil {
		out.Cause = cause{Bottleneck: strings.ToLower(s.Cause.GetBottleneck().String()), Words: s.Cause.GetWords()}
	}
	if n, known := f.session.EpochBatches(); known {
		out.EpochBatches = &n
	}
	return out
}

// events is the handler of a session's log. It collects what is logged, for the program. Any goroutine may
// call.
type events struct {
	mu   sync.Mutex
	list []event
	lost int64 // that list had no room for
}

// maxEvents bounds those that wait for the program to ask for something. Further ones are counted.
const maxEvents = 1000

func (e *events) take() []event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.list
	if e.lost > 0 {
		out = append(out, event{
			Message: "further events came while the program asked for nothing, and were not kept",
			Level:   int(slog.LevelWarn), Name: "events_lost", About: map[string]any{"events": e.lost},
		})
	}
	e.list, e.lost = nil, 0
	return out
}

func (e *events) Enabled(context.Context, slog.Level) bool { return true }

func (e *events) Handle(_ context.Context, r slog.Record) error {
	line := event{Message: r.Message, Level: int(r.Level), About: make(map[string]any)}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" {
			line.Name = a.Value.String()
		} else {
			line.About[a.Key] = valueOf(a.Value.Resolve())
		}
		return true
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == maxEvents {
		e.lost++
	} else {
		e.list = append(e.list, line)
	}
	return nil
}

// WithAttrs drops what all of a session's lines have: the program knows its session and its rank.
func (e *events) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e *events) WithGroup(string) slog.Handler { return e }

// valueOf is a value as JSON has it; JSON has no infinities.
func valueOf(v slog.Value) any {
	switch v.Kind() {
	case slog.KindInt64:
		return v.Int64()
	case slog.KindUint64:
		return v.Uint64()
	case slog.KindFloat64:
		if f := v.Float64(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	case slog.KindDuration:
		return v.Duration().Seconds()
	case slog.KindBool:
		return v.Bool()
	}
	return v.String()
}

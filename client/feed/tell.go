package feed

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
)

// text is what a message can have of words, which may be a worker's, of any bytes.
func text(words string) string { return strings.ToValidUTF8(words, "\uFFFD") }

// failed is a session's end.
func failed(err error) *pb.FeedReply {
	out := &pb.FeedError{Words: err.Error(), Code: uint32(status.Code(err))}
	var master *client.MasterError
	var session *client.FailedError
	var refused *client.RefusedError
	var absent *client.AbsentError
	switch {
	case errors.As(err, &refused):
		out.Kind, out.Words, out.Address = pb.FeedError_REFUSED, refused.Err.Error(), refused.Address
		out.Shard, out.File, out.Stranger = refused.Shard.String(), refused.File, errors.Is(err, client.ErrNoWorker)
	case errors.As(err, &session):
		out.Kind, out.Words, out.BadData = pb.FeedError_SESSION, session.Words, errors.Is(err, client.ErrData)
	case errors.As(err, &absent):
		out.Words = absent.Words()
	case errors.As(err, &master):
		out.Kind, out.Words = pb.FeedError_MASTER, master.Error()
	}
	out.Words = text(out.Words)
	return &pb.FeedReply{What: &pb.FeedReply_Error{Error: out}}
}

func waiting(w client.Waiting) *pb.FeedWaiting {
	out := &pb.FeedWaiting{IdleNs: int64(w.Idle), Lapsed: w.Lapsed}
	if w.Master != nil {
		out.Master = text(w.Master.Error())
	}
	for _, a := range w.Workers {
		one := &pb.FeedWorker{Name: a.Name, Address: a.Address}
		if a.Err != nil {
			one.Error = text(a.Err.Error())
		}
		out.Workers = append(out.Workers, one)
	}
	return out
}

func (f *feeder) figures() *pb.FeedFigures {
	s := f.session.Stats()
	out := &pb.FeedFigures{
		Epoch: f.session.Epoch(), Rows: s.Rows, Batches: s.Batches, Bytes: s.Bytes, Dropped: s.Dropped, StallNs: int64(s.Stall),
		LongestStallNs: int64(s.LongestStall), ComputeNs: int64(s.Compute), Failovers: s.Failovers, Hedges: s.Hedges, Buffered: s.Buffered,
		PeakBuffered: s.PeakBuffered, Workers: int64(s.Workers), Streams: int64(s.Streams), RowsByWorker: s.RowsByWorker,
		StreamsByWorker: make(map[string]int64, len(s.StreamsByWorker)), Cause: s.Cause, Ways: make(map[string]int64, len(s.Ways)),
	}
	for way, n := range s.Ways {
		out.Ways[string(way)] = n
	}
	for name, n := range s.StreamsByWorker {
		out.StreamsByWorker[name] = int64(n)
	}
	if n, known := f.session.EpochBatches(); known {
		out.EpochBatches = &n
	}
	return out
}

// events is the handler of a session's log. It collects what is logged, for the program to tell. Any goroutine may call.
type events struct {
	mu   sync.Mutex
	list []*pb.FeedEvent
	lost int64 // that list had no room for
}

// mostEvents bounds those that wait for the program to ask for something. Further ones are counted.
const mostEvents = 1000

func (e *events) take() []*pb.FeedEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.list
	if e.lost > 0 {
		out = append(out, &pb.FeedEvent{
			Message: "further events came while the program asked for nothing, and were not kept", Level: int32(slog.LevelWarn), Name: "events_lost",
			About: map[string]*pb.FeedValue{"events": valueOf(slog.Int64Value(e.lost))},
		})
	}
	e.list, e.lost = nil, 0
	return out
}

func (e *events) Enabled(context.Context, slog.Level) bool { return true }

func (e *events) Handle(_ context.Context, r slog.Record) error {
	event := &pb.FeedEvent{Message: text(r.Message), Level: int32(r.Level), About: make(map[string]*pb.FeedValue)}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" {
			event.Name = a.Value.String()
		} else {
			event.About[a.Key] = valueOf(a.Value.Resolve())
		}
		return true
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == mostEvents {
		e.lost++
	} else {
		e.list = append(e.list, event)
	}
	return nil
}

// WithAttrs drops what all of a session's lines have: the program knows its session and its rank.
func (e *events) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e *events) WithGroup(string) slog.Handler { return e }

func valueOf(v slog.Value) *pb.FeedValue {
	switch v.Kind() {
	case slog.KindInt64:
		return &pb.FeedValue{Is: &pb.FeedValue_Integer{Integer: v.Int64()}}
	case slog.KindUint64:
		return &pb.FeedValue{Is: &pb.FeedValue_Integer{Integer: int64(v.Uint64())}}
	case slog.KindFloat64:
		return &pb.FeedValue{Is: &pb.FeedValue_Number{Number: v.Float64()}}
	case slog.KindDuration:
		return &pb.FeedValue{Is: &pb.FeedValue_Number{Number: v.Duration().Seconds()}}
	case slog.KindBool:
		return &pb.FeedValue{Is: &pb.FeedValue_Truth{Truth: v.Bool()}}
	}
	return &pb.FeedValue{Is: &pb.FeedValue_Text{Text: text(v.String())}}
}

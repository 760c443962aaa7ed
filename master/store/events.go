package store

import (
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// KeptEvents is how many events are kept: the newest.
	KeptEvents = 1000
	// eventScan is how many events one request reads.
	eventScan = 256
)

// Events reads the events that are kept, by number.
func (s *Store) Events(ctx context.Context) ([]*pb.Event, error) {
	var out []*pb.Event
	dir := s.keys.events()
	err := s.scan(ctx, dir, dir, after(dir), 0, eventScan, func(key string, kv *mvccpb.KeyValue) error {
		number, err := strconv.ParseUint(key, 10, 64)
		if err != nil {
			return nil //nolint:nilerr // of somebody else
		}
		e := &pb.Event{}
		if err := unmarshal(kv, e); err != nil { // nothing but words is lost
			e = &pb.Event{Words: err.Error()}
		}
		e.Number = number
		out = append(out, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return out, nil
}

// AppendEvents writes events, whose numbers follow each other and those that lie there, and deletes those that are kept
// no longer, in one transaction. It fails with ErrConflict if there is an event of the first one's number: then an
// earlier call with it, by this leadership, did what it was to, though it returned ErrUnknown.
func (s *Store) AppendEvents(ctx context.Context, lead *Leadership, events []*pb.Event) error {
	if len(events) == 0 {
		return nil
	}
	first, last := events[0].GetNumber(), events[len(events)-1].GetNumber()
	w := write{name: fmt.Sprintf("append events %d to %d", first, last)}
	w.when = append(w.when, absent(s.keys.event(first)))
	for _, e := range events {
		value, err := proto.Marshal(e)
		if err != nil {
			return fmt.Errorf("store: %s: %w", w.name, err)
		}
		w.put(s.keys.event(e.GetNumber()), value)
	}
	if last > KeptEvents {
		w.then = append(w.then, clientv3.OpDelete(s.keys.events(), clientv3.WithRange(s.keys.event(last-KeptEvents+1))))
	}
	_, _, err := s.run(ctx, lead, w)
	return err
}

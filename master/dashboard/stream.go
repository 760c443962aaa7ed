package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
)

// slowest is how long a viewer may take to read a message before its stream ends.
const slowest = 30 * time.Second

// stream sends what is new, again and again. Each message's id says up to where the viewer knows all, and a viewer that
// comes again with it (Last-Event-ID) gets what it missed. A message comes each time, if only to show that the stream
// lives.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request) {
	f, err := newFeed(d.cfg.Source, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	end, ok := d.viewers.Take(identity.From(r.Context()))
	if !ok {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable,
			fmt.Errorf(
				"too many viewers watch already, of %d, and of a quarter for one namespace; close a page, or try "+
					"again later", d.cfg.Viewers))
		return
	}
	defer end()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies hand it on at once
	control := http.NewResponseController(w)
	if err := d.hello(w); err != nil {
		return
	}
	next, life := time.NewTimer(0), time.NewTimer(d.cfg.Life)
	defer next.Stop()
	defer life.Stop()
	for {
		message, err := d.next(r.Context(), f)
		if err != nil {
			return // a message that cannot be encoded is a mistake of this program's; the viewer sees the stream end
		}
		if err := control.SetWriteDeadline(time.Now().Add(slowest)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			return
		}
		if _, err := w.Write(message); err != nil { //nolint:gosec // JSON
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		next.Reset(time.Until(time.Now().Truncate(d.cfg.Every).Add(d.cfg.Every)))
		select {
		case <-next.C:
		case <-life.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// hello says who tells: behind one address there may be several masters.
func (d *Dashboard) hello(w io.Writer) error {
	text, err := json.Marshal(map[string]string{"master": d.cfg.Name})
	if err == nil {
		_, err = fmt.Fprintf(w, "event: hello\ndata: %s\n\n", text)
	}
	return err //nolint:wrapcheck // the viewer went
}

// feed is one viewer's stream.
type feed struct {
	source  Source
	who     identity.Identity
	session string
	limit   uint32
	workers bool // are asked for
	known
}

// known is what the viewer has been told.
type known struct {
	since int64  // points
	after uint64 // events
	turn  int64  // in which workers were told of last, from 1 on
}

func newFeed(source Source, r *http.Request) (*feed, error) {
	q := r.URL.Query()
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		since, after, ok := strings.Cut(id, "-")
		if !ok {
			return nil, fmt.Errorf("Last-Event-ID: want one that this stream sent, found %q", id) //nolint:staticcheck // the header's name
		}
		q = url.Values{
			"session": q["session"], "workers": q["workers"], "limit": q["limit"], "since": {since},
			"after": {after},
		}
	}
	observe, err := observeRequest(q)
	events, err2 := eventsRequest(q)
	return &feed{
		source: source, who: identity.From(r.Context()), session: observe.GetSession(), limit: events.GetLimit(),
		workers: observe.GetWorkers(),
		known:   known{since: observe.GetSinceUnixMs(), after: events.GetAfter()},
	}, errors.Join(err, err2)
}

// message is what a feed tells, and what its viewer knows then.
type message struct {
	text []byte
	known
	err error
}

// make is what to send now: what was observed since, and events if there are any; or why there is nothing to tell. The
// workers of a large fleet come only in some rounds.
func (f *feed) make(ctx context.Context, number int64) (m message) {
	var out bytes.Buffer
	m.known = f.known
	seen, err := f.source.Observe(ctx, &pb.ObserveRequest{Session: f.session, SinceUnixMs: f.since, Workers: f.workers})
	if err != nil {
		return m.trouble(&out, err)
	}
	happened, err := f.source.ListEvents(ctx, &pb.ListEventsRequest{Session: f.session, After: f.after, Limit: f.limit})
	if err != nil {
		return m.trouble(&out, err)
	}
	workers := brief(seen)
	if turn := 1 + number/every(len(workers)); f.workers && turn != f.turn {
		m.turn = turn
		if m.err = write(&out, "workers", &pb.Observation{Workers: workers}); m.err != nil {
			return m
		}
	}
	if points := seen.GetPoints(); len(points) > 0 {
		m.since = max(m.since, points[len(points)-1].GetUnixMs())
	}
	for _, e := range happened.GetEvents() {
		m.after = max(m.after, e.GetNumber())
	}
	if len(happened.GetEvents()) > 0 {
		if m.err = write(&out, "events", happened); m.err != nil {
			return m
		}
	}
	m.id(&out) // last: only who got all before it knows what the id says
	m.err = write(&out, "observation", seen)
	m.text = out.Bytes()
	return m
}

func (m message) trouble(out *bytes.Buffer, err error) message {
	text, jsonErr := json.Marshal(map[string]string{"error": words(err), "code": status.Code(err).String()})
	m.id(out)
	fmt.Fprintf(out, "event: trouble\ndata: %s\n\n", text)
	m.text, m.err = out.Bytes(), jsonErr
	return m
}

func (m message) id(out *bytes.Buffer) { fmt.Fprintf(out, "id: %d-%d\n", m.since, m.after) }

func write(out *bytes.Buffer, kind string, data proto.Message) error {
	text, err := encode(data)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "event: %s\ndata: %s\n\n", kind, text) // JSON on one line needs no escaping
	return nil
}

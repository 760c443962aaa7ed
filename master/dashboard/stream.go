package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
)

// slowest is how long a viewer may take to read a message before its stream ends.
const slowest = 30 * time.Second

// stream sends what is new, again and again. Each message's id says up to where the viewer knows all, and a viewer that comes again
// with it (Last-Event-ID) gets what it missed. A message comes each time, if only to show that the stream lives.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request) {
	f, err := newFeed(d.cfg.Source, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	end, ok := d.viewers.Take(identity.From(r.Context()))
	if !ok {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("too many viewers watch already, of %d, and of a quarter for one namespace; close a page, or try again later", d.cfg.Viewers))
		return
	}
	defer end()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies hand it on at once
	control := http.NewResponseController(w)
	ticker, life := time.NewTicker(d.cfg.Every), time.NewTimer(d.cfg.Life)
	defer ticker.Stop()
	defer life.Stop()
	for {
		message, err := f.next(r.Context())
		if err != nil {
			return // a message that cannot be encoded is a mistake of this program's; the viewer sees the stream end
		}
		if err := control.SetWriteDeadline(time.Now().Add(slowest)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return
		}
		if _, err := w.Write(message); err != nil { //nolint:gosec // JSON
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-life.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// feed is one viewer's stream.
type feed struct {
	source  Source
	observe *pb.ObserveRequest
	events  *pb.ListEventsRequest
}

func newFeed(source Source, r *http.Request) (*feed, error) {
	q := r.URL.Query()
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		since, after, ok := strings.Cut(id, "-")
		if !ok {
			return nil, fmt.Errorf("Last-Event-ID: want one that this stream sent, found %q", id) //nolint:staticcheck // the header's name
		}
		q = url.Values{"session": q["session"], "workers": q["workers"], "limit": q["limit"], "since": {since}, "after": {after}}
	}
	observe, err := observeRequest(q)
	events, err2 := eventsRequest(q)
	return &feed{source: source, observe: observe, events: events}, errors.Join(err, err2)
}

// next is what to send now: what was observed since, and events if there are any; or why there is nothing to tell.
func (f *feed) next(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	seen, err := f.source.Observe(ctx, f.observe)
	if err != nil {
		return f.trouble(&out, err)
	}
	happened, err := f.source.ListEvents(ctx, f.events)
	if err != nil {
		return f.trouble(&out, err)
	}
	if points := seen.GetPoints(); len(points) > 0 {
		f.observe.SinceUnixMs = max(f.observe.SinceUnixMs, points[len(points)-1].GetUnixMs())
	}
	for _, e := range happened.GetEvents() {
		f.events.After = max(f.events.After, e.GetNumber())
	}
	if len(happened.GetEvents()) > 0 {
		text, err := encode(happened)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "event: events\ndata: %s\n\n", text) // JSON on one line needs no escaping
	}
	text, err := encode(seen)
	if err != nil {
		return nil, err
	}
	f.last(&out, "observation", text)
	return out.Bytes(), nil
}

func (f *feed) trouble(out *bytes.Buffer, err error) ([]byte, error) {
	text, jsonErr := json.Marshal(map[string]string{"error": words(err)})
	f.last(out, "trouble", text)
	return out.Bytes(), jsonErr
}

// last adds the message with the id: only who got all before it knows what the id says.
func (f *feed) last(out *bytes.Buffer, kind string, data []byte) {
	fmt.Fprintf(out, "id: %d-%d\nevent: %s\ndata: %s\n\n", f.observe.GetSinceUnixMs(), f.events.GetAfter(), kind, data)
}

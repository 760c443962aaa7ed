package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/features"
)

func (d *Dashboard) observation(w http.ResponseWriter, r *http.Request) {
	req, err := observeRequest(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	seen, err := d.cfg.Source.Observe(r.Context(), req)
	reply(w, seen, err)
}

func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	req, err := eventsRequest(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	events, err := d.cfg.Source.ListEvents(r.Context(), req)
	reply(w, events, err)
}

// maxSkipped is how many skipped extents of a session are named.
const maxSkipped = 4

func (d *Dashboard) sessions(w http.ResponseWriter, r *http.Request) {
	sessions, err := d.cfg.Source.ListSessions(r.Context(), &pb.ListSessionsRequest{})
	for _, s := range sessions.GetSessions() { // what the page does not show, and may be a megabyte
		s.Spec, s.Program, s.Fingerprint = &pb.Spec{OnError: s.GetSpec().GetOnError()}, nil, nil
		s.Skipped = s.Skipped[:min(len(s.Skipped), maxSkipped)]
		if s.Progress != nil {
			s.Progress.Ranks = nil
		}
	}
	reply(w, sessions, err)
}

func (d *Dashboard) features(w http.ResponseWriter, r *http.Request) {
	uri := r.URL.Query().Get("uri")
	found, err := d.cfg.Source.ListFeatures(r.Context(), &pb.ListFeaturesRequest{Uri: uri})
	if err != nil {
		refuse(w, httpStatus(err), err)
		return
	}
	out := []features.Report{}
	for _, one := range found.GetDatasets() {
		out = append(out, features.ReportOf(one, uri != ""))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"datasets": out}) // the viewer may be gone
}

func (d *Dashboard) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"version": d.cfg.Version}) // the viewer may be gone
}

func observeRequest(q url.Values) (*pb.ObserveRequest, error) {
	since, err := number(q, "since")
	return &pb.ObserveRequest{Session: q.Get("session"), SinceUnixMs: since, Workers: q.Get("workers") == "1"}, err
}

// maxEvents bounds how many events a page asks for.
const maxEvents = 1000

func eventsRequest(q url.Values) (*pb.ListEventsRequest, error) {
	after, err := number(q, "after")
	limit, err2 := number(q, "limit")
	if err == nil && limit > maxEvents {
		err = fmt.Errorf("limit: want at most %d, found %d", maxEvents, limit)
	}
	return &pb.ListEventsRequest{Session: q.Get("session"), After: uint64(after), Limit: uint32(limit)},
		errors.Join(err, err2)
}

// number is a parameter that is 0 if it is not there.
func number(q url.Values, name string) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: want a number, found %q", name, text)
	}
	return n, nil
}

func encode(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return text, nil
}

func reply(w http.ResponseWriter, m proto.Message, err error) {
	if err != nil {
		refuse(w, httpStatus(err), err)
		return
	}
	text, err := encode(m)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) //nolint:gosec // JSON; the viewer may be gone
}

// words are an error's without gRPC's frame.
func words(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": words(err)}) // the viewer may be gone
}

func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.FailedPrecondition:
		return http.StatusConflict
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

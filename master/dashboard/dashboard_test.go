package dashboard_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/dashboard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a fleet whose observation and events the test sets.
type source struct {
	mu       sync.Mutex
	seen     *pb.Observation
	happened []*pb.Event
	read     []*pb.DatasetReads
	over     []*pb.SessionLoad // sessions that are over: they are seen by those who ask after them
	left     *pb.Session       // what the session that is read left out
	err      error
	asked    int // how often it was observed
}

func (s *source) set(change func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *source) Observe(ctx context.Context, req *pb.ObserveRequest) (*pb.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.err != nil {
		return nil, s.err
	}
	out := proto.CloneOf(s.seen)
	out.Points = nil
	for _, p := range s.seen.GetPoints() {
		if p.GetUnixMs() > req.GetSinceUnixMs() {
			out.Points = append(out.Points, p)
		}
	}
	if !req.GetWorkers() {
		out.Workers = nil
	}
	if req.GetSession() != "" {
		out.Sessions = nil
		for _, x := range slices.Concat(s.seen.GetSessions(), s.over) {
			if x.GetSession() == req.GetSession() && x.GetNamespace() == cmp.Or(identity.From(ctx).Namespace,
				x.GetNamespace()) {
				out.Sessions = append(out.Sessions, proto.CloneOf(x))
			}
		}
		if len(out.GetSessions()) == 0 {
			return nil, status.Errorf(codes.NotFound, "session %q does not exist", req.GetSession())
		}
	}
	return out, nil
}

func (s *source) ListEvents(_ context.Context, req *pb.ListEventsRequest) (*pb.ListEventsReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &pb.ListEventsReply{}
	for _, e := range s.happened {
		if e.GetNumber() > req.GetAfter() && (req.GetSession() == "" || req.GetSession() == e.GetSession()) {
			out.Events = append(out.Events, e)
		}
	}
	return out, s.err
}

func (s *source) ListSessions(context.Context, *pb.ListSessionsRequest) (*pb.ListSessionsReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &pb.ListSessionsReply{Sessions: []*pb.Session{{
		Id: "run-7", Spec: &pb.Spec{Filter: "x > 1"}, Program: []byte("p"), Fingerprint: &pb.Fingerprint{},
		Skipped:  []*pb.SkippedRows{{}},
		Progress: &pb.Progress{RowsDelivered: 7, Ranks: []*pb.RankProgress{{Rank: 1}}},
	}}}
	if s.left != nil {
		proto.Merge(out.Sessions[0], s.left)
		out.Sessions[0].Skipped = s.left.GetSkipped()
	}
	for _, x := range s.over {
		out.Sessions = append(out.Sessions, &pb.Session{
			Id: x.GetSession(), State: x.GetState(),
			Failure: x.GetVerdict(), Progress: proto.CloneOf(x.GetProgress()), CreatedUnix: begin / 1000,
		})
	}
	return out, s.err
}

func (s *source) ListFeatures(ctx context.Context, req *pb.ListFeaturesRequest) (*pb.ListFeaturesReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &pb.ListFeaturesReply{}
	for _, d := range s.read {
		if req.GetUri() == "" || req.GetUri() == d.GetPrefix() {
			out.Datasets = append(out.Datasets, proto.CloneOf(d))
		}
	}
	if req.GetUri() != "" && len(out.GetDatasets()) == 0 {
		return nil, status.Errorf(codes.NotFound, "nothing of %s was read in %q", req.GetUri(),
			identity.From(ctx).Namespace)
	}
	return out, s.err
}

func serve(t *testing.T, cfg dashboard.Config) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(dashboard.New(cfg))
	t.Cleanup(srv.Close)
	return srv
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestAnswers(t *testing.T) {
	s := &source{seen: generate(3, 2, 50, 1), happened: []*pb.Event{
		{Number: 1, Words: "a", Session: "run-0"},
		{Number: 2, Words: "b"},
	}}
	srv := serve(t, dashboard.Config{Source: s, Version: "v9"})
	for _, c := range []struct {
		path string
		want proto.Message
		into proto.Message
	}{
		{"/api/v1/observation?workers=1", s.seen, &pb.Observation{}},
		{"/api/v1/events?after=1", &pb.ListEventsReply{Events: s.happened[1:]}, &pb.ListEventsReply{}},
		{"/api/v1/events?session=run-0", &pb.ListEventsReply{Events: s.happened[:1]}, &pb.ListEventsReply{}},
		{
			"/api/v1/sessions",
			&pb.ListSessionsReply{Sessions: []*pb.Session{{
				Id: "run-7", Spec: &pb.Spec{}, Progress: &pb.Progress{RowsDelivered: 7}, Skipped: []*pb.SkippedRows{{}},
			}}},
			&pb.ListSessionsReply{},
		},
	} {
		resp, body := get(t, srv.URL+c.path) //nolint:bodyclose // get closes it
		if err := protojson.Unmarshal([]byte(body), c.into); err != nil || resp.StatusCode != 200 ||
			!proto.Equal(c.into, c.want) {
			t.Errorf("%s: %d, %v, %.300s", c.path, resp.StatusCode, err, body)
		}
	}
	if _, body := get(t, srv.URL+"/api/v1/version"); !strings.Contains(body, `"v9"`) { //nolint:bodyclose // get closes it
		t.Error(body)
	}
}

func TestRefusals(t *testing.T) {
	s := &source{seen: &pb.Observation{}}
	srv := serve(t, dashboard.Config{Source: s})
	for path, want := range map[string]int{
		"/api/v1/observation?since=soon": 400, "/api/v1/events?limit=-1": 400, "/api/v1/events?limit=9999": 400,
		"/api/v1/stream?after=x": 400,
		"/api/v2":                404, "/page/index.html": 404, "/../page.go": 404, "/js/none.js": 404,
	} {
		if resp, body := get(t, srv.URL+path); resp.StatusCode != want { //nolint:bodyclose // get closes it
			t.Errorf("%s: %d, want %d: %s", path, resp.StatusCode, want, body)
		}
	}
	for code, want := range map[codes.Code]int{
		codes.Unavailable: 503, codes.PermissionDenied: 403, codes.Unauthenticated: 401, codes.NotFound: 404,
		codes.Unimplemented: 501,
		codes.Internal:      500, codes.InvalidArgument: 400,
	} {
		s.set(func(s *source) { s.err = status.Error(code, "because") })
		if resp, body := get(t, srv.URL+"/api/v1/observation"); resp.StatusCode != want || !strings.Contains(body, `"because"`) { //nolint:bodyclose // get closes it
			t.Errorf("%v: %d, want %d: %s", code, resp.StatusCode, want, body)
		}
	}
}

// Whoever the guard does not let pass sees the page, which is the same for all, and nothing of the fleet.
func TestGuard(t *testing.T) {
	refuse := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request,
		) {
			http.Error(w, "no", http.StatusUnauthorized)
		})
	}
	srv := serve(t, dashboard.Config{Source: &source{seen: &pb.Observation{Verdict: "secret"}}, Guard: refuse})
	for path, want := range map[string]int{
		"/": 401, "/index.html": 200, "/api/v1/observation": 401, "/api/v1/events": 401, "/api/v1/sessions": 401,
		"/api/v1/stream": 401, "/api/v1/features": 401, "/features.html": 401,
	} {
		if resp, body := get(t, srv.URL+path); resp.StatusCode != want || strings.Contains(body, "secret") { //nolint:bodyclose // get closes it
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func TestPageIsHeldByBrowsers(t *testing.T) {
	srv := serve(t, dashboard.Config{Source: &source{seen: &pb.Observation{}}})
	resp, body := get(t, srv.URL+"/") //nolint:bodyclose // get closes it
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(body, "<main") {
		t.Errorf("%v: %.100s", resp.Header, body)
	}
	if p := resp.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") ||
		strings.Contains(p, "unsafe") {
		t.Errorf("policy %q", p)
	}
	req, err := http.NewRequest(http.MethodGet, srv.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("If-None-Match", resp.Header.Get("ETag"))
	again, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	again.Body.Close()
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("status %d", again.StatusCode)
	}
}

// message is one of a stream.
type message struct{ id, kind, data string }

// watch opens a stream; next returns its messages, one after another.
func watch(t testing.TB, url, lastID string) (next func() message, resp *http.Response) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err = http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	return func() (m message) {
		t.Helper()
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "id":
				m.id = value
			case "event":
				m.kind = value
			case "data":
				m.data = value
			case "":
				if m.kind != "hello" {
					return m
				}
				m = message{}
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return m
	}, resp
}

func points(t *testing.T, m message) []*pb.FleetPoint {
	t.Helper()
	o := &pb.Observation{}
	if err := protojson.Unmarshal([]byte(m.data), o); err != nil || m.kind != "observation" {
		t.Fatalf("%+v: %v", m, err)
	}
	return o.GetPoints()
}

func TestStreamTellsWhatIsNewAndResumes(t *testing.T) {
	s := &source{
		seen:     &pb.Observation{Points: []*pb.FleetPoint{{UnixMs: 1000}, {UnixMs: 2000}}},
		happened: []*pb.Event{{Number: 7, Words: "a"}},
	}
	srv := serve(t, dashboard.Config{Source: s, Every: time.Millisecond})
	next, _ := watch(t, srv.URL+"/api/v1/stream", "") //nolint:bodyclose // watch closes it
	if m := next(); m.kind != "events" || m.id != "" || !strings.Contains(m.data, `"words":"a"`) {
		t.Errorf("%+v", m)
	}
	m := next()
	if got := points(t, m); len(got) != 2 || m.id != "2000-7" {
		t.Errorf("%+v", m)
	}
	if got := points(t, next()); len(got) != 0 { // which shows that the stream lives
		t.Errorf("old points came again: %v", got)
	}
	s.set(func(s *source) { s.err = status.Error(codes.Unavailable, "no master leads") })
	for m = next(); m.kind != "trouble"; m = next() {
	}
	if m.id != "2000-7" || m.data != `{"code":"Unavailable","error":"no master leads"}` {
		t.Errorf("%+v", m)
	}
	s.set(func(s *source) {
		s.err = nil
		s.seen.Points = append(s.seen.Points, &pb.FleetPoint{UnixMs: 3000})
		s.happened = append(s.happened, &pb.Event{Number: 8, Words: "b"})
	})
	resumed, _ := watch(t, srv.URL+"/api/v1/stream?since=5&session=", m.id) //nolint:bodyclose // watch closes it
	for m = resumed(); m.kind == "trouble"; m = resumed() {                 // of the same round
	}
	if m.kind != "events" || strings.Contains(m.data, `"a"`) || !strings.Contains(m.data, `"b"`) {
		t.Errorf("%+v", m)
	}
	if got := points(t, resumed()); len(got) != 1 || got[0].GetUnixMs() != 3000 {
		t.Errorf("%v", got)
	}
	if _, resp := watch(t, srv.URL+"/api/v1/stream", "nonsense"); resp.StatusCode != http.StatusBadRequest { //nolint:bodyclose // watch closes it
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestViewersAreBounded(t *testing.T) {
	srv := serve(t, dashboard.Config{Source: &source{seen: &pb.Observation{}}, Every: time.Millisecond, Viewers: 1})
	next, first := watch(t, srv.URL+"/api/v1/stream", "")
	next()
	resp, body := get(t, srv.URL+"/api/v1/stream") //nolint:bodyclose // get closes it
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, "too many viewers") {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
	first.Body.Close()
	for { // until the server sees that the first one is gone
		_, second := watch(t, srv.URL+"/api/v1/stream", "") //nolint:bodyclose // watch closes it
		if second.StatusCode == http.StatusOK {
			return
		}
	}
}

// One namespace does not take the streams of others.
func TestViewersOfANamespaceAreBounded(t *testing.T) {
	guard := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := identity.Identity{Namespace: r.URL.Query().Get("as"), Everywhere: r.URL.Query().Get("as") == ""}
			next.ServeHTTP(w, r.WithContext(identity.With(r.Context(), who)))
		})
	}
	srv := serve(t, dashboard.Config{
		Source: &source{seen: &pb.Observation{}}, Every: time.Millisecond, Viewers: 8,
		Guard: guard,
	})
	for _, c := range []struct {
		as   string
		want int
	}{
		{"vision", 200},
		{"vision", 200},
		{"vision", 503},
		{"speech", 200},
		{"", 200},
		{"", 200},
		{"", 200},
		{"speech", 200},
		{"", 200},
		{"", 503},
		{"audio", 503},
	} {
		_, resp := watch(t, srv.URL+"/api/v1/stream?as="+c.as, "") //nolint:bodyclose // watch closes it
		if resp.StatusCode != c.want {
			t.Errorf("%q: %d, want %d", c.as, resp.StatusCode, c.want)
		}
	}
}

// A stream says first who tells. It ends now and then, so that a viewer shows again that it may look.
func TestStreamsEnd(t *testing.T) {
	srv := serve(t, dashboard.Config{
		Source: &source{seen: &pb.Observation{}}, Name: "m-1", Every: time.Hour,
		Life: time.Millisecond,
	})
	if _, body := get(t, srv.URL+"/api/v1/stream"); !strings.HasPrefix(body, "event: hello\ndata: {\"master\":\"m-1\"}\n\n") || !strings.Contains(body, "event: observation") { //nolint:bodyclose // get closes it
		t.Errorf("%s", body)
	}
}

// A viewer that is gone ends its stream, and its place is free: the server closes only when all have ended.
func TestStreamEndsWithItsViewer(t *testing.T) {
	srv := httptest.NewServer(dashboard.New(dashboard.Config{Source: &source{seen: &pb.Observation{}}}))
	next, resp := watch(t, srv.URL+"/api/v1/stream", "")
	next()
	if err := errors.Join(resp.Body.Close()); err != nil {
		t.Error(err)
	}
	srv.Close()
}

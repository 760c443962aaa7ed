package access_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/master/access"
)

// apiServer answers TokenReviews as Kubernetes does, of some tokens.
type apiServer struct {
	mu     sync.Mutex
	asked  []string
	answer map[string]string // status, as JSON, by token
	code   int
	// arrived is told of each request, and hold holds them all up, if there are such channels.
	arrived chan<- bool
	hold    <-chan bool
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion, Kind string
		Spec             struct {
			Token     string
			Audiences []string
		}
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if a.hold != nil {
		a.arrived <- true
		<-a.hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, review.Spec.Token)
	switch {
	case err != nil || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" || review.Kind != "TokenReview" ||
		!slices.Equal(review.Spec.Audiences, []string{"penstock"}):
		w.WriteHeader(http.StatusBadRequest)
	case r.Header.Get("Authorization") != "Bearer the-masters-own":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		w.WriteHeader(a.code)
		_, _ = io.WriteString(w,
			`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": `+a.answer[review.Spec.Token]+`}`)
	}
}

func newReview(t *testing.T, a *apiServer, token string) *access.Review {
	t.Helper()
	s := httptest.NewTLSServer(a)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	r, err := access.NewReview(access.ReviewConfig{
		On: true, Audiences: []string{"penstock"}, Server: s.URL, CA: write(t, "ca.pem", string(ca)),
		TokenFile: write(t, "token", token),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func account(name, audience string) string {
	return `{"authenticated": true, "audiences": ["` + audience + `"], "user": {"username": "` + name + `"}}`
}

func TestServiceAccounts(t *testing.T) {
	a := &apiServer{code: http.StatusCreated, answer: map[string]string{
		"a.b.good":    account("system:serviceaccount:vision:trainer", "penstock"),
		"a.b.others":  account("system:serviceaccount:vision:trainer", "https://kubernetes.default.svc"),
		"a.b.user":    account("alice", "penstock"),
		"a.b.odd":     account("system:serviceaccount:../x:trainer", "penstock"),
		"a.b.half":    account("system:serviceaccount:vision", "penstock"),
		"a.b.no":      `{"authenticated": false, "error": "invalid"}`,
		"a.b.aged":    `{"authenticated": true, "user": {"username": "system:serviceaccount:vision:trainer"}}`,
		"a.b.nothing": `{}`,
	}}
	r := newReview(t, a, "the-masters-own")
	for token := range a.answer {
		who, err := r.Authenticate(t.Context(), token)
		if token == "a.b.good" {
			if err != nil || who.Home() != "vision" || who.Subject != "system:serviceaccount:vision:trainer" ||
				!who.Has(identity.Trainer) || who.Has(identity.Admin) || who.Everywhere {
				t.Errorf("%s: %+v, %v", token, who, err)
			}
		} else if !errors.Is(err, identity.ErrStranger) {
			t.Errorf("%s: %+v, %v", token, who, err)
		}
	}
	asked := len(a.asked)
	for _, token := range []string{"a.b.good", "a.b.no"} { // both are remembered
		_, _ = r.Authenticate(t.Context(), token)
	}
	for _, token := range []string{"no-jwt", "", "a.b", "a.b." + strings.Repeat("x", 1<<20)} {
		if _, err := r.Authenticate(t.Context(), token); !errors.Is(err, identity.ErrStranger) {
			t.Errorf("%.20q: %v", token, err)
		}
	}
	if len(a.asked) != asked {
		t.Errorf("asked again, or of what is no JWT: %.20q", a.asked[asked:])
	}
}

// TestReviewsFollowTheAuthority holds that trainers are known after the API has a certificate of a new authority,
// without a restart.
func TestReviewsFollowTheAuthority(t *testing.T) {
	a := &apiServer{code: http.StatusCreated, answer: map[string]string{}}
	dir, old, next := t.TempDir(), rpctest.NewAuthority(t), rpctest.NewAuthority(t)
	cert, key := old.Issue(t, dir)
	s := httptest.NewUnstartedServer(a)
	var err error
	if s.TLS, err = rpc.HTTPTLS(rpc.Config{Cert: cert, Key: key}); err != nil { // read anew for each handshake
		t.Fatal(err)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	r, err := access.NewReview(access.ReviewConfig{
		On: true, Audiences: []string{"penstock"}, Server: s.URL, CA: old.CA,
		TokenFile: write(t, "token", "the-masters-own"),
	})
	if err != nil {
		t.Fatal(err)
	}
	show := func(token string) error {
		a.mu.Lock()
		a.answer[token] = account("system:serviceaccount:vision:trainer", "penstock")
		a.mu.Unlock()
		_, err := r.Authenticate(t.Context(), token)
		return err
	}
	if err := show("a.b.1"); err != nil {
		t.Error(err)
	}
	next.Issue(t, dir)
	s.CloseClientConnections()
	if show("a.b.2") == nil {
		t.Error("a certificate of an authority that nobody named is taken")
	}
	text, err := os.ReadFile(next.CA)
	if err == nil {
		err = os.WriteFile(old.CA, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := show("a.b.2"); err != nil {
		t.Errorf("once its authority is named: %v", err)
	}
}

// TestReviewsWaitForTheirTurn holds that a job whose pods all come at once is let in, and each of its tokens is asked
// after once.
func TestReviewsWaitForTheirTurn(t *testing.T) {
	arrived, hold := make(chan bool), make(chan bool)
	a := &apiServer{code: http.StatusCreated, answer: map[string]string{}, arrived: arrived, hold: hold}
	r := newReview(t, a, "the-masters-own")
	const pods = access.ReviewsAtOnce + 4
	failed := make(chan error, 2*pods)
	show := func(i int) {
		token := fmt.Sprintf("a.b.%d", i%pods)
		a.mu.Lock()
		a.answer[token] = account("system:serviceaccount:vision:trainer", "penstock")
		a.mu.Unlock()
		go func() {
			_, err := r.Authenticate(t.Context(), token)
			failed <- err
		}()
	}
	for i := range access.ReviewsAtOnce {
		show(i)
	}
	for range access.ReviewsAtOnce {
		<-arrived
	}
	for i := access.ReviewsAtOnce; i < 2*pods; i++ {
		show(i)
	}
	go func() {
		for range arrived { // the others
		}
	}()
	close(hold)
	for range 2 * pods {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if len(a.asked) > pods+access.ReviewsAtOnce {
		t.Errorf("asked %d times after %d tokens", len(a.asked), pods)
	}
}

func TestReviewsThatFail(t *testing.T) {
	a := &apiServer{
		code:   http.StatusForbidden,
		answer: map[string]string{"a.b.c": account("system:serviceaccount:vision:trainer", "penstock")},
	}
	for range 2 { // a failure is not remembered
		if _, err := newReview(t, a, "the-masters-own").Authenticate(t.Context(), "a.b.c"); err == nil ||
			errors.Is(err, identity.ErrStranger) || !strings.Contains(err.Error(), "system:auth-delegator") {
			t.Errorf("%v", err)
		}
	}
	a.code = http.StatusCreated
	if _, err := newReview(t, a, "another").Authenticate(t.Context(), "a.b.c"); err == nil ||
		errors.Is(err, identity.ErrStranger) || strings.Contains(err.Error(), "a.b.c") {
		t.Errorf("with another token of its own: %v", err)
	}
	for _, cfg := range []access.ReviewConfig{
		{On: true, Audiences: []string{"penstock"}},
		{On: true, Server: "https://k"},
		{On: true, Server: "http://k", Audiences: []string{"penstock"}, TokenFile: write(t, "token", "x")},
	} {
		if _, err := access.NewReview(cfg); err == nil || !strings.Contains(err.Error(), "--token-review") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestWhyATokenCannotBeTold holds that the log says why nobody is let in, and a stranger does not learn it.
func TestWhyATokenCannotBeTold(t *testing.T) {
	var logged bytes.Buffer
	c, err := access.New(access.Config{
		Review: newReview(t, &apiServer{code: http.StatusForbidden}, "the-masters-own"),
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := gate(c, "a.b.c", "", "Open")
		if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "ubernetes") ||
			strings.Contains(err.Error(), "system:") {
			t.Errorf("a stranger is told: %v", err)
		}
	}
	if said := logged.String(); strings.Count(said, "system:auth-delegator") != 1 || strings.Contains(said, "a.b.c") ||
		strings.Contains(said, "the-masters-own") {
		t.Errorf("the log says: %s", said)
	}
}

// TestReviewsAreForgotten holds that a token which was withdrawn is refused a minute later.
func TestReviewsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := access.NewVerdicts()
		c.Keep("token", time.Minute)
		time.Sleep(time.Minute - time.Second)
		if !c.Has("token") {
			t.Error("forgotten too early")
		}
		time.Sleep(2 * time.Second)
		if c.Has("token") {
			t.Error("believed for too long")
		}
		for i := range 3 * access.ReviewsKept {
			c.Keep(string(rune(i)), time.Minute)
		}
		if c.Len() > access.ReviewsKept {
			t.Errorf("%d are kept", c.Len())
		}
	})
}

package access

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
)

const (
	// inCluster is where Kubernetes puts what a pod needs to speak to its API.
	inCluster = "/var/run/secrets/kubernetes.io/serviceaccount/"
	// reviewTimeout bounds one TokenReview, and turnTimeout the wait for it to begin: its caller's connection stands
	// still for both.
	reviewTimeout, turnTimeout = 5 * time.Second, 2 * time.Second
	// A review is believed for a while, so that a fleet's Syncs do not reach the API: also one that refuses, for a
	// shorter one.
	reviewLife, refusalLife = time.Minute, 10 * time.Second
	// reviewsKept bounds the reviews in memory, and reviewsAtOnce those under way.
	reviewsKept, reviewsAtOnce = 10_000, 16
	// maxReview bounds the API's answer, and maxToken what is sent to it.
	maxReview, maxToken = 1 << 20, 16 << 10
	accountPrefix       = "system:serviceaccount:"
)

// ReviewConfig says how to reach the API of Kubernetes that reviews tokens. Empty fields are those of the cluster that
// this process runs in.
type ReviewConfig struct {
	On        bool
	Audiences []string
	Server    string
	CA        string // PEM file
	TokenFile string
}

// Review knows service accounts of Kubernetes by their tokens, which it has the API review.
type Review struct {
	url       string
	audiences []string
	token     rpc.Secret
	client    *http.Client
	slots     chan struct{}

	mu   sync.Mutex
	kept map[[sha256.Size]byte]verdict
}

// verdict is what a review came to.
type verdict struct {
	who   identity.Identity
	err   error // identity.ErrStranger
	until time.Time
}

// NewReview prepares to ask the API; it is asked with the first token.
func NewReview(cfg ReviewConfig) (*Review, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if cfg.Server == "" && host == "" {
		return nil, errors.New(
			"--token-review: this process does not run in a pod of Kubernetes; name the API with " +
				"--token-review-server, and --token-review-ca and --token-review-token-file")
	}
	if len(cfg.Audiences) == 0 {
		return nil, errors.New(
			"--token-review-audience: want at least one, or tokens that were made for others would be taken")
	}
	token, err := rpc.ReadSecret(cmp.Or(cfg.TokenFile, inCluster+"token"))
	if err != nil {
		return nil, fmt.Errorf("--token-review: %w", err)
	}
	dial, err := rpc.TLSDialer(rpc.Config{CA: cmp.Or(cfg.CA, inCluster+"ca.crt")})
	if err != nil {
		return nil, fmt.Errorf("--token-review: %w", err)
	}
	server := cmp.Or(strings.TrimSuffix(cfg.Server, "/"), "https://"+net.JoinHostPort(host, port))
	if !strings.HasPrefix(server, "https://") {
		return nil, fmt.Errorf("--token-review-server: %s: want https://, since tokens are sent there", server)
	}
	return &Review{
		url: server + "/apis/authentication.k8s.io/v1/tokenreviews", audiences: cfg.Audiences, token: token,
		client: &http.Client{
			Timeout:       reviewTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{DialTLSContext: dial, IdleConnTimeout: time.Minute},
		},
		slots: make(chan struct{}, reviewsAtOnce), kept: map[[sha256.Size]byte]verdict{},
	}, nil
}

// Authenticate implements identity.Authenticator.
func (r *Review) Authenticate(ctx context.Context, token string) (identity.Identity, error) {
	if strings.Count(token, ".") != 2 || len(token) > maxToken {
		return identity.Identity{}, identity.ErrStranger // no JWT: nobody else is told of it
	}
	key := sha256.Sum256([]byte(token))
	v, ok := r.known(key)
	if ok {
		return v.who, v.err
	}
	waiting, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
	case <-waiting.Done():
		return identity.Identity{}, fmt.Errorf("%d tokens are being reviewed", reviewsAtOnce)
	}
	defer func() { <-r.slots }()
	if v, ok = r.known(key); ok { // who showed it, too, had it reviewed meanwhile
		return v.who, v.err
	}
	account, err := r.ask(ctx, token)
	switch {
	case err == nil:
		v = verdict{who: account, until: time.Now().Add(reviewLife)}
	case errors.Is(err, identity.ErrStranger):
		v = verdict{err: identity.ErrStranger, until: time.Now().Add(refusalLife)}
	default:
		return identity.Identity{}, err
	}
	r.keep(key, v)
	return v.who, v.err
}

// known returns a verdict that is not over.
func (r *Review) known(key [sha256.Size]byte) (verdict, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.kept[key]
	return v, ok && time.Now().Before(v.until)
}

// keep remembers a verdict, in the place of any other one if there are too many: who comes again is reviewed again.
func (r *Review) keep(key [sha256.Size]byte, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.kept {
		if len(r.kept) < reviewsKept {
			break
		}
		delete(r.kept, k)
	}
	r.kept[key] = v
}

// tokenReview is what the API takes and gives, of authentication.k8s.io/v1.
type tokenReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Token     string   `json:"token"`
		Audiences []string `json:"audiences"`
	} `json:"spec"`
	Status struct {
		Authenticated bool     `json:"authenticated"`
		Audiences     []string `json:"audiences"`
		Error         string   `json:"error"`
		User          struct {
			Username string `json:"username"`
		} `json:"user"`
	} `json:"status"`
}

// ask has the API review a token.
func (r *Review) ask(ctx context.Context, token string) (identity.Identity, error) {
	q := tokenReview{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	q.Spec.Token, q.Spec.Audiences = token, r.audiences
	body, err := json.Marshal(q)
	if err != nil {
		return identity.Identity{}, fmt.Errorf("token review: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return identity.Identity{}, fmt.Errorf("token review: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.token.Reveal())
	resp, err := r.client.Do(req)
	if err != nil {
		return identity.Identity{}, fmt.Errorf("token review: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return identity.Identity{},
			fmt.Errorf(
				"token review: the Kubernetes API answers %s; this process's service account must be "+
					"allowed to create "+
					"tokenreviews (ClusterRole system:auth-delegator)", resp.Status)
	}
	var a tokenReview
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReview)).Decode(&a); err != nil {
		return identity.Identity{}, fmt.Errorf("token review: the Kubernetes API's answer: %w", err)
	}
	return r.judge(&a)
}

// judge reads a review. An API server that knows no audiences answers without, and its tokens might be for anybody.
func (r *Review) judge(a *tokenReview) (identity.Identity, error) {
	ours := false
	for _, audience := range r.audiences {
		for _, of := range a.Status.Audiences {
			ours = ours || of == audience
		}
	}
	account, isAccount := strings.CutPrefix(a.Status.User.Username, accountPrefix)
	namespace, name, whole := strings.Cut(account, ":")
	if !a.Status.Authenticated || a.Status.Error != "" || !ours || !isAccount || !whole || name == "" ||
		!identity.ValidNamespace(namespace) {
		return identity.Identity{}, identity.ErrStranger
	}
	return identity.Identity{
		Namespace: namespace, Subject: a.Status.User.Username,
		Roles: []identity.Role{identity.Trainer},
	}, nil
}

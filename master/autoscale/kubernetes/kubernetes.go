// Package kubernetes is the actuator of a fleet whose workers are a Deployment: it sets that Deployment's scale, and
// marks the pods that drain, so that they are the ones to end. It needs no right but to read and patch that scale, and
// to patch pods of its namespace. A worker's name in the fleet is its pod's.
//
// An Actuator may be used by many goroutines at once, and has none of its own.
package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// callTimeout bounds one call of the API.
	callTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
	// deletionCost is the annotation by which a ReplicaSet chooses which pods to delete, the lowest first.
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// Config names the Deployment.
type Config struct {
	// Kubeconfig is a file that says how to reach the API; "" is the cluster that this process runs in.
	Kubeconfig string
	// Namespace is the Deployment's; "" is the kubeconfig's, or this pod's own.
	Namespace  string
	Deployment string
}

// Actuator sets the scale of a Deployment.
type Actuator struct {
	client                *http.Client
	api                   *url.URL
	namespace, deployment string
}

// New reads how to reach the API; it calls nobody yet.
func New(cfg Config) (*Actuator, error) {
	if cfg.Deployment == "" {
		return nil, errors.New("kubernetes: a Deployment must be named")
	}
	how, namespace, err := reach(cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	how.Timeout = callTimeout
	client, err := rest.HTTPClientFor(how)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	host, _, err := rest.DefaultServerUrlFor(how)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: API server %q: %w", how.Host, err)
	}
	return &Actuator{
		client: client, api: host, namespace: cmp.Or(cfg.Namespace, namespace),
		deployment: cfg.Deployment,
	}, nil
}

// reach says how to reach the API, and which namespace is meant unless one is named.
func reach(kubeconfig string) (how *rest.Config, namespace string, err error) {
	if kubeconfig == "" {
		how, err = rest.InClusterConfig()
		if err != nil {
			return nil, "", fmt.Errorf("kubernetes: %w; outside of a cluster, name a kubeconfig file", err)
		}
		text, err := os.ReadFile(ownNamespace)
		if err != nil {
			return nil, "", fmt.Errorf("kubernetes: this pod's namespace: %w", err)
		}
		return how, strings.TrimSpace(string(text)), nil
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{
		ExplicitPath: kubeconfig,
	}, nil)
	if namespace, _, err = loaded.Namespace(); err == nil {
		how, err = loaded.ClientConfig()
	}
	if err != nil {
		return nil, "", fmt.Errorf("kubernetes: kubeconfig %s: %w", kubeconfig, err)
	}
	return how, namespace, nil
}

// scale is what is read and written of a Scale (autoscaling/v1).
type scale struct {
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

// Wanted is how many replicas the Deployment should have.
func (a *Actuator) Wanted(ctx context.Context) (int, error) {
	var s scale
	err := a.call(ctx, http.MethodGet, a.scalePath(), nil, &s)
	return s.Spec.Replicas, err
}

// marksAtOnce is how many pods are marked at a time: a thousand one by one would take too long.
const marksAtOnce = 16

// Scale marks the pods that drain, and then sets how many replicas there should be.
func (a *Actuator) Scale(ctx context.Context, workers int, drain []string) error {
	if workers < 0 {
		return fmt.Errorf("kubernetes: %d workers are none to ask for", workers)
	}
	mark := map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{deletionCost: costOfDrained(time.Now())}},
	}
	group, marking := errgroup.WithContext(ctx)
	group.SetLimit(marksAtOnce)
	for _, pod := range drain {
		group.Go(func() error {
			path := a.api.JoinPath("api", "v1", "namespaces", a.namespace, "pods", pod)
			// else it is gone already
			if err := a.call(marking, http.MethodPatch, path, mark, nil); err != nil && !errors.Is(err, errNotFound) {
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var s scale
	s.Spec.Replicas = workers
	return a.call(ctx, http.MethodPatch, a.scalePath(), s, nil)
}

// costOfDrained is below that of every pod that nobody marked, which is 0, and of those that were marked before: a pod
// whose mark nothing came of, since its scale could not be set, keeps it.
func costOfDrained(now time.Time) string { return strconv.FormatInt(-now.Unix()/10, 10) }

func (a *Actuator) scalePath() *url.URL {
	return a.api.JoinPath("apis", "apps", "v1", "namespaces", a.namespace, "deployments", a.deployment, "scale")
}

// errNotFound is of an object that does not exist.
var errNotFound = errors.New("there is none")

// call makes one call: in, if there is one, is a JSON merge patch, and out takes the answer.
func (a *Actuator) call(ctx context.Context, method string, path *url.URL, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, path.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := a.client.Do(req)
	if err != nil {
		return fmt.Errorf("kubernetes: %w; is the API server up, and do network policies let this master reach it?",
			err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("kubernetes: %s %s: %w", method, path.Path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(method, path.Path, resp.StatusCode, text)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("kubernetes: %s %s: %w", method, path.Path, err)
	}
	return nil
}

// refusal has the API's own words, which name user, verb and object.
func refusal(method, path string, code int, text []byte) error {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = http.StatusText(code)
	}
	err := fmt.Errorf("kubernetes: %s %s: %d: %s", method, path, code, status.Message)
	switch code {
	case http.StatusNotFound:
		return fmt.Errorf("%w (%w); name the Deployment of the workers, and its namespace", err, errNotFound)
	case http.StatusForbidden, http.StatusUnauthorized:
		return fmt.Errorf("%w; the master's role needs get and patch of deployments/scale, and patch of pods", err)
	}
	return err
}

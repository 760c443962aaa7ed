package cluster_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
)

// families are the metrics of a port, by name.
type families map[string]*dto.MetricFamily

// scrape reads a port's metrics as Prometheus does, and holds them to its conventions.
func scrape(t *testing.T, c *cluster.Cluster, address string) families {
	t.Helper()
	code, text := httpGet(t, c, address, "/metrics", true)
	if code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", address, code, text)
	}
	reader := expfmt.NewTextParser(model.UTF8Validation)
	found, err := reader.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "penstock_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	return found
}

// httpGet asks with the cluster's token, or without one.
func httpGet(t *testing.T, c *cluster.Cluster, address, path string, token bool) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token {
		req.Header.Set("Authorization", "Bearer "+c.RPC().Token.Reveal())
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestMetrics holds that what a real master and worker tell Prometheus follows its conventions and has all that the
// dashboard for Grafana and the alert rules ask for; and that it tells nobody without a token.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(), MasterFlags: []string{"--http=127.0.0.1:0"},
		WorkerFlags: []string{"--http=127.0.0.1:0"},
	}, 2)
	master, err := c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	worker, err := c.Workers()[0].Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{master.HTTP, worker.HTTP} {
		for path, want := range map[string]int{
			"/healthz": 200, "/readyz": 200, "/metrics": 401,
			"/debug/pprof/heap": 401, "/debug/pprof/profile": 401,
		} {
			if code, text := httpGet(t, c, address, path, false); code != want || code == 401 &&
				strings.Contains(text, "penstock_") {
				t.Errorf("%s%s without a token: %d, want %d: %.200s", address, path, code, want, text)
			}
		}
	}
	job := open(t, c, provenanceSpec(t, 20_000, 10_000), nil)
	defer closeJob(t, job)
	both := readUntilMeasured(t, c, job, master.HTTP, worker.HTTP)
	if n := len(both); n > 200 {
		t.Errorf("%d metrics", n)
	}
	for _, x := range append(grafana(t), alerts(t)...) {
		for _, name := range names(t, x) {
			if both[name] == nil {
				t.Errorf("%s asks for %s, which nobody tells", x, name)
			}
		}
	}
}

// readUntilMeasured reads rows until the metrics have what needs some seconds of measuring, and returns those of both
// ports.
func readUntilMeasured(t *testing.T, c *cluster.Cluster, job *client.Session, master, worker string) families {
	t.Helper()
	seen := map[row]int{}
	for end := time.Now().Add(time.Minute); ; {
		for range 20 {
			take(t, job, seen)
		}
		all := scrape(t, c, master)
		for name, f := range scrape(t, c, worker) {
			all[name] = f
		}
		missing := slices.DeleteFunc([]string{
			"penstock_fleet_demand_rows_per_second",
			"penstock_fleet_workers_needed", "penstock_fleet_capacity_rows_per_second",
			"penstock_session_stall_ratio", "penstock_worker_op_seconds_total",
		},
			func(name string) bool { return all[name] != nil })
		if len(missing) == 0 {
			return all
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %v", missing)
		}
	}
}

// grafana returns the queries of the dashboard, with their variables filled in.
func grafana(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "penstock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if p.Title == "" || ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, is not well formed", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, x := range p.Targets {
			out = append(out, strings.NewReplacer("$session", ".*", "$worker", ".*", "$__rate_interval",
				"1m").Replace(x.Expr))
		}
	}
	if len(out) < 10 {
		t.Errorf("the dashboard has %d queries", len(out))
	}
	return out
}

// alerts returns the expressions of the alert rules.
func alerts(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if !strings.HasPrefix(r.Alert, "Penstock") || r.Labels["severity"] == "" ||
				r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %q lacks a name, a severity, a summary or what to do", r.Alert)
			}
			if _, err := model.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("alert %s: %v", r.Alert, err)
			}
			out = append(out, r.Expr)
		}
	}
	if len(out) < 5 {
		t.Errorf("%d alert rules", len(out))
	}
	return out
}

// names are the metrics that a query asks for.
func names(t *testing.T, query string) (out []string) {
	t.Helper()
	parsed, err := parser.ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for _, matchers := range parser.ExtractSelectors(parsed) {
		for _, m := range matchers {
			if m.Name == labels.MetricName {
				out = append(out, m.Value)
			}
		}
	}
	return out
}

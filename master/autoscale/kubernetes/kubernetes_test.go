package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	adminToken, masterToken, strangerToken = "admin-token", "master-token", "stranger-token"
	startTimeout                           = time.Minute
)

// api is a real API server on an etcd of its own, without controllers.
type api struct {
	t        *testing.T
	url, dir string
}

// startAPI needs etcd and kube-apiserver in $TESTBED/bin (~/.cache/testbed/bin). `make test-kubernetes` is what has
// them; elsewhere the test skips.
func startAPI(t *testing.T) *api {
	t.Helper()
	if os.Getenv("PENSTOCK_KUBERNETES") == "" {
		t.Skip("no real API server: make test-kubernetes runs this with one")
	}
	home, _ := os.UserHomeDir()
	bin := filepath.Join(home, ".cache", "testbed", "bin")
	if dir := os.Getenv("TESTBED"); dir != "" {
		bin = filepath.Join(dir, "bin")
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			t.Fatalf("%v; a real API server is needed: TESTBED names the folder with bin/etcd and bin/kube-apiserver",
				err)
		}
	}
	a := &api{t: t, dir: t.TempDir()}
	etcd, peer, port := free(t), free(t), free(t)
	a.url = "https://127.0.0.1:" + port
	a.run(filepath.Join(bin, "etcd"), "--data-dir="+filepath.Join(a.dir, "etcd"),
		"--listen-client-urls=http://127.0.0.1:"+etcd,
		"--advertise-client-urls=http://127.0.0.1:"+etcd, "--listen-peer-urls=http://127.0.0.1:"+peer,
		"--initial-advertise-peer-urls=http://127.0.0.1:"+peer, "--initial-cluster=default=http://127.0.0.1:"+peer)
	tokens := a.write("tokens.csv",
		adminToken+`,admin,1,"system:masters"`+"\n"+masterToken+",penstock-master,2\n"+strangerToken+",stranger,3\n")
	key := filepath.Join(a.dir, "sa.key")
	if out, err := exec.CommandContext(t.Context(), "openssl", "genrsa", "-out", key,
		"2048").CombinedOutput(); err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	a.run(filepath.Join(bin, "kube-apiserver"), "--etcd-servers=http://127.0.0.1:"+etcd, "--cert-dir="+a.dir,
		"--secure-port="+port,
		"--bind-address=127.0.0.1", "--token-auth-file="+tokens, "--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://test", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key,
		"--service-cluster-ip-range=10.0.0.0/24")
	for end := time.Now().Add(startTimeout); a.try(http.MethodGet, "/api/v1/namespaces/default", "",
		nil) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the API server does not come up:\n%s", a.log())
		}
	}
	return a
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (a *api) write(name, text string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// run runs a process until the test ends.
func (a *api) run(binary string, args ...string) {
	a.t.Helper()
	log, err := os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		log.Close()
	})
}

func (a *api) log() string {
	text, _ := os.ReadFile(filepath.Join(a.dir, "log"))
	return string(text[max(0, len(text)-4000):])
}

// kubeconfig is that of a user, who trusts the server's own certificate.
func (a *api) kubeconfig(token, namespace string) string {
	return a.write("config-"+token+namespace, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"k","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"u","user":{"token":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"k","user":"u","namespace":%q}}]}`,
		a.url, filepath.Join(a.dir, "apiserver.crt"), token, namespace))
}

func (a *api) actuator(token, namespace, deployment string) *Actuator {
	a.t.Helper()
	out, err := New(Config{Kubeconfig: a.kubeconfig(token, namespace), Deployment: deployment})
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

// try makes a call as the administrator.
func (a *api) try(method, path, body string, out any) error {
	admin, err := New(Config{Kubeconfig: a.kubeconfig(adminToken, "default"), Deployment: "none"})
	if err != nil {
		return err // the certificate is not there yet
	}
	defer admin.client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := admin.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	if err == nil && out != nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(out)
	}
	return err
}

func (a *api) create(path, body string) {
	a.t.Helper()
	if err := a.try(http.MethodPost, path, body, nil); err != nil {
		a.t.Fatal(path, err)
	}
}

const (
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"penstock-worker"},"spec":{"replicas":3,
		"selector":{"matchLabels":{"app":"w"}},"template":{"metadata":{"labels":{"app":"w"}},"spec":{"containers":[{"name":"w","image":"w"}]}}}}`
	pod  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"w","image":"w"}]}}`
	role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"m"},"rules":[
		{"apiGroups":["apps"],"resources":["deployments/scale"],"resourceNames":["penstock-worker"],"verbs":["get","patch"]},
		{"apiGroups":[""],"resources":["pods"],"verbs":["patch"]}]}`
	binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"m"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"m"},"subjects":[{"kind":"User","name":"penstock-master"}]}`
)

func TestScale(t *testing.T) {
	a := startAPI(t)
	a.create("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"penstock"}}`)
	a.create("/apis/apps/v1/namespaces/penstock/deployments", deployment)
	a.create("/apis/rbac.authorization.k8s.io/v1/namespaces/penstock/roles", role)
	a.create("/apis/rbac.authorization.k8s.io/v1/namespaces/penstock/rolebindings", binding)
	for _, name := range []string{"w-1", "w-2"} {
		a.create("/api/v1/namespaces/penstock/pods", fmt.Sprintf(pod, name))
	}
	ctx := t.Context()
	m := a.actuator(masterToken, "penstock", "penstock-worker")
	wanted := func(want int) {
		t.Helper()
		if n, err := m.Wanted(ctx); err != nil || n != want {
			t.Fatalf("%d replicas are wanted (%v), want %d", n, err, want)
		}
	}
	for end := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) { // the server learns of the role
		if _, err := m.Wanted(ctx); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	wanted(3)
	if err := m.Scale(ctx, 5, nil); err != nil {
		t.Fatal(err)
	}
	wanted(5)
	if err := m.Scale(ctx, 2, []string{"w-2", "gone-already"}); err != nil {
		t.Fatal(err)
	}
	wanted(2)
	cost := func(name string) string {
		t.Helper()
		var p struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := a.try(http.MethodGet, "/api/v1/namespaces/penstock/pods/"+name, "", &p); err != nil {
			t.Fatal(err)
		}
		return p.Metadata.Annotations[deletionCost]
	}
	marked := cost("w-2")
	if n, err := strconv.ParseInt(marked, 10, 32); err != nil || n >= 0 || cost("w-1") != "" {
		t.Errorf("the cost of deleting w-2 is %q (%v), that of w-1 %q", marked, err, cost("w-1"))
	}
	later, err := strconv.Atoi(costOfDrained(time.Now().Add(time.Minute)))
	if n, _ := strconv.Atoi(marked); err != nil || later >= n {
		t.Errorf("who is marked a minute later costs %d (%v), and not less than %s", later, err, marked)
	}
	if err := m.Scale(ctx, 0, nil); err != nil {
		t.Fatal(err)
	}
	wanted(0)
	refused := func(what string, m *Actuator, words ...string) {
		t.Helper()
		_, err := m.Wanted(ctx)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error lacks %q: %v", what, w, err)
			}
		}
	}
	refused("no rights", a.actuator(strangerToken, "penstock", "penstock-worker"), "403", `User "stranger" cannot get`,
		"deployments/scale")
	refused("no such token", a.actuator("nobody", "penstock", "penstock-worker"), "401", "the master's role needs")
	refused("another Deployment", a.actuator(masterToken, "penstock", "other"), "403", "other")
	refused("no such Deployment", a.actuator(adminToken, "penstock", "other"), "404", `"other" not found`,
		"name the Deployment")
	if _, err := a.actuator(adminToken, "penstock", "other").Wanted(ctx); !errors.Is(err, errNotFound) {
		t.Errorf("what is not there is %v", err)
	}
	if err := m.Scale(ctx, -1, nil); err == nil {
		t.Error("less than none can be asked for")
	}
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Wanted(late); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is given up ends with %v", err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "a Deployment must be named"},
		{Config{Deployment: "w"}, "outside of a cluster, name a kubeconfig file"},
		{Config{Deployment: "w", Kubeconfig: "/nowhere/config"}, "/nowhere/config"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nodes of the cluster: three, so that etcd outlives one.
const nodes = 3

// testbed is a cluster of the machine's own, made by the scripts of shared/testbed.
type testbed struct {
	t *testing.T
	// scripts are the testbed's; home is where its binaries, images and state lie.
	scripts, home string
}

// startTestbed brings a cluster up that has the images, and takes it down when the test ends.
func startTestbed(t *testing.T, images []string) *testbed {
	t.Helper()
	home := os.Getenv("TESTBED")
	b := &testbed{t: t, scripts: os.Getenv("PENSTOCK_TESTBED"), home: home}
	if b.scripts == "" || home == "" {
		t.Skip("`make test-kubernetes` runs this on a cluster that it makes")
	}
	t.Cleanup(func() { b.cluster(nil, "down") })
	b.cluster([]string{"IMAGES=" + strings.Join(images, " ")}, "up", strconv.Itoa(nodes))
	b.eventually("the nodes are ready", time.Minute, func() error {
		for i := 1; i <= nodes; i++ {
			if err := b.ready(fmt.Sprint("node", i), true); err != nil {
				return err
			}
		}
		return nil
	})
	return b
}

func (b *testbed) cluster(env []string, args ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.scripts, "kube", "cluster.sh"), args...)
	cmd.Env = append(os.Environ(), env...)
	log, err := os.Create(filepath.Join(b.home, "cluster.log")) // processes of the cluster may keep it
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil && args[0] == "up" {
		b.t.Fatalf("cluster.sh %v: %v; see %s", args, err, log.Name())
	}
}

// kubectl runs a command and returns what it prints.
func (b *testbed) kubectl(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.home, "bin", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(b.home, "run", "kubeconfig"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.Bytes(), nil
}

func (b *testbed) must(args ...string) string {
	b.t.Helper()
	out, err := b.kubectl(args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// get reads an object or a list.
func (b *testbed) get(into any, args ...string) error {
	out, err := b.kubectl(append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// ready says why a node's readiness is not as wanted.
func (b *testbed) ready(node string, want bool) error {
	var n struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := b.get(&n, "node", node); err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && (c.Status == "True") == want {
			return nil
		}
	}
	return fmt.Errorf("%s: %+v", node, n.Status.Conditions)
}

// pod is what the test looks at.
type pod struct {
	Metadata struct{ Name, DeletionTimestamp string }
	Spec     struct{ NodeName string }
	Status   struct {
		PodIP             string
		Phase             string
		Conditions        []struct{ Type, Status string }
		ContainerStatuses []struct {
			ContainerID  string
			RestartCount int
		}
	}
}

func (p pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True" && p.Metadata.DeletionTimestamp == ""
		}
	}
	return false
}

// pods are those of an app that are ready.
func (b *testbed) pods(app string) ([]pod, error) {
	var list struct{ Items []pod }
	if err := b.get(&list, "pods", "-n", "penstock", "-l", "app.kubernetes.io/name="+app); err != nil {
		return nil, err
	}
	var out []pod
	for _, p := range list.Items {
		if p.ready() {
			out = append(out, p)
		}
	}
	return out, nil
}

// eventually waits for a condition, and fails with its last error when it does not come.
func (b *testbed) eventually(what string, timeout time.Duration, check func() error) {
	b.t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			b.t.Logf("%s after %.1f s", what, time.Since(began).Seconds())
			return
		}
		if time.Since(began) > timeout {
			b.dump()
			b.t.Fatalf("%s: not within %v: %v", what, timeout, err)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// dump logs what helps to see why a step failed.
func (b *testbed) dump() {
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"logs", "-n", "penstock", "-l", "app.kubernetes.io/name=penstock-master", "--tail=40", "--prefix"},
		{"logs", "-n", "penstock", "-l", "app.kubernetes.io/name=penstock-worker", "--tail=20", "--prefix"},
		{"logs", "-n", "penstock", "-l", "app.kubernetes.io/name=penstock-etcd", "--tail=10", "--prefix"},
		{"logs", "-n", "training", "-l", "batch.kubernetes.io/job-name=training", "--tail=20", "--prefix"},
	} {
		out, err := b.kubectl(args...)
		b.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// killContainer ends a pod's container with SIGKILL.
func (b *testbed) killContainer(p pod) {
	b.t.Helper()
	socket := filepath.Join(b.home, "run", strings.Replace(p.Spec.NodeName, "node", "n", 1), "c.sock")
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	b.run("ctr", "-a", socket, "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id)
}

// killNode cuts a node off, so that none of its last words arrive, and ends all of its processes with SIGKILL.
func (b *testbed) killNode(i int) {
	b.t.Helper()
	b.run("ip", "link", "set", fmt.Sprint("klbr", i), "down")
	for _, name := range []string{"kubelet", "containerd"} {
		text, err := os.ReadFile(filepath.Join(b.home, "run", fmt.Sprint(name, i, ".pid")))
		if err != nil {
			b.t.Fatal(err)
		}
		id, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			b.t.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			b.t.Fatal(err)
		}
	}
	shim := "-address\x00" + filepath.Join(b.home, "run", fmt.Sprint("n", i), "c.sock")
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range processes {
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		if bytes.Contains(group, fmt.Appendf(nil, "/kl-n%d/", i)) || bytes.Contains(command, []byte(shim)) {
			if id, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				_ = syscall.Kill(id, syscall.SIGKILL)
			}
		}
	}
}

func (b *testbed) run(name string, args ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

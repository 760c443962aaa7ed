package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// testbed is the cluster that cluster.sh made.
type testbed struct {
	t *testing.T
	// home is where its images, binaries and state lie.
	home string
}

// connect waits for the cluster's nodes.
func connect(t *testing.T) *testbed {
	t.Helper()
	b := &testbed{t: t, home: os.Getenv("PENSTOCK_CLUSTER")}
	if b.home == "" {
		t.Skip("`make test-kubernetes` runs this on a cluster that it makes")
	}
	for i := 1; i <= nodes; i++ {
		node := fmt.Sprint("node", i)
		b.eventually(node+" is ready", 2*time.Minute, func() error { return b.ready(node, true) })
		b.must("label", "node", node, fmt.Sprint("topology.kubernetes.io/zone=zone-", i))
	}
	return b
}

// clear removes a fleet and the jobs that read from it, at once.
func (b *testbed) clear() {
	b.t.Helper()
	b.must("delete", "namespace", "penstock", "training", "--ignore-not-found", "--wait=false")
	for _, namespace := range []string{"penstock", "training"} {
		b.must("delete", "pods", "--all", "-n", namespace, "--grace-period=0", "--force", "--wait=false")
	}
	b.eventually("the fleet before is gone", 2*time.Minute, func() error {
		left := b.must("get", "namespaces", "penstock", "training", "--ignore-not-found", "-o", "name")
		if left != "" {
			return errors.New(left)
		}
		return nil
	})
}

// binary is a program that the cluster was made with.
func (b *testbed) binary(name string) string { return filepath.Join(b.home, name) }

// state is a path of the running cluster.
func (b *testbed) state(path ...string) string {
	return filepath.Join(append([]string{b.home, "cluster", "run"}, path...)...)
}

// kubectl runs a command and returns what it prints.
func (b *testbed) kubectl(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
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
		{"logs", "-n", "penstock", "-l", "app.kubernetes.io/name=penstock-worker", "--tail=20", "--prefix", "--all-containers"},
		{"logs", "-n", "penstock", "-l", "app.kubernetes.io/name=penstock-etcd", "--tail=10", "--prefix"},
		{"logs", "-n", "training", "-l", "batch.kubernetes.io/job-name", "--tail=20", "--prefix"},
	} {
		out, err := b.kubectl(args...)
		b.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for i := 1; i <= nodes; i++ {
		b.t.Logf("kubelet of node%d:\n%s", i, b.run("sh", "-c", `grep -E '^[EF]|ended' "$0" | tail -n 20`,
			b.state(fmt.Sprintf("kubelet%d.log", i))))
	}
	b.stacks("training", "batch.kubernetes.io/job-name")
	b.stacks("penstock", "app.kubernetes.io/name in (penstock-master, penstock-worker)")
}

// stacks logs where the goroutines of pods' processes are, which ends these.
func (b *testbed) stacks(namespace, selector string) {
	var list struct{ Items []pod }
	if err := b.get(&list, "pods", "-n", namespace, "-l", selector,
		"--field-selector=status.phase=Running"); err != nil {
		b.t.Log(err)
		return
	}
	for _, p := range list.Items {
		if len(p.Status.ContainerStatuses) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := exec.CommandContext(ctx, "ctr", "-a", b.socket(p), "-n", "k8s.io", "tasks", "kill", "-s", "SIGQUIT",
			p.container()).Run()
		var out []byte
		for err == nil && ctx.Err() == nil && !bytes.Contains(out, []byte("\ngoroutine ")) {
			if out, err = b.kubectl("logs", "-n", namespace, p.Metadata.Name, "--previous"); err != nil {
				out, err = b.kubectl("logs", "-n", namespace, p.Metadata.Name) // it is not started again
			}
		}
		cancel()
		_, stacks, _ := bytes.Cut(out, []byte("SIGQUIT: quit"))
		b.t.Logf("goroutines of %s: %v\n%s", p.Metadata.Name, err, stacks)
	}
}

// ctr asks the container runtime of a pod's node.
func (b *testbed) ctr(p pod, args ...string) string {
	b.t.Helper()
	return b.run("ctr", append([]string{"-a", b.socket(p), "-n", "k8s.io"}, args...)...)
}

// socket is that of the runtime of a pod's node.
func (b *testbed) socket(p pod) string {
	return b.state(strings.Replace(p.Spec.NodeName, "node", "n", 1), "c.sock")
}

// container is the id of a pod's only container, but for those beside it.
func (p pod) container() string {
	return strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// confined holds that a pod's process can do nothing but its work, as the node sees it.
func (b *testbed) confined(p pod) {
	b.t.Helper()
	var id string
	for line := range strings.Lines(b.ctr(p, "tasks", "list")) {
		if fields := strings.Fields(line); fields[0] == p.container() {
			id = fields[1]
		}
	}
	status, err := os.ReadFile(filepath.Join("/proc", id, "status"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, want := range []string{
		"Uid:\t65532\t65532\t65532\t65532", "Gid:\t65532\t65532\t65532\t65532",
		"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !bytes.Contains(status, []byte("\n"+want+"\n")) {
			b.t.Errorf("%s: its process has not %q:\n%s", p.Metadata.Name, want, status)
		}
	}
	mounts, err := os.ReadFile(filepath.Join("/proc", id, "mounts"))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[1] == "/" && !strings.HasPrefix(fields[3], "ro,") {
			b.t.Errorf("%s: its root file system can be written: %s", p.Metadata.Name, line)
		}
	}
}

// killContainer ends a pod's container with SIGKILL.
func (b *testbed) killContainer(p pod) {
	b.t.Helper()
	b.ctr(p, "tasks", "kill", "-s", "SIGKILL", p.container())
}

// killNode cuts a node off, so that none of its last words arrive, and ends all of its processes with SIGKILL.
func (b *testbed) killNode(i int) {
	b.t.Helper()
	b.run("ip", "link", "set", fmt.Sprint("klbr", i), "down")
	for _, name := range []string{"kubelet", "containerd"} {
		text, err := os.ReadFile(b.state(fmt.Sprint(name, i, ".pid")))
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
	shim := "-address\x00" + b.state(fmt.Sprint("n", i), "c.sock")
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

// run returns what a command prints.
func (b *testbed) run(name string, args ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

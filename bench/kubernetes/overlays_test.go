package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// examples is how many rows the overlays' jobs read.
const examples = 100_000

// laptop holds that the overlay for one machine runs the example, the Python one, that its master comes back with what it
// knew, and that its workers run functions once they have an image with them, or a sidecar.
func (f *fleet) laptop() {
	f.dataset(examples)
	f.apply("test/kubernetes/laptop", map[string]int{"penstock-master": 1, "penstock-worker": 1, "penstock-minio": 1})
	f.upload(f.serviceAddress("penstock-minio"), "clicks/")
	f.team()
	f.must("apply", "-k", f.at("test/kubernetes/example"))
	f.complete("train")
	sum := 0
	for line := range strings.Lines(f.must("logs", "-n", "training", "-l", "batch.kubernetes.io/job-name=train")) {
		var n int
		if _, err := fmt.Sscanf(line, "%d rows;", &n); err != nil {
			f.t.Errorf("a trainer says %q", line)
		}
		sum += n
	}
	if sum != examples {
		f.t.Errorf("the example was handed %d rows, want %d", sum, examples)
	}

	before, err := f.pods("penstock-master")
	f.check(err)
	f.must("delete", "pod", "-n", "penstock", before[0].Metadata.Name)
	f.eventually("another master leads", time.Minute, func() error { return f.count("penstock-master", 1) })
	list := f.must("exec", "-n", "penstock", "deployment/penstock-master", "--", "penstock", "session", "list",
		"--master=localhost:7070",
		"--token-file=/etc/penstock/master/token", "--tls-ca=/etc/penstock/fleet/ca.crt", "--tls-server-name=penstock")
	if !strings.Contains(list, "finished") {
		f.t.Errorf("the new master does not know the session:\n%s", list)
	}

	for _, where := range []string{"image", "sidecar"} {
		f.roll("test/" + where)
		f.calls(where)
	}
}

// production holds that a fleet runs on an etcd and an S3 of others, and serves a trainer outside the cluster what it
// may read.
func (f *fleet) production() {
	f.dataset(examples)
	f.others()
	f.apply("test/production", map[string]int{"penstock-master": 2, "penstock-worker": 2})
	f.team()
	token := f.at("token")
	f.check(os.WriteFile(token, []byte(f.must("create", "token", "default", "-n", "training", "--audience=penstock")),
		0o600))
	f.outside()
	f.pace(0)

	if out, err := f.trainer("s3://data/clicks/", token); err != nil {
		f.dump()
		f.t.Fatalf("outside: %v\n%s", err, out)
	}
	f.recount(examples, f.at("job/ledger-0"))
	if out, err := f.trainer("s3://other/", token); err == nil ||
		!strings.Contains(out, "namespace training may not read") {
		f.t.Errorf("another team's dataset: %v\n%s", err, out)
	}
	f.check(os.WriteFile(token, []byte(f.must("create", "token", "default", "-n", "training")), 0o600))
	if out, err := f.trainer("s3://data/clicks/", token); err == nil || !strings.Contains(out, "Unauthenticated") {
		f.t.Errorf("a token for the API and not for Penstock: %v\n%s", err, out)
	}
}

// others are those who run etcd and S3: on this machine's address, with authorities of their own.
func (f *fleet) others() {
	f.t.Helper()
	const host = "10.99.0.1"
	f.run(f.binary("penstock"), "keys", "--also", host, f.at("others"))
	for to, from := range map[string]string{
		"test/production/ca.crt":                  "fleet/ca.crt",
		"test/kubernetes/keys/master/etcd-ca.crt": "fleet/ca.crt",
		"test/kubernetes/keys/master/etcd.crt":    "master/etcd.crt",
		"test/kubernetes/keys/master/etcd.key":    "master/etcd.key",
		"certs/public.crt":                        "fleet/tls.crt",
		"certs/private.key":                       "fleet/tls.key",
	} {
		text, err := os.ReadFile(f.at("others/" + from))
		f.check(errors.Join(err, os.MkdirAll(f.at("certs"), 0o700), os.WriteFile(f.at(to), text, 0o600)))
	}
	f.start(nil, "etcd", "--data-dir="+f.at("etcd"), "--listen-client-urls=https://"+host+":12379",
		"--advertise-client-urls=https://"+host+":12379",
		"--listen-peer-urls=http://127.0.0.1:12380", "--unsafe-no-fsync", "--client-cert-auth",
		"--trusted-ca-file="+f.at("others/etcd/ca.crt"),
		"--cert-file="+f.at("certs/public.crt"), "--key-file="+f.at("certs/private.key"))
	f.start([]string{"MINIO_ROOT_USER=production", "MINIO_ROOT_PASSWORD=production-secret"},
		os.Getenv("PENSTOCK_MINIO"),
		"server", f.at("s3"), "--address="+host+":19443", "--certs-dir="+f.at("certs"), "--quiet")
	f.eventually("S3 serves", time.Minute, func() error {
		return exec.Command("curl", "--silent", "--fail", "--cacert", f.at("test/production/ca.crt"),
			"https://"+host+":19443/minio/health/ready").Run()
	})
	ca, err := os.ReadFile(f.at("test/production/ca.crt"))
	f.check(err)
	f.put(host+":19443", string(ca), "production", "production-secret", "clicks/")
}

// start runs a process until the test ends.
func (f *fleet) start(env []string, name string, args ...string) {
	f.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.check(cmd.Start())
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}

// away is the network of a machine that reaches nodes, and no pods.
const away = "penstock-outside"

// outside makes it.
func (f *fleet) outside() {
	f.t.Helper()
	f.run("ip", "netns", "add", away)
	f.t.Cleanup(func() { f.run("ip", "netns", "del", away) })
	for _, args := range []string{
		"link add pkout type veth peer name eth0 netns " + away,
		"address add 10.97.0.1/30 dev pkout", "link set pkout up",
		"-n " + away + " address add 10.97.0.2/30 dev eth0", "-n " + away + " link set eth0 up",
		"-n " + away + " route add 10.99.0.0/16 via 10.97.0.1",
	} {
		f.run("ip", strings.Fields(args)...)
	}
}

// trainer reads a dataset from outside, and returns what it printed.
func (f *fleet) trainer(uri, token string) (string, error) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "timeout", "90", "ip", "netns", "exec", away, f.binary("trainer"),
		"--master=10.99.0.11:7070,10.99.0.12:7070,10.99.0.13:7070", "--session="+strings.NewReplacer(":", "", "/",
			"").Replace(uri),
		"--spec="+f.spec(uri), "--dir="+f.at("job"), "--tls-ca="+f.at("test/kubernetes/keys/fleet/ca.crt"),
		"--tls-server-name=penstock", "--token-file="+token)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

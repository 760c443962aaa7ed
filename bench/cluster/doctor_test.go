package cluster_test

import (
	"encoding/json"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// check is a line of `penstock doctor`.
type check struct{ Target, Step, State, Seen, Next string }

// examine runs the doctor, which must end with a status, and returns its checks.
func examine(t *testing.T, status int, args ...string) []check {
	t.Helper()
	out, errs := run(t, status, nil, append([]string{"doctor", "--output=json"}, args...)...)
	var report struct {
		OK     bool
		Checks []check
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: %s\n%s", err, out, errs)
	}
	if report.OK != (status == 0) || status != 0 && !strings.Contains(errs, "checks failed") {
		t.Errorf("ok is %v at exit status %d: %s", report.OK, status, errs)
	}
	return report.Checks
}

// fails checks that the last of a target's steps failed with these words, and those before it did not.
func fails(t *testing.T, checks []check, target, step, seen, next string) {
	t.Helper()
	var last check
	for _, c := range checks {
		if !strings.HasPrefix(c.Target, target) {
			continue
		}
		if last.State == "FAIL" {
			t.Errorf("%v comes after %v", c, last)
		}
		last = c
	}
	if last.Step != step || last.State != "FAIL" || !strings.Contains(last.Seen, seen) ||
		!strings.Contains(last.Next, next) {
		t.Errorf("%+v\nwant that %s fails with %q, and then %q", checks, step, seen, next)
	}
}

// unused is an address at which nobody listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestDoctorOfASecureFleet(t *testing.T) {
	t.Parallel()
	ours, theirs := rpctest.NewAuthority(t), rpctest.NewAuthority(t)
	cert, key := ours.Issue(t, t.TempDir())
	c, master, spec := start(t, 100, "--tls-cert="+cert, "--tls-key="+key, "--tls-ca="+ours.CA)
	at, token, ca := "--master="+master, "--token-file="+c.TokenFile(), "--tls-ca="+ours.CA
	run(t, 0, nil, "session", "create", spec, "--id=run", at, token, ca)

	out, _ := run(t, 0, nil, "doctor", at, token, ca, "--session=run")
	for _, want := range []string{
		"its certificate is for localhost, 127.0.0.1, ::1, by test authority, and ends 5",
		`it takes the token: "fleet" has roles admin, worker in all namespaces, and may read anything`, "it leads",
		"session run is waiting, with 0 of 1 trainers", "2, with ", "worker worker-1 127.0.0.1:",
		"worker worker-2 127.0.0.1:", "it serves, with ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if lines := strings.Count(out, "\n"); lines != strings.Count(out, "\nok")+1 || strings.Contains(out, "Next") {
		t.Errorf("not every line is ok:\n%s", out)
	}
	fails(t, examine(t, 1, at, token, ca, "--session=ran"), "master", "session", `session "ran" does not exist`,
		"session list")

	other := write(t, "token", "another")
	for _, x := range []struct {
		name             string
		args             []string
		step, seen, next string
	}{
		{"no token", []string{ca}, "call", "bears no token", "set --token-file"},
		{
			"wrong token",
			[]string{ca, "--token-file=" + other},
			"call", "token is not one that this port knows",
			"--token-file",
		},
		{
			"wrong authority",
			[]string{"--tls-ca=" + theirs.CA, token},
			"tls",
			"by test authority, whom this command does not trust", "--tls-ca",
		},
		{"plain text", []string{token}, "tls", "speaks TLS", "set --tls-ca"},
	} {
		t.Run(x.name, func(t *testing.T) {
			fails(t, examine(t, 1, append(x.args, at)...), "master", x.step, x.seen, x.next)
		})
	}
	_, errs := run(t, 1, nil, "doctor", at, token, "--tls-ca=/no/file")
	if !strings.Contains(errs, "/no/file") {
		t.Error(errs)
	}
}

func TestDoctorOfAWorkerThatHangs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at, token := "--master="+master, "--token-file="+c.TokenFile()
	ca := rpctest.NewAuthority(t).CA
	fails(t, examine(t, 1, at, token, "--tls-ca="+ca), "master", "tls", "does not speak TLS", "leave out --tls")

	worker := c.Workers()[0]
	if err := worker.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Signal(syscall.SIGCONT) }()
	// At first the fleet believes in it still. Then it does not.
	checks := examine(t, 1, at, token, "--timeout=1s")
	if last := checks[len(checks)-1]; strings.HasPrefix(last.Target, "worker") {
		fails(t, checks, "worker", "health", "does not answer within 1s", "hangs, is stopped")
	}
	for end := time.Now().Add(time.Minute); ; {
		checks = examine(t, 1, at, token, "--timeout=1s")
		if !strings.HasPrefix(checks[len(checks)-1].Target, "worker") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the fleet does not notice: %+v", checks)
		}
	}
	for _, c := range checks {
		if (c.State == "FAIL") != (c.Step == "workers") || c.Step == "workers" &&
			(c.Seen != "the fleet has no worker" || !strings.Contains(c.Next, "penstock worker --join")) {
			t.Errorf("%+v", c)
		}
	}

	if err := c.MasterProcess().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.MasterProcess().Signal(syscall.SIGCONT) }()
	fails(t, examine(t, 1, at, token, "--timeout=1s"), "master", "call", "does not answer within 1s",
		"hangs, is stopped")
}

// A leader that advertises an address at which it is not found is the classic mistake: whoever knows it by another
// address reaches it, but nobody who is sent to it.
func TestDoctorOfALeaderWithAWrongAddress(t *testing.T) {
	t.Parallel()
	listens, says := unused(t), unused(t)
	c := startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(), MasterFlags: []string{"--listen=" + listens, "--advertise=" + says},
	}, 0)
	nobody := unused(t)
	checks := examine(t, 1, "--master="+listens+","+nobody, "--token-file="+c.TokenFile())
	fails(t, checks, "leader "+says, "connect", "connection refused",
		"it is at "+says+"; if it runs, start it with --advertise")
	fails(t, checks, "master "+nobody, "connect", "connection refused", "start a master")
	for _, c := range checks {
		if c.Target == "master "+listens && c.State != "ok" {
			t.Errorf("%+v", c)
		}
	}
}

func TestDoctorOfAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	authority := rpctest.NewAuthority(t)
	cert, key := authority.IssueUntil(t, t.TempDir(), time.Now().Add(-10*time.Minute))
	c := startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(),
		MasterFlags: []string{"--tls-cert=" + cert, "--tls-key=" + key, "--tls-ca=" + authority.CA},
	}, 0)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checks := examine(t, 1, "--master="+master, "--token-file="+c.TokenFile(), "--tls-ca="+authority.CA)
	fails(t, checks, "master", "tls", "its certificate expired 10 minutes ago", "renew the files")
}

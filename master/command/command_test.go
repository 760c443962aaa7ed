package command_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/cli/clitest"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/command"
	"github.com/penstock-ml/penstock/master/store"
)

// TestMain excuses memberlist, which does not wait for the answer to its last probe.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noOps is a catalog without ops.
type noOps struct{}

func (noOps) Names() []string             { return nil }
func (noOps) Fitting(string) spec.Fitting { return spec.Fitting{} }

func (noOps) Maps(string) (bool, bool) { return false, false }
func (noOps) Check(op string, _ map[string]*pb.Value, _ []spec.Type) (spec.Signature, error) {
	return spec.Signature{}, errors.New("no op " + op)
}

// newMaster runs a master and returns its address.
func newMaster(t *testing.T, e *store.Embed) string {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	st, err := store.Open(t.Context(), store.Config{Endpoints: e.Endpoints()})
	check(t, err)
	disk, err := storage.New(storage.Config{})
	check(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	up := make(chan string, 1)
	m, err := master.New(master.Config{
		Listener: l, Store: st, Storage: disk, Ops: noOps{}, Logger: logger, Fleet: fleet.Config{Bind: "127.0.0.1:0"},
		Signer: ticket.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))), Up: func(address,
			_ string,
		) {
			up <- address
		},
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, st.Close()); err != nil {
			t.Error(err)
		}
	})
	return <-up
}

func TestSession(t *testing.T) {
	e, err := store.Embedded(t.Context(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	leader := newMaster(t, e)
	standby := newMaster(t, e)
	path := clitest.Spec(t, clitest.Good)
	other := clitest.Spec(t, clitest.Good+"seed: 3\n")
	bad := clitest.Spec(t, "features: [{name: y, layout: dense}]\nbatch_size: 0\n")
	steps := []struct {
		args []string
		want []string // parts of the output or the error
		fail bool
	}{
		{
			[]string{"create", path, "--id", "run", "--world-size", "3"},
			[]string{"run", "waiting for ", "2 files", "0 of 3"},
			false,
		},
		{[]string{"create", path, "--id", "run"}, []string{"run"}, false},
		{[]string{"create", other, "--id", "run"}, []string{"seed: 0 and 3", "another spec"}, true},
		{[]string{"create", bad, "--id", "new"}, []string{"features[0]", "batch_size", "nearest: x"}, true},
		{[]string{"create", path}, []string{"id"}, true},
		{[]string{"create", "/no/spec.yaml", "--id", "new"}, []string{"/no/spec.yaml"}, true},
		{[]string{"show", "run"}, []string{"waiting for ", "2 files"}, false},
		{[]string{"show", "ran"}, []string{`"ran" does not exist`, leader}, true},
		{[]string{"list"}, []string{"ROWS DELIVERED", "run"}, false},
		{[]string{"list", "-o", "xml"}, []string{"xml"}, true},
		{[]string{"delete", "run"}, nil, false},
		{[]string{"delete", "run"}, []string{"does not exist"}, true},
	}
	for i, s := range steps {
		address := leader
		if i%2 == 1 {
			address = nobody(t) + "," + standby // which names the leader
		}
		out, err := clitest.Run(t, command.Session(), append(s.args, "--master", address)...)
		if (err != nil) != s.fail {
			t.Fatalf("session %v: %v", s.args, err)
		}
		if err != nil {
			out = err.Error()
		}
		for _, want := range s.want {
			if !strings.Contains(out, want) {
				t.Errorf("session %v: %s\nlacks %q", s.args, out, want)
			}
		}
	}
}

func TestSessionAsJSON(t *testing.T) {
	e, err := store.Embedded(t.Context(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	address := newMaster(t, e)
	path := clitest.Spec(t, clitest.Good)
	ask := func(v any, args ...string) {
		t.Helper()
		out, err := clitest.Run(t, command.Session(), append(args, "--master", address, "--output", "json")...)
		check(t, err)
		if strings.Count(out, "\n") != 1 {
			t.Errorf("not one line: %q", out)
		}
		check(t, json.Unmarshal([]byte(out), v))
	}
	type session struct {
		ID        string `json:"id"`
		State     string `json:"state"`
		WorldSize int    `json:"world_size"`
	}
	want := session{"run", "WAITING", 2}
	var created, shown session
	var list struct{ Sessions []session }
	ask(&created, "create", path, "--id", "run", "--world-size", "2")
	ask(&shown, "show", "run")
	ask(&list, "list")
	if created != want || shown != want || len(list.Sessions) != 1 || list.Sessions[0] != want {
		t.Errorf("%v, %v, %v; want %v", created, shown, list, want)
	}
}

func TestEvents(t *testing.T) {
	e, err := store.Embedded(t.Context(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	address := newMaster(t, e)
	path := clitest.Spec(t, clitest.Good)
	for _, id := range []string{"one", "two"} {
		_, err = clitest.Run(t, command.Session(), "create", path, "--id", id, "--master", address)
		check(t, err)
	}
	_, err = clitest.Run(t, command.Session(), "delete", "one", "--master", address)
	check(t, err)
	// What follows the first two ends them: it comes last.
	follow, stop := context.WithCancel(t.Context())
	defer stop()
	out := &until{words: "one: deleted", found: stop}
	cmd := command.Events()
	cmd.SetArgs([]string{"--master", address, "--follow"})
	cmd.SetOut(out)
	check(t, cmd.ExecuteContext(follow))
	for _, want := range []string{
		"leader      fleet: master " + address + " leads",
		"session     one: opened: 2 files, ", "session     two: opened: 2 files, ",
	} {
		if strings.Count(out.text.String(), want) != 1 {
			t.Errorf("lacks %q, or has it twice:\n%s", want, out.text.String())
		}
	}
	text, err := clitest.Run(t, command.Events(), "--master", address, "--session", "one", "--output", "json",
		"--limit", "1")
	check(t, err)
	var last struct{ Kind, Words, Session string }
	if err := json.Unmarshal([]byte(text), &last); err != nil || last.Kind != "SESSION" || last.Words != "deleted" ||
		last.Session != "one" {
		t.Errorf("the newest of one session is %s (%v)", text, err)
	}
	if _, err := clitest.Run(t, command.Events(), "--master", nobody(t), "--follow"); err == nil {
		t.Error("a master that is not there is waited for")
	}
	if out, err := clitest.Run(t, command.Top(), "--master", address, "--once", "--session", "three"); err == nil ||
		!strings.Contains(err.Error(), `"three"`) {
		t.Errorf("top of a session that is not there: %v\n%s", err, out)
	}
}

// until takes what a command prints, and calls found once that has some words.
type until struct {
	words string
	found func()
	text  strings.Builder
}

func (u *until) Write(b []byte) (int, error) {
	n, err := u.text.Write(b)
	if strings.Contains(u.text.String(), u.words) {
		u.found()
	}
	return n, err
}

// nobody returns an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	return l.Addr().String()
}

func TestWithoutAMaster(t *testing.T) {
	address := nobody(t)
	if _, err := clitest.Run(t, command.Session(), "list", "--master", address); err == nil ||
		!strings.Contains(err.Error(), address) {
		t.Errorf("%v", err)
	}
}

// addresses are what a server announces.
type addresses struct{ Address, Gossip string }

// runMaster runs a master as a command until it is up and use has returned, and returns what it logs.
func runMaster(t *testing.T, use func(addresses), args ...string) (logged string) {
	t.Helper()
	return runMasterAfter(t, func() {}, use, args...)
}

// runMasterAfter is runMaster of one that is up only after something else, which it runs meanwhile.
func runMasterAfter(t *testing.T, meanwhile func(), use func(addresses), args ...string) (logged string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log bytes.Buffer
	out, in := io.Pipe()
	cmd := command.Master(noOps{}, "test")
	cmd.SetArgs(append([]string{"--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--output=json", "--log-level=warn"},
		args...))
	cmd.SetOut(in)
	cmd.SetErr(&log)
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.CloseWithError(io.EOF)
		done <- err
	}()
	meanwhile()
	var up addresses
	check(t, json.NewDecoder(out).Decode(&up))
	use(up)
	cancel()
	check(t, <-done)
	return log.String()
}

// A master that runs as a command makes its ticket key once, keeps it to itself, and ends when it is interrupted.
func TestMaster(t *testing.T) {
	dir := t.TempDir()
	var keys [2]string
	for i := range keys {
		runMaster(t, func(up addresses) {
			list, err := clitest.Run(t, command.Session(), "list", "--master", up.Address)
			check(t, err)
			if strings.Count(list, "\n") != 1 || up.Gossip == "" {
				t.Errorf("%+v has sessions %s", up, list)
			}
		}, "--data-dir="+dir)
		path := filepath.Join(dir, "ticket.key")
		text, err := os.ReadFile(path)
		check(t, err)
		info, err := os.Stat(path)
		check(t, err)
		if keys[i] = string(text); info.Mode().Perm() != 0o600 {
			t.Errorf("the ticket key has mode %v", info.Mode())
		}
	}
	if keys[0] != keys[1] {
		t.Error("the second start made a new ticket key")
	}
}

// Masters of one etcd that sign with different keys would have each other's tickets refused.
func TestMasterSaysThatKeysAreShared(t *testing.T) {
	e, err := store.Embedded(t.Context(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	dir := t.TempDir()
	for i, warned := range []bool{true, false} {
		logged := runMaster(t, func(addresses) {}, "--data-dir="+dir, "--etcd="+strings.Join(e.Endpoints(), ","))
		if strings.Contains(logged, "--ticket-key") != warned || warned &&
			!strings.Contains(logged, filepath.Join(dir, "ticket.key")) {
			t.Errorf("start %d logs %q", i, logged)
		}
	}
}

// TestMasterWaitsForEtcd holds that a master which starts while etcd is away lives, says what it waits for, and leads
// once etcd is there.
func TestMasterWaitsForEtcd(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	at, probes, control := nobody(t), nobody(t), nobody(t)
	probe := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + probes + path)
		for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); { // it is not up yet
			time.Sleep(10 * time.Millisecond)
			resp, err = http.Get("http://" + probes + path)
		}
		check(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		check(t, err)
		return resp.StatusCode, string(text)
	}
	var e *store.Embed
	runMasterAfter(t, func() {
		if code, text := probe("/healthz"); code != http.StatusOK {
			t.Errorf("/healthz: %d %s", code, text)
		}
		if code, text := probe("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "etcd") {
			t.Errorf("/readyz: %d %s", code, text)
		}
		if out, err := clitest.Run(t, command.Session(), "list", "--master", control); err == nil ||
			!strings.Contains(err.Error(), "etcd") {
			t.Errorf("its sessions: %v %s", err, out)
		}
		var err error
		e, err = store.Embedded(t.Context(), t.TempDir(), at, slog.New(slog.DiscardHandler))
		check(t, err)
	}, func(addresses) {
		if code, text := probe("/readyz"); code != http.StatusOK {
			t.Errorf("/readyz, once it leads: %d %s", code, text)
		}
	}, "--data-dir="+t.TempDir(), "--etcd=http://"+at, "--http="+probes, "--listen="+control)
	check(t, e.Close())
}

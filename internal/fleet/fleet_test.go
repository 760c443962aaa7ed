package fleet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// TestMain excuses memberlist, which does not wait for the answer to its last probe.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"))
}

// logs are lines that several goroutines write.
type logs struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.written <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until one of two logs says something.
func await(t *testing.T, text string, a, b *logs) {
	t.Helper()
	timeout := time.After(time.Minute)
	for !strings.Contains(a.String()+b.String(), text) {
		select {
		case <-a.written:
		case <-b.written:
		case <-timeout:
			t.Fatalf("no log says %q:\n%v\n%v", text, a, b)
		}
	}
}

func config(name string, join ...string) (Config, *logs) {
	l := &logs{written: make(chan struct{}, 1)}
	return Config{
		Self: Member{Name: name, Role: Worker, Address: "127.0.0.1:1", Slots: 4, Version: "v1"},
		Bind: "127.0.0.1:0", Join: join, Logger: slog.New(slog.NewTextHandler(l, nil)),
	}, l
}

// start runs a member until the test ends.
func start(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for _, err := range []error{<-done, f.Close(), f.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

// eventually waits until a member's view is as wanted.
func eventually(t *testing.T, f *Fleet, want string, ok func([]Member) bool) {
	t.Helper()
	eventuallyOf(t, f, Worker, want, ok)
}

func eventuallyOf(t *testing.T, f *Fleet, role Role, want string, ok func([]Member) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for !ok(f.Members(role)) {
		select {
		case <-f.Changed():
		case <-timeout:
			t.Fatalf("no %s: %+v", want, f.Members(role))
		}
	}
}

func count(n int) func([]Member) bool { return func(ms []Member) bool { return len(ms) == n } }

func port(t *testing.T, f *Fleet) string {
	t.Helper()
	_, p, err := net.SplitHostPort(f.Address())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMembersComeChangeAndGo(t *testing.T) {
	secret := rpc.NewSecret("s")
	cfg, _ := config("a")
	cfg.Secret = secret
	cfg.Self.Role = Master
	a := start(t, cfg)
	cfg, _ = config("b", "localhost:"+port(t, a)) // by name
	cfg.Secret = secret
	b := start(t, cfg)
	cfg, log := config("c", "127.0.0.1:1", a.Address()) // one that does not answer
	cfg.Secret = secret
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.join(t.Context()); err == nil {
		t.Error("a join of an address where nobody listens must say so")
	}
	eventually(t, a, "two workers", count(2))
	eventually(t, b, "two workers", count(2))
	eventuallyOf(t, b, Master, "master", count(1)) // what a join brings comes one by one
	if m := a.Members(Worker)[0]; m.Name != "b" || m.Address != "127.0.0.1:1" || m.Slots != 4 || m.Version != "v1" {
		t.Errorf("%+v", m)
	}
	if err := c.Update(func(m *Member) { m.Draining = true }); err != nil {
		t.Error(err)
	}
	eventually(t, b, "drain", func(ms []Member) bool { return len(ms) == 2 && ms[1].Draining && !ms[0].Draining })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, b, "leave", count(1))
	eventually(t, a, "leave", count(1))
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a member that leaves warns: %v", log)
	}
}

func TestKilledMembersVanish(t *testing.T) {
	cfg, _ := config("a")
	a := start(t, cfg)
	cfg, _ = config("b", a.Address())
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, a, "b", count(2))
	if err := b.list.Shutdown(); err != nil { // without a word
		t.Fatal(err)
	}
	eventually(t, a, "end of b", count(1))
}

func TestWrongSecret(t *testing.T) {
	for _, secrets := range [][2]string{{"one", "other"}, {"one", ""}, {"", "other"}} {
		cfg, _ := config("a")
		cfg.Secret = rpc.NewSecret(secrets[0])
		a := start(t, cfg)
		cfg, l := config("b", a.Address())
		cfg.Secret = rpc.NewSecret(secrets[1])
		b := start(t, cfg)
		await(t, "the same --gossip-key-file", l, l)
		if len(a.Members(Worker)) != 1 || len(b.Members(Worker)) != 1 {
			t.Errorf("%q: members with different secrets met", secrets)
		}
	}
}

// A join of an address that is none of gossip says what that is.
func TestJoinOfOtherPorts(t *testing.T) {
	server, err := rpc.NewServer(rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	secure, err := rpc.NewServer(rpc.Config{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(nil)
	defer page.Close()
	calls, web, encrypted := rpctest.Serve(t, server), page.Listener.Addr().String(), rpctest.Serve(t, secure)
	for _, c := range []struct{ address, secret, want string }{
		{"127.0.0.1:1", "", "nothing listens there"},
		{"127.0.0.1:1", "s", "nothing listens there"},
		{calls, "", "no gossip port, but one for gRPC or HTTP"},
		{calls, "s", "if that is a port for gRPC or HTTP, name"},
		{web, "", "no gossip port, but one for gRPC or HTTP"},
		{web, "s", "if that is a port for gRPC or HTTP, name"},
		{encrypted, "", "as those for TLS do"},
		{encrypted, "s", "as those for TLS do"},
	} {
		cfg, _ := config("a", c.address)
		cfg.Secret = rpc.NewSecret(c.secret)
		f, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = f.join(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "7946 by default") {
			t.Errorf("want %q: %v", c.want, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestKeysAreReplaced holds that members stay together while the key of gossip is replaced, and that the old one is
// worth nothing then.
func TestKeysAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("old")
	secret, err := rpc.ReadSecret(path)
	if err != nil {
		t.Fatal(err)
	}
	join := func(name string, secret rpc.Secret, to ...string) (*Fleet, *logs) {
		cfg, l := config(name, to...)
		cfg.Secret = secret
		return start(t, cfg), l
	}
	a, _ := join("a", secret)
	b, _ := join("b", secret, a.Address())
	eventually(t, a, "b comes", count(2))
	for _, text := range []string{"old\nnew\n", "new\nold\n", "new\n"} {
		set(text)
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			want := gossipKeys(secret)
			if len(want) == strings.Count(text, "\n") && keysAre(a, want) && keysAre(b, want) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q is not taken", text)
			}
		}
	}
	c, _ := join("c", rpc.NewSecret("new"), a.Address())
	eventually(t, c, "the new key is good", count(3))
	eventually(t, b, "b is still there", count(3))
	_, log := join("d", rpc.NewSecret("old"), a.Address())
	await(t, "the same --gossip-key-file", log, log)
	if len(a.Members(Worker)) != 3 {
		t.Errorf("%+v", a.Members(Worker))
	}
}

func keysAre(f *Fleet, want [][]byte) bool {
	got := f.keyring.GetKeys()
	return len(got) == len(want) && bytes.Equal(got[0], want[0])
}

func TestNamesakes(t *testing.T) {
	cfg, known := config("a")
	a := start(t, cfg)
	cfg, other := config("a", a.Address())
	start(t, cfg)
	await(t, "two members have the same name", known, other)
	if len(a.Members(Worker)) != 1 {
		t.Errorf("%+v", a.Members(Worker))
	}
}

func TestMistakesInConfig(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"set --advertise", func(c *Config) { c.Self.Address = "0.0.0.0:7071" }},
		{"set --advertise", func(c *Config) { c.Self.Address = "[::]:7071" }},
		{"set --advertise", func(c *Config) { c.Self.Address = ":7071" }},
		{"missing port", func(c *Config) { c.Self.Address = "10.0.0.1" }},
		{"shorten its address (400 bytes), zone (100) or version (2)", func(c *Config) {
			c.Self.Address, c.Self.Zone = strings.Repeat("a", 398)+":1", strings.Repeat("z", 100)
		}},
		{"Name", func(c *Config) { c.Self.Name = "" }},
		{"gossip address", func(c *Config) { c.Bind = "127.0.0.1" }},
		{"port number", func(c *Config) { c.Bind = "127.0.0.1:70000" }},
		{"port 0", func(c *Config) { c.Advertise = "127.0.0.1:0" }},
		{"set --gossip-advertise", func(c *Config) { c.Bind = "[::]:0" }},
		{"advertised gossip address", func(c *Config) { c.Advertise = "x" }},
	} {
		cfg, _ := config("a")
		c.change(&cfg)
		f, err := New(cfg)
		if err == nil {
			_ = f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

// TestRecordLimit finds the longest zone that New takes, and drains that member.
func TestRecordLimit(t *testing.T) {
	cfg, _ := config("a")
	for n := 512; ; n-- {
		cfg.Self.Zone = strings.Repeat("z", n)
		if _, err := cfg.Self.record(); err == nil {
			break
		}
	}
	f := start(t, cfg)
	if err := f.Update(func(m *Member) { m.Draining = true }); err != nil {
		t.Error(err)
	}
	if m := f.Members(Worker); len(m) != 1 || !m[0].Draining {
		t.Errorf("%d members", len(m))
	}
	if err := f.Update(func(m *Member) { m.Zone += "z" }); err == nil {
		t.Error("a longer record was taken")
	}
	if m := f.Members(Worker); len(m) != 1 || m[0].Zone != cfg.Self.Zone {
		t.Error("a refused update changed the member")
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	cfg, _ := config("a")
	cfg.Secret = rpc.NewSecret("hunter2")
	if s := fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg); strings.Contains(s, "hunter2") {
		t.Error(s)
	}
}

// TestBindByName holds that a name does not open the port on all interfaces.
func TestBindByName(t *testing.T) {
	cfg, _ := config("a")
	cfg.Bind = "localhost:0"
	host, _, err := net.SplitHostPort(start(t, cfg).Address())
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("%s, %v", host, err)
	}
}

// TestRestartedMasterIsFound holds that a master that comes back at its address, and knows nobody, sees its workers
// before any round in which members find what no news told: whether they missed it or not.
func TestRestartedMasterIsFound(t *testing.T) {
	for name, missed := range map[string]bool{"at once": false, "after it was missed": true} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := config("m")
			cfg.Self.Role = Master
			first, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Bind = first.Address()
			worker, _ := config("w", first.Address())
			cfg.rounds, worker.rounds = time.Hour, time.Hour
			w := start(t, worker)
			eventually(t, first, "worker", count(1))
			killOther(t, w, first)                        // when it is missed, the news that w came are told no more
			if err := first.list.Shutdown(); err != nil { // without a word
				t.Fatal(err)
			}
			if missed {
				eventuallyOf(t, w, Master, "end of the master", count(0))
			}
			second := start(t, cfg)
			eventually(t, second, "worker", count(1))
			eventuallyOf(t, w, Master, "master", count(1))
		})
	}
}

// killOther runs a third member, kills it, and waits until the others miss it.
func killOther(t *testing.T, others ...*Fleet) {
	t.Helper()
	cfg, _ := config("other", others[0].Address())
	other, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range others {
		eventually(t, f, "other", count(2))
	}
	if err := other.list.Shutdown(); err != nil {
		t.Fatal(err)
	}
	for _, f := range others {
		eventually(t, f, "end of the other", count(1))
	}
}

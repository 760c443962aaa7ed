package store

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/master/store/storetest"
)

// TestMain also holds the etcd library to account: nothing of it is excused.
func TestMain(m *testing.M) {
	storetest.Main()
	goleak.VerifyTestMain(m)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// etcd starts an embedded etcd on a unix socket, which the test's end stops.
func etcd(t *testing.T) *Embed {
	t.Helper()
	e, err := Embedded(t.Context(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, e.Close()) })
	return e
}

// patient are timeouts that a busy machine's disk does not exceed.
func patient(e *Embed) Config {
	return Config{Endpoints: e.Endpoints(), CallTimeout: time.Minute, LeaseTTL: time.Minute}
}

// open connects to an etcd; the test's end closes the connection.
func open(t *testing.T, e *Embed) *Store {
	t.Helper()
	s, err := Open(t.Context(), patient(e))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func lead(t *testing.T, s *Store) *Leadership {
	t.Helper()
	l, err := s.Campaign(t.Context(), "10.0.0.1:7000")
	check(t, err)
	t.Cleanup(func() { l.session.Orphan() })
	return l
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	tests := []struct {
		cfg  Config
		want string
	}{
		{Config{}, "no etcd endpoints"},
		{Config{Endpoints: []string{"x:1"}, CallTimeout: -1}, "negative"},
		{Config{Endpoints: []string{"x:1"}, Username: "u"}, `user "u" needs a password file`},
		{Config{Endpoints: []string{"x:1"}, PasswordFile: "p"}, "without a user name"},
		{Config{Endpoints: []string{"x:1"}, Username: "u", PasswordFile: "/does/not/exist"}, "/does/not/exist"},
	}
	for _, test := range tests {
		s, err := Open(t.Context(), test.cfg)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.cfg, err, test.want)
		}
		if s != nil {
			t.Errorf("%+v: a store beside an error", test.cfg)
		}
	}
}

func TestPasswordFromAFile(t *testing.T) {
	e := etcd(t)
	admin := open(t, e)
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { _, err := admin.client.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := admin.client.RoleAdd(ctx, "root"); return err },
		func() error { _, err := admin.client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.client.AuthEnable(ctx); return err },
	} {
		check(t, step())
	}
	if _, err := admin.Leader(ctx); err == nil || strings.Contains(err.Error(), "unavailable") {
		t.Errorf("without a password: %v, want etcd's refusal", err)
	}
	file := filepath.Join(t.TempDir(), "password")
	for password, works := range map[string]bool{"secret\n": true, "wrong\n": false} {
		check(t, os.WriteFile(file, []byte(password), 0o600))
		cfg := patient(e) // etcd takes its time to check a password
		cfg.Username, cfg.PasswordFile = "root", file
		s, err := Open(ctx, cfg)
		if (err == nil) != works {
			t.Errorf("password %q: %v", password, err)
		}
		if err == nil {
			check(t, s.Close())
		} else if strings.Contains(err.Error(), "wrong") {
			t.Errorf("the error quotes the password: %v", err)
		}
	}
}

func TestEmbedded(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	e, err := Embedded(t.Context(), dir, "127.0.0.1:0", quiet)
	check(t, err)
	if ep := e.Endpoints()[0]; !strings.HasPrefix(ep, "http://127.0.0.1:") || strings.HasSuffix(ep, ":0") {
		t.Errorf("listens on %s", ep)
	}
	if _, err := Embedded(t.Context(), dir, "", quiet); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second etcd in the same directory: %v", err)
	}
	s, err := Open(t.Context(), patient(e))
	check(t, err)
	l, err := s.Campaign(t.Context(), "a")
	check(t, err)
	_, err = s.Create(t.Context(), l, meta("run"), files(3))
	check(t, err)
	check(t, l.Resign(t.Context()))
	check(t, s.Close())
	check(t, e.Close())

	// The data outlives it, wherever it listens next.
	e, err = Embedded(t.Context(), dir, "", quiet)
	check(t, err)
	s, err = Open(t.Context(), patient(e))
	check(t, err)
	if list, err := s.TakeOver(t.Context(), lead(t, s)); err != nil || !slices.Equal(list, []Name{"run"}) {
		t.Errorf("after a restart there are %v, %v", list, err)
	}
	socket := strings.TrimPrefix(e.Endpoints()[0], "unix://")
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's directory is open to others: %v, %v", info, err)
	}
	check(t, s.Close())
	check(t, e.Close())
	if _, err := os.Stat(filepath.Dir(socket)); !os.IsNotExist(err) {
		t.Errorf("the socket's directory is left: %v", err)
	}
}

// A socket's path cannot be as long as a folder's.
func TestEmbeddedWithALongTemporaryFolder(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	check(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	e, err := Embedded(t.Context(), long, "", slog.New(slog.DiscardHandler))
	check(t, err)
	check(t, e.Close())
}

func TestEmbeddedRefuses(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "10.1.2.3:2379", "example.com:1", "nonsense"} {
		e, err := Embedded(t.Context(), t.TempDir(), listen, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("it listens on %s", listen)
			check(t, e.Close())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if e, err := Embedded(ctx, dir, "", slog.New(slog.DiscardHandler)); err == nil {
		check(t, e.Close()) // ready at once
	}
	e, err := Embedded(t.Context(), dir, "", slog.New(slog.DiscardHandler))
	check(t, err)
	check(t, e.Close())
}

// etcd's information, and what it says of its own end, is no news to an operator.
func TestEmbeddedIsQuiet(t *testing.T) {
	var log strings.Builder
	e, err := Embedded(t.Context(), t.TempDir(), "", slog.New(slog.NewTextHandler(&log, nil)))
	check(t, err)
	s, err := Open(t.Context(), patient(e))
	check(t, err)
	check(t, s.Close())
	check(t, e.Close())
	if log.Len() > 0 {
		t.Errorf("logged:\n%s", &log)
	}
}

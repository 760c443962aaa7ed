package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
)

func bundle(seed byte, n int) (*pb.StoredCode, []byte) {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return code.Of(data, &pb.Code{Digest: make([]byte, 32)}), data
}

func putCode(
	t *testing.T, s *Store, lead *Leadership, namespace string, c *pb.StoredCode, data []byte, at time.Time,
) error {
	t.Helper()
	for p := range code.Parts(c, data) {
		if err := s.PutCode(t.Context(), lead, namespace, p, at); err != nil {
			return err
		}
	}
	return nil
}

func codeThere(t *testing.T, s *Store, lead *Leadership, namespace string, c *pb.StoredCode, at time.Time) bool {
	t.Helper()
	there, err := s.UseCode(t.Context(), lead, CodeOf(namespace, c.GetSha256()), at)
	check(t, err)
	return there
}

// keysBelow counts those that begin with a prefix.
func keysBelow(t *testing.T, s *Store, dir string) int64 {
	t.Helper()
	resp, err := s.client.Get(t.Context(), dir, prefix, countOnly)
	check(t, err)
	return resp.Count
}

func TestCodeIsKeptByItsHash(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	now := time.Now()
	c, data := bundle(1, 2*code.PartBytes+17)
	var parts []*pb.CodePart
	for p := range code.Parts(c, data) {
		parts = append(parts, p)
		if codeThere(t, s, l, "vision", c, now) {
			t.Errorf("it is there before the part at %d", p.GetOffset())
		}
		check(t, s.PutCode(t.Context(), l, "vision", p, now))
	}
	if !codeThere(t, s, l, "vision", c, now) || codeThere(t, s, l, "", c, now) || codeThere(t, s, l, "vision2", c, now) {
		t.Error("code is there for the namespace that put it, and for no other")
	}
	revision := func() int64 {
		resp, err := s.client.Get(t.Context(), "x")
		check(t, err)
		return resp.Header.Revision
	}
	before := revision()
	check(t, s.PutCode(t.Context(), l, "vision", parts[1], now))
	if after := revision(); after != before {
		t.Errorf("what is there was written again, revision %d after %d", after, before)
	}
	var got []byte
	for n := range parts {
		p, err := s.CodePart(t.Context(), CodeOf("vision", c.GetSha256()), n)
		check(t, err)
		got = append(got, p...)
	}
	if !bytes.Equal(got, data) {
		t.Error("other bytes come out than went in")
	}
	if _, err := s.CodePart(t.Context(), CodeOf("", c.GetSha256()), 0); !errors.Is(err, ErrNoCode) {
		t.Errorf("of another namespace: %v", err)
	}
}

func TestCodeOfAnotherHash(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	c, data := bundle(1, code.PartBytes+1)
	wrong := bytes.Clone(data)
	wrong[7]++
	if err := putCode(t, s, l, "", c, wrong, time.Now()); !errors.Is(err, ErrCodeHash) {
		t.Errorf("other bytes: %v", err)
	}
	if n := keysBelow(t, s, "penstock/code"); n != 0 {
		t.Errorf("%d keys are left of them", n)
	}
	var last *pb.CodePart
	for last = range code.Parts(c, data) {
	}
	if err := s.PutCode(t.Context(), l, "", last, time.Now()); !errors.Is(err, ErrNoCode) {
		t.Errorf("the last part without the others: %v", err)
	}
	// one that claims another size must not be in the way
	short := &pb.CodePart{Sha256: c.GetSha256(), Size: 3 * code.PartBytes, Data: data[:code.PartBytes]}
	check(t, s.PutCode(t.Context(), l, "", short, time.Now()))
	check(t, putCode(t, s, l, "", c, data, time.Now()))
	if !codeThere(t, s, l, "", c, time.Now()) {
		t.Error("it is not there")
	}
}

// TestRanksThatSendTheSame holds that several may put the same code at once, whatever order their parts come in.
func TestRanksThatSendTheSame(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	c, data := bundle(3, 4*code.PartBytes)
	var group errgroup.Group
	for range 4 {
		group.Go(func() error { return putCode(t, s, l, "", c, data, time.Now()) })
	}
	check(t, group.Wait())
	if !codeThere(t, s, l, "", c, time.Now()) || keysBelow(t, s, "penstock/code/") != 4 {
		t.Errorf("it is not there, or lies there in %d parts", keysBelow(t, s, "penstock/code/"))
	}
}

func TestTheCodeOfANamespaceIsBounded(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	for i := range byte(maxCode / code.MaxBytes) { // begun suffices
		c, data := bundle(i, code.MaxBytes)
		for p := range code.Parts(c, data) {
			check(t, s.PutCode(t.Context(), l, "vision", p, time.Now()))
			break
		}
	}
	c, data := bundle(99, 1)
	err := putCode(t, s, l, "vision", c, data, time.Now())
	if !errors.Is(err, ErrCodeFull) || !strings.Contains(err.Error(), "64 MiB") || !strings.Contains(err.Error(), "vision") {
		t.Errorf("beyond the bound: %v", err)
	}
	check(t, putCode(t, s, l, "speech", c, data, time.Now()))
}

func TestCodeThatNobodyUsesIsSwept(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	begin := time.Now()
	stored := map[string]*pb.StoredCode{}
	for i, name := range []string{"old", "in use", "used lately", "half"} {
		c, data := bundle(byte(i), code.PartBytes+1)
		stored[name] = c
		if name == "half" {
			data = data[:code.PartBytes]
		}
		check(t, putCode(t, s, l, "vision", c, data, begin))
	}
	if !codeThere(t, s, l, "vision", stored["used lately"], begin.Add(time.Hour)) {
		t.Fatal("it is not there")
	}
	inUse := func(c Code) bool { return c == CodeOf("vision", stored["in use"].GetSha256()) }
	check(t, s.SweepCode(t.Context(), l, begin, inUse))
	if n := keysBelow(t, s, "penstock/codes/"); n != 4 {
		t.Errorf("%d codes are left, and none is older", n)
	}
	check(t, s.SweepCode(t.Context(), l, begin.Add(time.Minute), inUse))
	for name, want := range map[string]bool{"old": false, "in use": true, "used lately": true, "half": false} {
		if got := codeThere(t, s, l, "vision", stored[name], begin); got != want {
			t.Errorf("the one that is %s is there: %v", name, got)
		}
	}
	if n := keysBelow(t, s, "penstock/code/"); n != 4 {
		t.Errorf("%d parts are left of the 4 of two", n)
	}
}

func TestOnlyTheLeaderWritesCode(t *testing.T) {
	e := etcd(t)
	s := open(t, e)
	old := lead(t, s)
	c, data := bundle(1, 10)
	check(t, old.Resign(t.Context()))
	if err := putCode(t, s, old, "", c, data, time.Now()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("put: %v", err)
	}
	if n := keysBelow(t, s, "penstock/code"); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	now := lead(t, s)
	check(t, putCode(t, s, now, "", c, data, time.Now()))
	if err := s.SweepCode(t.Context(), old, time.Now().Add(time.Hour),
		func(Code) bool { return false }); !errors.Is(err, ErrNotLeader) {
		t.Errorf("sweep: %v", err)
	}
}

func TestASessionNamesOtherCode(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	m := meta("run")
	m.Session.Code, _ = bundle(1, 10)
	session, err := s.Create(t.Context(), l, m, files(3))
	check(t, err)
	other, _ := bundle(2, 10)
	check(t, s.SetCode(t.Context(), l, session, other))
	check(t, s.Commit(t.Context(), l, session, Writes{Head: head(1)})) // by the new revision
	if !proto.Equal(session.Meta.GetSession().GetCode(), other) || m.Session.Code.GetSize() != 10 {
		t.Errorf("it names %v", session.Meta.GetSession().GetCode())
	}
	loaded, err := s.Load(t.Context(), l, session.Name)
	check(t, err)
	if !proto.Equal(loaded.Meta.GetSession().GetCode(), other) {
		t.Errorf("loaded, it names %v", loaded.Meta.GetSession().GetCode())
	}
	if err := s.SetCode(t.Context(), l, session, other); !errors.Is(err, ErrConflict) {
		t.Errorf("what was loaded by another one since is changed: %v", err)
	}
}

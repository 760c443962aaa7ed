package storetest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/master/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main()
	os.Exit(m.Run())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMembersDieAndComeBack holds that the others go on without a member that leads, and that it comes back with its
// data.
func TestMembersDieAndComeBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := storetest.Start(ctx, storetest.Config{Dir: t.TempDir()})
	check(t, err)
	defer func() { check(t, c.Close()) }()
	leader, err := c.Leader(ctx)
	check(t, err)
	check(t, leader.Kill())
	for next := leader; next == leader; {
		if found, err := c.Leader(ctx); err == nil {
			next = found
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	check(t, leader.Restart())
	check(t, leader.Serves(ctx))
}

package command_test

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli/clitest"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master/command"
	"github.com/penstock-ml/penstock/master/store"
)

func TestFeatures(t *testing.T) {
	e, err := store.Embedded(t.Context(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	address := newMaster(t, e)
	run := func(args ...string) (string, error) {
		return clitest.Run(t, command.Features(), append(args, "--master", address)...)
	}
	out, err := run()
	check(t, err)
	if !strings.Contains(out, "no session has read anything yet") {
		t.Errorf("at first: %s", out)
	}
	spec := clitest.Spec(t, clitest.Good)
	_, err = clitest.Run(t, command.Session(), "create", spec, "--id", "run", "--master", address)
	check(t, err)
	readAll(t, address, "run")
	dir := filepath.Dir(spec)
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"DATASET", dir, "1 "}},
		{[]string{dir}, []string{"by 1 session since", "FEATURE", "TOGETHER", "all 1 were read", "x  ", "requests"}},
		{[]string{dir, "--order"}, []string{"x\n"}},
		{[]string{dir + "/other/"}, []string{"has read anything below", "`penstock features` lists"}},
		{[]string{"--order"}, []string{"--order prints the columns of one dataset"}},
	} {
		out, err := run(test.args...)
		if err != nil {
			out += err.Error()
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("features %v: %s\nlacks %q", test.args, out, want)
			}
		}
	}
	out, err = run(dir, "--output", "json")
	check(t, err)
	var got struct {
		Sessions, Rows int64
		Features       []struct {
			Name string
			Rows int64
		}
		Sets     []struct{ Features []int }
		Never    []struct{ Name string }
		LastRead time.Time `json:"last_read"`
	}
	check(t, json.Unmarshal([]byte(out), &got))
	if got.Sessions != 1 || got.Rows == 0 || len(got.Features) == 0 || got.Features[0].Rows != got.Rows ||
		len(got.Sets) != 1 || len(got.Sets[0].Features) != len(got.Features) || time.Since(got.LastRead) > time.Hour {
		t.Errorf("as JSON: %s", out)
	}
}

// readAll takes what a session gives, as its only trainer, until a shard was given.
func readAll(t *testing.T, address, session string) {
	t.Helper()
	conn, err := rpc.Dial(address, rpc.Config{})
	check(t, err)
	defer func() { check(t, conn.Close()) }()
	m := pb.NewMasterClient(conn)
	joined, err := m.Join(t.Context(), &pb.JoinRequest{Session: session, WorldSize: 1, Nonce: "n"})
	check(t, err)
	for {
		reply, err := m.Sync(t.Context(), &pb.SyncRequest{
			Session: session, Generation: joined.GetGeneration(), Incarnation: joined.GetIncarnation(), Nonce: "n",
			WantsMore: true,
		})
		check(t, err)
		if len(reply.GetGrants()) > 0 {
			return
		}
	}
}

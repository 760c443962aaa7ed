package reach

import (
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/worker/transform"
)

// free is an address at which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A fleet in this process is what stands in for a default master that does not answer, where nobody asks for more.
func TestWhichFleetToReadFrom(t *testing.T) {
	listening, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	for name, c := range map[string]struct {
		address string
		flags   []string
		local   bool
		says    string // on standard error, or in the error
	}{
		"nobody answers":              {address: free(t), local: true, says: "reading with a fleet in this process"},
		"something answers":           {address: listening.Addr().String()},
		"a master is named":           {address: free(t), flags: []string{"--master=192.0.2.1:1"}},
		"it is asked for":             {address: listening.Addr().String(), flags: []string{"--local"}, local: true},
		"it is forbidden":             {address: free(t), flags: []string{"--local=false"}},
		"a session that others share": {address: free(t), flags: []string{"--session=run-7"}, says: "start one"},
		"and it is asked for": {
			address: free(t), flags: []string{"--local", "--session=run-7"},
			says: "--session",
		},
	} {
		var errs strings.Builder
		cmd := &cobra.Command{}
		cmd.SetErr(&errs)
		cmd.SetContext(t.Context())
		r := &Flags{}
		cmd.Flags().StringSliceVar(&r.masters, "master", []string{c.address}, "")
		cmd.Flags().BoolVar(&r.local, "local", false, "")
		session := cmd.Flags().String("session", "", "")
		if err := cmd.ParseFlags(c.flags); err != nil {
			t.Fatal(err)
		}
		local, err := r.isLocal(cmd, *session != "")
		if err != nil {
			errs.WriteString(err.Error())
		}
		if local != c.local || !strings.Contains(errs.String(), c.says) || c.says == "" && errs.Len() > 0 {
			t.Errorf("%s: %t, %q", name, local, errs.String())
		}
	}
}

// A fleet in this process needs an interpreter for functions by name, and says so before it starts.
func TestFunctionsByNameTakeAnInterpreter(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	f := New("test", transform.Builtin())
	f.Register(cmd.Flags())
	if err := cmd.ParseFlags([]string{"--local"}); err != nil {
		t.Fatal(err)
	}
	f.Names = true
	err := f.Reach(cmd, false, func(context.Context, *Fleet) error {
		t.Error("it starts without")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "add --python default=python3") {
		t.Error(err)
	}
}

// A dashboard's port in a master's place is an error at once.
func TestDashboardForAMaster(t *testing.T) {
	dashboard := httptest.NewServer(nil)
	defer dashboard.Close()
	r := &Flags{masters: []string{dashboard.Listener.Addr().String()}, connect: time.Hour}
	if err := r.await(t.Context(), rpc.Config{}); err == nil || !strings.Contains(err.Error(), "speaks HTTP") {
		t.Error(err)
	}
}

// A master that never answers is an error that says what to do, in bounded time.
func TestNoMasterAnswers(t *testing.T) {
	r := &Flags{masters: []string{free(t)}, connect: time.Millisecond}
	err := r.await(t.Context(), rpc.Config{})
	if err == nil || !strings.Contains(err.Error(), "--local") ||
		!strings.Contains(err.Error(), "penstock doctor --master "+r.masters[0]) {
		t.Error(err)
	}
}

package python

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
)

// naming returns a pool that has testdata/named's modules in a folder of the test, where they may change, and no code
// of sessions.
func naming(t *testing.T, modules ...string) (p *Pool, folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("testdata/named")); err != nil {
		t.Fatal(err)
	}
	p, _ = running(t, func(cfg *Config, _ *times) {
		e := cfg.Environments[Default]
		e.Path, e.Modules = append(e.Path, folder), modules
		cfg.Environments, cfg.ByValue = map[string]Environment{"other": e}, false
		cfg.Processes = 4 // however many CPUs there are: none of the few that tests have ends for another
	})
	return p, folder
}

var other = &pb.Ticket{Session: "s1", Namespace: "n1", Environment: "other"}

// byName opens a function that a session of an identity calls.
func byName(p *Pool, identity *pb.Code, call *pb.Function) (transform.Function, error) {
	return byNameIn("s1", p, identity, call)
}

// byNameIn opens one that a session calls, with others.
func byNameIn(
	session string, p *Pool, identity *pb.Code, call *pb.Function, others ...*pb.Function,
) (transform.Function, error) {
	ticket := proto.CloneOf(other)
	ticket.Session, ticket.Code = session, &pb.StoredCode{Identity: identity}
	call.Name, call.Style = "f", pb.Style_NUMPY
	program := &pb.Program{}
	for _, c := range append([]*pb.Function{call}, others...) {
		program.Steps = append(program.Steps, &pb.Step{
			At: "transforms[0]", Outs: 1, Type: int64s.Proto(), Results: []*pb.Result{{}}, Python: c,
		})
	}
	fs, err := p.Functions(ticket, program)
	if err != nil {
		return nil, err
	}
	return fs.Function(program.Steps[0], []spec.Type{int64s})
}

// called is what it makes of 0, 1 and 2.
func called(t *testing.T, f transform.Function) ([]int64, error) {
	t.Helper()
	defer f.Close()
	c := callOf([]spec.Type{int64s}, numbered(3))
	err := f.Call(t.Context(), c)
	return c.Out[0].I64, err
}

const (
	times_ = "mypkg.features:times"
	add_   = "mypkg.features:add"
)

func TestFunctionsByName(t *testing.T) {
	p, folder := naming(t, "mypkg.features")
	reply, err := p.Calls(t.Context(), other, []string{times_, add_, times_})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range reply.GetIdentity().GetFunctions() {
		names = append(names, f.GetName())
	}
	if !slices.Equal(names, []string{times_, add_, times_}) || len(reply.GetIdentity().GetDigest()) != 32 ||
		!strings.Contains(strings.Join(reply.GetIdentity().GetDistributions(), " "), "numpy==") {
		t.Errorf("the identity is %v", reply.GetIdentity())
	}
	want := &pb.MarkedFunction{
		Function: &pb.Function{
			Name: "times", Call: times_, Style: pb.Style_NUMPY, Kind: pb.FunctionKind_MAP, Memory: 200 << 20,
		},
		Results: []*pb.Result{{Name: "many", Type: &pb.Type{Kind: pb.Kind_INT64}}},
	}
	if !proto.Equal(reply.GetFunctions()[0], want) || reply.GetFunctions()[1].GetResults()[0].GetName() != "" {
		t.Errorf("the marks are %v", reply.GetFunctions())
	}
	again, err := p.Calls(t.Context(), other, []string{times_, add_, times_})
	if err != nil || !proto.Equal(again, reply) {
		t.Errorf("asked again: %v, %v", again, err)
	}
	if n := len(p.processes); n != 1 {
		t.Errorf("%d processes have listed functions, and one could", n)
	}

	ints := &pb.Value{Kind: &pb.Value_Ints{Ints: &pb.Ints{Values: []int64{100, 20}}}}
	args := map[string]*pb.Value{"by": {Kind: &pb.Value_Int{Int: 3}}, "plus": ints}
	for _, c := range []struct {
		call *pb.Function
		want []int64
	}{
		{&pb.Function{Index: 0, Call: times_, Args: args}, []int64{120, 123, 126}},
		{&pb.Function{Index: 2, Call: times_}, []int64{0, 1, 2}},
		{&pb.Function{Index: 1, Call: add_}, []int64{5, 6, 7}},
	} {
		f, err := byName(p, reply.GetIdentity(), c.call)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := called(t, f); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v: %v", c.call, got, c.want, err)
		}
	}

	if err := os.WriteFile(filepath.Join(folder, "mypkg", "data.txt"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := p.Calls(t.Context(), other, []string{times_, add_, times_})
	if err != nil || proto.Equal(changed.GetIdentity(), reply.GetIdentity()) {
		t.Errorf("after a file has changed: %v, %v", changed, err)
	}
}

func TestFunctionsByNameThatDiffer(t *testing.T) {
	p, folder := naming(t, "mypkg.*")
	reply, err := p.Calls(t.Context(), other, []string{times_})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(identity *pb.Code, call *pb.Function, says string) {
		t.Helper()
		f, err := byName(p, identity, call)
		if err == nil {
			_, err = called(t, f)
		}
		if !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", call, err, says)
		}
	}
	call := &pb.Function{Call: times_}
	next := byte(0)
	another := func(change func(*pb.Code)) *pb.Code { // whose digest is another one, too
		c := proto.CloneOf(reply.GetIdentity())
		change(c)
		next++
		c.Digest[0] ^= next
		return c
	}
	refused(another(func(c *pb.Code) { c.Distributions[0] = "numpy==0.1" }), call, "numpy is ")
	refused(another(func(c *pb.Code) { c.Functions[0].Name = "os:system" }), &pb.Function{Call: "os:system"},
		"os is not among the modules that functions by name may be of here: mypkg.*")
	refused(another(func(c *pb.Code) { c.Functions[0].Name = add_ }), call, "mypkg.features differs here")
	refused(reply.GetIdentity(), &pb.Function{Call: add_}, "function 0 is mypkg.features:times")
	refused(reply.GetIdentity(), &pb.Function{}, "by name")
	lowr := map[string]*pb.Value{"lowr": {Kind: &pb.Value_Bool{Bool: true}}}
	refused(reply.GetIdentity(), &pb.Function{Call: times_, Args: lowr}, "unexpected keyword argument 'lowr'")
	if err := os.WriteFile(filepath.Join(folder, "mypkg", "more.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(another(func(*pb.Code) {}), call, "mypkg.features differs here: the files of mypkg")
}

// TestSessionsShareNoArguments holds that what one session's arguments have made is in no process of another one.
func TestSessionsShareNoArguments(t *testing.T) {
	p, _ := naming(t, "mypkg.features")
	reply, err := p.Calls(t.Context(), other, []string{add_})
	if err != nil {
		t.Fatal(err)
	}
	listing := len(p.processes)
	for _, c := range []struct {
		session   string
		value     int64 // 0: as the mark has it
		processes int   // then
	}{{"s1", 0, 1}, {"s2", 0, 1}, {"s1", 3, 2}, {"s1", 4, 2}, {"s2", 4, 3}} {
		call, want := &pb.Function{Call: add_}, int64(5)
		if c.value != 0 {
			want, call.Args = c.value, map[string]*pb.Value{"value": {Kind: &pb.Value_Int{Int: c.value}}}
		}
		f, err := byNameIn(c.session, p, reply.GetIdentity(), call)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := called(t, f); err != nil || !slices.Equal(got, []int64{want, want + 1, want + 2}) {
			t.Errorf("%v: %v: %v", c, got, err)
		}
		p.mu.Lock()
		n := len(p.processes) - listing
		p.mu.Unlock()
		if n != c.processes {
			t.Errorf("%v: there are %d processes", c, n)
		}
	}
}

// TestASessionHasOneProcess, also where some of its functions have arguments: if each had one, and there were memory for
// no more than one, each call would end the other's and wait for a new one.
func TestASessionHasOneProcess(t *testing.T) {
	p, _ := naming(t, "mypkg.features")
	reply, err := p.Calls(t.Context(), other, []string{times_, add_})
	if err != nil {
		t.Fatal(err)
	}
	listing := len(p.processes)
	value := map[string]*pb.Value{"value": {Kind: &pb.Value_Int{Int: 7}}}
	plain, with := &pb.Function{Call: times_}, &pb.Function{Index: 1, Call: add_, Args: value}
	for _, calls := range [][]*pb.Function{{plain, with}, {with, plain}} {
		f, err := byNameIn("s1", p, reply.GetIdentity(), calls[0], calls[1])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := called(t, f); err != nil {
			t.Error(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.processes) - listing; n != 1 {
		t.Errorf("there are %d processes", n)
	}
}

// TestModulesMayTakeWhatAllProcessesMay imports one that takes more than a process may whose function does not say.
func TestModulesMayTakeWhatAllProcessesMay(t *testing.T) {
	folder := t.TempDir()
	const text = "import time\nkept = []\nwhile True:\n    kept.append(b'x' * (4 << 20))\n    time.sleep(0.01)\n"
	if err := os.WriteFile(filepath.Join(folder, "large.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := running(t, func(cfg *Config, _ *times) {
		e := cfg.Environments[Default]
		e.Path, e.Modules = append(e.Path, folder), []string{"large"}
		cfg.Environments, cfg.Memory, cfg.Budget = map[string]Environment{"other": e}, 1<<20, 150<<20
	})
	_, err := p.Calls(t.Context(), other, []string{"large:f"})
	if !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), "where --python-memory allows 150 for all") {
		t.Error(err)
	}
}

// TestAllModulesAreNotImported holds that a worker which lists none by its name starts no process before it is asked.
func TestAllModulesAreNotImported(t *testing.T) {
	p, _ := naming(t, "*")
	if err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(p.processes); n > 0 {
		t.Errorf("%d processes run", n)
	}
	if _, err := p.Calls(t.Context(), other, []string{times_}); err != nil {
		t.Error(err)
	}
}

func TestFunctionsThatAreNotOffered(t *testing.T) {
	p, folder := naming(t, "mypkg.features")
	for call, says := range map[string]string{
		"os:system":                 "os is not among the modules",
		"mypkg.features:not_marked": "penstock.op has not marked",
	} {
		_, err := p.Calls(t.Context(), other, []string{call})
		if absent, ok := errors.AsType[*AbsentError](err); !ok || !strings.Contains(absent.What, says) {
			t.Errorf("%s: %v, want %q", call, err, says)
		}
	}
	_, err := p.Functions(&pb.Ticket{Environment: "other", Code: ticketOf("", []byte("x")).Code}, nil)
	if !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), "--code=by-value") {
		t.Errorf("code of a session: %v", err)
	}
	if _, err := p.Calls(t.Context(), &pb.Ticket{}, nil); !errors.Is(err, ErrCannotRun) ||
		!strings.Contains(err.Error(), "--python=default=PATH") {
		t.Errorf("an environment that is not there: %v", err)
	}
	if err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
	broken := filepath.Join(folder, "mypkg", "features.py")
	if err := os.WriteFile(broken, []byte("import penstock\nimport no_such_module\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = p.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "environment other lists (mypkg.features)") ||
		!strings.Contains(err.Error(), "No module named 'no_such_module'") {
		t.Errorf("a module that does not import: %v", err)
	}
}

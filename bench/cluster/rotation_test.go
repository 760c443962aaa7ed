package cluster_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// volume is a directory as a kubelet mounts a Secret: its files are links through "..data", a link that is swapped when
// the Secret changes.
type volume struct {
	dir     string
	version int
}

// publish has the volume hold copies of files, by their names.
func (v *volume) publish(t *testing.T, files ...string) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	link := func(name string) string { return filepath.Join(v.dir, name) }
	last, _ := os.Readlink(link("..data")) // "" at first
	v.version++
	now := fmt.Sprintf("..version_%d", v.version)
	fail(os.Mkdir(link(now), 0o700))
	for _, file := range files {
		text, err := os.ReadFile(file)
		fail(err)
		fail(os.WriteFile(filepath.Join(link(now), filepath.Base(file)), text, 0o400))
	}
	fail(os.Symlink(now, link("..data_tmp")))
	fail(os.Rename(link("..data_tmp"), link("..data")))
	for _, file := range files {
		name := filepath.Base(file)
		if _, err := os.Lstat(link(name)); err != nil {
			fail(os.Symlink(filepath.Join("..data", name), link(name)))
		}
	}
	if last != "" {
		fail(os.RemoveAll(link(last)))
	}
}

// rotation is a fleet whose secrets lie in keys, and reach its processes by volumes.
type rotation struct {
	*cluster.Cluster
	t                         *testing.T
	dir, keys                 string
	masters, workers, trainer volume
	processes                 map[string]process.Announcement // that live, by their names
	reloaded                  map[string]int                  // how often they changed the keys of gossip
	proceed                   func()                          // lets the job read on for a while
}

// startRotation runs two masters and two workers.
func startRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{
		t: t, dir: t.TempDir(), keys: t.TempDir(), processes: map[string]process.Announcement{},
		reloaded: map[string]int{},
	}
	r.masters.dir, r.workers.dir, r.trainer.dir = t.TempDir(), t.TempDir(), t.TempDir()
	run(t, 0, nil, "keys", r.keys)
	for _, role := range []string{"trainers", "workers", "masters"} {
		r.publish(role)
	}
	in := func(v volume, name string) string { return filepath.Join(v.dir, name) }
	both := func(v volume) []string {
		return []string{
			"--gossip-key-file=" + in(v, "gossip.key"), "--tls-cert=" + in(v, "tls.crt"), "--tls-key=" +
				in(v, "tls.key"),
			"--tls-ca=" + in(v, "ca.crt"), "--tls-server-name=penstock",
		}
	}
	r.Cluster = startCluster(t, cluster.Config{
		Binary: binary, Dir: r.dir,
		MasterFlags: append(both(r.masters), "--etcd="+etcds(t, "127.0.0.1").Endpoints()[0], "--http=",
			"--ticket-key="+in(r.masters, "ticket.key"),
			"--token-file="+in(r.masters, "token"), "--worker-token-file="+in(r.masters, "worker.token")),
		WorkerFlags: append(both(r.workers), "--token-file="+in(r.workers, "worker.token")),
	}, 0)
	var err error
	if r.processes["master-1"], err = r.MasterProcess().Announced(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.processes["master-2"], err = r.StartMaster(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rotation) key(path string) string { return filepath.Join(r.keys, path) }

// publish brings the secrets of the moment to a role's processes.
func (r *rotation) publish(role string) {
	r.t.Helper()
	var fleet []string
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key", "worker.token", "gossip.key"} {
		fleet = append(fleet, r.key("fleet/"+name))
	}
	switch role {
	case "masters":
		r.masters.publish(r.t, append(fleet, r.key("master/token"), r.key("master/ticket.key"))...)
	case "workers":
		r.workers.publish(r.t, fleet...)
	case "trainers":
		r.trainer.publish(r.t, r.key("master/token"), r.key("fleet/ca.crt"))
	}
}

// addWorker runs one more.
func (r *rotation) addWorker(name string) *process.Process {
	r.t.Helper()
	p, err := r.StartWorker(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if r.processes[name], err = p.Announced(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// kill ends a process by SIGKILL.
func (r *rotation) kill(name string, p *process.Process) {
	r.t.Helper()
	delete(r.processes, name)
	if err := p.Kill(); err != nil {
		r.t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

// lines are those of a file of keys.
func (r *rotation) lines(path string) []string {
	r.t.Helper()
	return strings.Fields(text(r.t, r.key(path)))
}

// signers are the keys that sign tickets, the first one's first.
func (r *rotation) signers() (out []*ticket.Signer) {
	r.t.Helper()
	rest := []byte(text(r.t, r.key("master/ticket.key")))
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, ticket.NewSigner(key.(ed25519.PrivateKey))) //nolint:forcetypeassert // as penstock keys makes them
	}
	return out
}

// opens reports whether a master knows a token.
func (r *rotation) opens(address, token string) bool {
	r.t.Helper()
	conn, err := rpc.Dial(address, rpc.Config{
		CA: r.key("fleet/ca.crt"), ServerName: "penstock",
		Token: rpc.NewSecret(token),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_, err = pb.NewMasterClient(conn).WhoAmI(r.t.Context(), &pb.WhoAmIRequest{})
	return status.Code(err) != codes.Unauthenticated
}

// takes reports whether a worker knows the key of a ticket. The ticket has expired, which a worker says of one that it
// could verify.
func (r *rotation) takes(address string, signer *ticket.Signer) bool {
	r.t.Helper()
	body, err := signer.Sign(&pb.Ticket{Session: "forged"})
	signed := &pb.SignedTicket{}
	if err == nil {
		err = proto.Unmarshal(body, signed)
	}
	if err == nil {
		body, err = proto.Marshal(&pb.StreamRequest{Ticket: signed})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := rpc.Dial(address, rpc.Config{CA: r.key("fleet/ca.crt"), ServerName: "penstock"})
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	stream, err := flight.NewFlightServiceClient(conn).DoGet(r.t.Context(), &flight.Ticket{Ticket: body})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		r.t.Fatalf("a forged ticket: %v", err)
	}
	return strings.Contains(err.Error(), "expired")
}

// has reports whether a process has what the keys say now: what is added is taken, what is used is shown, what is
// dropped is refused.
func (r *rotation) has(name string, dropped []string) bool {
	r.t.Helper()
	at := r.processes[name].Address
	peer, err := rpc.Handshake(r.t.Context(), at, rpc.Config{CA: r.key("fleet/ca.crt"), ServerName: "penstock"})
	block, _ := pem.Decode([]byte(text(r.t, r.key("fleet/tls.crt"))))
	if err != nil || string(peer.PeerCertificates[0].Raw) != string(block.Bytes) {
		return false
	}
	if strings.Count(text(r.t, filepath.Join(r.dir, name+".log")),
		"the keys of gossip have changed") <= r.reloaded[name] {
		return false
	}
	if strings.HasPrefix(name, "worker") {
		for _, s := range r.signers() {
			if !r.takes(at, s) {
				return false
			}
		}
		return true
	}
	for _, token := range append(r.lines("master/token"), r.lines("fleet/worker.token")...) {
		if !r.opens(at, token) {
			return false
		}
	}
	for _, token := range dropped {
		if r.opens(at, token) {
			return false
		}
	}
	return true
}

// step takes one step of the rotation as docs/how-to/rotate-secrets.md says, and waits until all processes have its
// files.
func (r *rotation) step(name string, order ...string) {
	r.t.Helper()
	dropped := append(r.lines("master/token"), r.lines("fleet/worker.token")...)
	for p := range r.processes {
		r.reloaded[p] = strings.Count(text(r.t, filepath.Join(r.dir, p+".log")), "the keys of gossip have changed")
	}
	run(r.t, 0, nil, "keys", r.keys, "--rotate="+name)
	kept := strings.Join(append(r.lines("master/token"), r.lines("fleet/worker.token")...), " ")
	var gone []string
	for _, token := range dropped {
		if !strings.Contains(kept, token) {
			gone = append(gone, token)
		}
	}
	for _, role := range order {
		r.publish(role)
		r.proceed()
		for p := range r.processes {
			if strings.HasPrefix(role, p[:6]) {
				eventually(r.t, p+" has the files of --rotate "+name, func() bool { return r.has(p, gone) })
			}
		}
	}
}

// paced has a trainer hand over a batch for each permit, and all that is left once permits is closed.
func paced(tr *trainer, permits <-chan struct{}, got *[]handed) error {
	for {
		<-permits
		h, err := tr.next()
		if err != nil || h.End {
			return err
		}
		*got = append(*got, h)
	}
}

// TestRotation replaces every secret of a fleet below a running job, by the procedure of docs/how-to/rotate-secrets.md:
// no process starts anew, no trainer fails, and each row comes once. A worker that begins after each step, and another
// that dies, have trainers and workers meet by the secrets of that step; in the end the leading master dies, too.
func TestRotation(t *testing.T) {
	t.Parallel()
	const rows, epochs = 40_000, 6
	python3 := python3(t, "numpy", "pyarrow")
	r := startRotation(t)
	workers := []*process.Process{r.addWorker("worker-1"), r.addWorker("worker-2")}
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	words := fmt.Sprintf(
		"{dataset: {uri: %s/}, features: [{sparse: cat_0}], batch_size: 500, shuffle: true, seed: 3, provenance: "+
			"true, last_batch: uneven, epochs: %d}",
		filepath.Dir(paths[0]), epochs)
	s, err := spec.Parse([]byte(words))
	if err != nil {
		t.Fatal(err)
	}
	masters := []string{r.processes["master-1"].Address, r.processes["master-2"].Address}
	token, ca := filepath.Join(r.trainer.dir, "token"), filepath.Join(r.trainer.dir, "ca.crt")
	inPython := exec.Command(python3, "testdata/trainer.py", write(t, "spec.yaml", words), "job", "1", "2",
		strings.Join(masters, ","), token, ca)
	inPython.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "client", "python", "src"),
		"PENSTOCK_BINARY="+binary)
	trainers := []*trainer{
		startTrainer(t, r.dir, assignment{
			Masters: masters, Session: "job", Rank: 0, World: 2, Budget: 1 << 18,
			Secure: client.Security{TokenFile: token, CA: ca, ServerName: "penstock"},
		}, s),
		followTrainer(t, r.dir, "python", inPython),
	}
	got := make([][]handed, len(trainers))
	permits := make([]chan struct{}, len(trainers))
	var group errgroup.Group
	for i, tr := range trainers {
		permits[i] = make(chan struct{}, 1000)
		group.Go(func() error { return paced(tr, permits[i], &got[i]) })
	}
	r.proceed = func() { // the job takes a thirtieth or so
		for _, p := range permits {
			for range 8 {
				p <- struct{}{}
			}
		}
	}

	before := r.signers()
	oldCA := write(t, "old-ca.crt", text(t, r.key("fleet/ca.crt")))
	for i, order := range [][]string{
		{"masters", "workers", "trainers"},
		{"trainers", "workers", "masters"},
		{"workers", "masters", "trainers"},
	} {
		step := []string{"add", "use", "drop"}[i]
		r.step(step, order...)
		r.proceed()
		workers = append(workers, r.addWorker(fmt.Sprintf("worker-%d", i+3)))
		r.kill(fmt.Sprintf("worker-%d", i+1), workers[i])
	}
	for name, at := range r.processes {
		if _, err := rpc.Handshake(t.Context(), at.Address, rpc.Config{CA: oldCA, ServerName: "penstock"}); err == nil {
			t.Errorf("%s shows a certificate of the old authority", name)
		}
		if strings.HasPrefix(name, "worker") {
			eventually(t, "the worker forgets the old key of tickets",
				func() bool { return !r.takes(at.Address, before[0]) })
		}
	}
	r.kill("master-1", r.MasterProcess())
	for _, p := range permits {
		close(p)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	seen := map[row]int{}
	for i, tr := range trainers {
		for _, h := range got[i] {
			h.count(seen)
		}
		if len(got[i]) == 0 {
			t.Errorf("trainer %d read nothing", i)
		}
		tr.leave()
		for _, words := range []string{"not one that this port knows", "not trusted", "bears no token"} {
			if strings.Contains(text(t, tr.log), words) {
				t.Errorf("trainer %d was told %q", i, words)
			}
		}
	}
	exactlyOnce(t, seen, rows*epochs)
}

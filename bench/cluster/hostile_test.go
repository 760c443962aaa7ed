package cluster_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// besieged is a fleet as it is deployed: TLS on every port, tokens of two namespaces. Alice, of vision, may read a
// dataset; Eve has a token of another namespace, and whatever she can make herself.
type besieged struct {
	*cluster.Cluster
	t              *testing.T
	keys, spec     string
	master, worker process.Announcement
	secrets        map[string]string
}

const aliceToken, eveToken = "the-token-of-alice", "the-token-of-eve"

func besiege(t *testing.T) *besieged {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), 5000, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(paths[0])
	b := &besieged{t: t, keys: t.TempDir(), secrets: map[string]string{
		"alice's token": aliceToken,
		"eve's token":   eveToken,
	}}
	run(t, 0, nil, "keys", b.keys)
	for _, name := range []string{
		"master/token", "fleet/worker.token", "fleet/gossip.key", "master/ticket.key",
		"fleet/tls.key",
	} {
		text := strings.TrimSpace(text(t, filepath.Join(b.keys, name)))
		b.secrets[name] = text[:min(len(text), 60)]
	}
	tokens := write(t, "tokens.yaml",
		fmt.Sprintf("tokens:\n  - {token: %s, subject: alice, namespace: vision, roles: [trainer]}\n"+
			"  - {token: %s, subject: eve, namespace: speech, roles: [admin]}\n", aliceToken, eveToken))
	namespaces := write(t, "namespaces.yaml",
		fmt.Sprintf("namespaces:\n  vision: {datasets: ['file://%s/']}\n  speech: {datasets: ['file://%s/']}\n",
			dir, t.TempDir()))
	key := func(name string) string { return filepath.Join(b.keys, name) }
	both := []string{
		"--gossip-key-file=" + key("fleet/gossip.key"), "--tls-cert=" + key("fleet/tls.crt"), "--tls-key=" +
			key("fleet/tls.key"),
		"--tls-ca=" + key("fleet/ca.crt"), "--tls-server-name=penstock", "--http=127.0.0.1:0", "--log-level=debug",
	}
	b.Cluster = startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(), WorkerFlags: append(both, "--token-file="+key("fleet/worker.token")),
		MasterFlags: append(both, "--token-file="+key("master/token"), "--worker-token-file="+key("fleet/worker.token"),
			"--ticket-key="+key("master/ticket.key"), "--tokens="+tokens, "--namespaces="+namespaces),
	}, 1)
	if b.master, err = b.MasterProcess().Announced(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.worker, err = b.Workers()[0].Announced(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.spec = write(t, "spec.yaml",
		fmt.Sprintf("dataset: {uri: %s/}\nfeatures: [{label: label}, {dense: int_*}]\nbatch_size: 1000\n", dir))
	return b
}

// secure is how to reach the fleet.
func (b *besieged) secure(token string) rpc.Config {
	return rpc.Config{CA: filepath.Join(b.keys, "fleet", "ca.crt"), ServerName: "penstock", Token: rpc.NewSecret(token)}
}

// reads holds that Alice reads her dataset.
func (b *besieged) reads(when string) {
	b.t.Helper()
	out, _ := run(b.t, 0, nil, "read", b.spec, "--output=json", "--master="+b.master.Address,
		"--tls-server-name=penstock",
		"--tls-ca="+filepath.Join(b.keys, "fleet", "ca.crt"), "--token-file="+write(b.t, "alice", aliceToken))
	if !strings.Contains(out, `"rows":5000,`) {
		b.t.Errorf("%s: %s", when, out)
	}
}

// client speaks HTTP with the fleet's ports, and follows no redirect.
func (b *besieged) client() *http.Client {
	pem := text(b.t, filepath.Join(b.keys, "fleet", "ca.crt"))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(pem))
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: trusted, ServerName: "penstock",
		MinVersion: tls.VersionTLS12,
	}}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// TestHostileCallers attacks a fleet at its real ports, from without and by a token of another namespace. In the end no
// secret stands in a log, a command line or an environment.
func TestHostileCallers(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	b.reads("before")
	t.Run("tickets", b.forge)
	t.Run("pages", b.browse)
	t.Run("flood", b.flood)
	b.reads("after")
	dir := filepath.Dir(b.TokenFile())
	var told []string
	for _, name := range []string{"master-1", "worker-1"} {
		told = append(told, text(t, filepath.Join(dir, name+".log")))
	}
	for _, p := range []*process.Process{b.MasterProcess(), b.Workers()[0]} {
		for _, file := range []string{"cmdline", "environ"} {
			told = append(told, text(t, fmt.Sprintf("/proc/%d/%s", p.PID(), file)))
		}
	}
	for name, secret := range b.secrets {
		for _, all := range told {
			if at := strings.Index(all, secret); at >= 0 {
				t.Errorf("%s is told to who reads %q", name, all[max(0, at-200):at])
			}
		}
	}
}

// forge changes a ticket of Alice's in every part that says what it opens.
func (b *besieged) forge(t *testing.T) {
	master, err := rpc.Dial(b.master.Address, b.secure(aliceToken))
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	info, err := flight.NewFlightServiceClient(master).GetFlightInfo(t.Context(),
		&flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(text(t, b.spec))})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := rpc.Dial(b.worker.Address, b.secure(""))
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	ask := func(change func(*pb.StreamRequest)) error {
		q := &pb.StreamRequest{}
		if err := proto.Unmarshal(info.GetEndpoint()[0].GetTicket().GetTicket(), q); err != nil {
			t.Fatal(err)
		}
		change(q)
		body, err := proto.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stream, err := flight.NewFlightServiceClient(worker).DoGet(ctx, &flight.Ticket{Ticket: body})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := ask(func(*pb.StreamRequest) {}); err != nil {
		t.Fatalf("the ticket as it is: %v", err)
	}
	// inside changes what the ticket says, and leaves its signature.
	inside := func(change func(*pb.Ticket)) func(*pb.StreamRequest) {
		return func(q *pb.StreamRequest) {
			in := &pb.Ticket{}
			err := proto.Unmarshal(q.GetTicket().GetTicket(), in)
			change(in)
			if err == nil {
				q.Ticket.Ticket, err = proto.Marshal(in)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*pb.StreamRequest){
		"no ticket":    func(q *pb.StreamRequest) { q.Ticket = nil },
		"no signature": func(q *pb.StreamRequest) { q.Ticket.Signature = nil },
		"half a one":   func(q *pb.StreamRequest) { q.Ticket.Signature = q.Ticket.Signature[:32] },
		"no key":       func(q *pb.StreamRequest) { q.Ticket.Key = "" },
		"truncated":    func(q *pb.StreamRequest) { q.Ticket.Ticket = q.Ticket.Ticket[:len(q.Ticket.Ticket)/2] },
		"no body":      func(q *pb.StreamRequest) { q.Ticket.Ticket = nil },
		"another file": inside(func(in *pb.Ticket) { in.File.Uri = "file:///etc/passwd" }),
		"a file above": inside(func(in *pb.Ticket) {
			in.File.Uri = strings.Replace(in.GetFile().GetUri(), "/part",
				"/../part", 1)
		}),
		"more rows":     inside(func(in *pb.Ticket) { in.Extents = append(in.Extents, in.Extents...) }),
		"no end":        inside(func(in *pb.Ticket) { in.ExpiresUnix += 1 << 30 }),
		"another run":   inside(func(in *pb.Ticket) { in.Session = "another" }),
		"other columns": func(q *pb.StreamRequest) { q.Program = append(q.Program, 0x0a, 0) },
		"no program":    func(q *pb.StreamRequest) { q.Program = nil },
		"a key of hers": func(q *pb.StreamRequest) { q.Ticket = signed(t, own, q.GetTicket().GetTicket(), "") },
		"under its name": func(q *pb.StreamRequest) {
			q.Ticket = signed(t, own, q.GetTicket().GetTicket(), q.GetTicket().GetKey())
		},
	} {
		err := ask(change)
		if status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), "parquet") ||
			strings.Contains(err.Error(), "passwd") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// By their own rights: a dataset of the other namespace, by whatever name.
	eve, err := rpc.Dial(b.master.Address, b.secure(eveToken))
	if err != nil {
		t.Fatal(err)
	}
	defer eve.Close()
	mine := strings.TrimSpace(text(t, b.spec))
	mine = strings.TrimSuffix(strings.TrimPrefix(strings.SplitN(mine, "\n", 2)[0], "dataset: {uri: "), "/}")
	for _, uri := range []string{mine + "/", "file://" + mine + "/", mine + "/*.parquet", filepath.Dir(mine) +
		"/*/", "/proc/self/environ", "file:///etc/passwd"} {
		words := fmt.Sprintf("{dataset: {uri: %q}, features: [{label: label}]}", uri)
		_, err := flight.NewFlightServiceClient(eve).GetFlightInfo(t.Context(),
			&flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(words)})
		_, opened := pb.NewMasterClient(eve).Open(t.Context(), &pb.OpenRequest{
			Session: "mine", SpecText: words,
			WorldSize: 1,
		})
		for _, err := range []error{err, opened} {
			if status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), "part-") {
				t.Errorf("eve reads %s: %v", uri, err)
			}
		}
	}
}

// signed signs a ticket with a key, under its own name or another one.
func signed(t *testing.T, key ed25519.PrivateKey, body []byte, name string) *pb.SignedTicket {
	t.Helper()
	in, out := &pb.Ticket{}, &pb.SignedTicket{}
	err := proto.Unmarshal(body, in)
	var text []byte
	if err == nil {
		text, err = ticket.NewSigner(key).Sign(in)
	}
	if err == nil {
		err = proto.Unmarshal(text, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	if name != "" {
		out.Key = name
	}
	return out
}

// browse asks the HTTP ports for all that they have.
func (b *besieged) browse(t *testing.T) {
	client := b.client()
	get := func(at, path string, headers ...string) (code int, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	const cookie = "__Host-penstock_login"
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	strangers := map[string][]string{
		"nobody": nil, "a wrong token": bearer("wrong"), "an empty one": bearer(""), "a password": {
			"Authorization",
			"Basic YWRtaW46YWRtaW4=",
		},
		"a cookie of their own": {"Cookie", cookie + "=" + strings.Repeat("A", 200)}, "the token as a cookie": {
			"Cookie", cookie + "=" + aliceToken,
		},
		"a cookie's other name": {"Cookie", "penstock_login=x"}, "a proxy's word": {
			"X-Forwarded-For", "127.0.0.1",
			"X-Real-Ip", "127.0.0.1",
		},
	}
	all := []string{
		"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline",
		"/debug/pprof/profile?seconds=1",
	}
	api := []string{
		"/api/v1/observation", "/api/v1/observation?workers=1", "/api/v1/events", "/api/v1/sessions",
		"/api/v1/stream",
	}
	for name, headers := range strangers {
		for _, path := range append(all, api...) {
			if code, body := get(b.master.HTTP, path, headers...); code != http.StatusUnauthorized || len(body) > 300 {
				t.Errorf("%s gets %s: %d %.300s", name, path, code, body)
			}
		}
		for _, path := range all {
			if code, body := get(b.worker.HTTP, path, headers...); code != http.StatusUnauthorized || len(body) > 300 {
				t.Errorf("%s gets the worker's %s: %d %.300s", name, path, code, body)
			}
		}
	}
	// of one namespace, or of workers
	for _, token := range []string{aliceToken, eveToken, b.secrets["fleet/worker.token"]} {
		for _, path := range all {
			if code, _ := get(b.master.HTTP, path, bearer(token)...); code != http.StatusForbidden {
				t.Errorf("%.10s gets %s: %d", token, path, code)
			}
		}
	}
	for _, at := range []string{b.master.HTTP, b.worker.HTTP} {
		for _, path := range []string{
			"/../../etc/passwd", "/js/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
			"//etc/passwd", "/js/%00",
		} {
			if code, body := get(at, path); code == http.StatusOK || strings.Contains(body, "root:") {
				t.Errorf("%s: %d %.100s", path, code, body)
			}
		}
		// a page of elsewhere, whose name was pointed here
		for _, path := range []string{"/healthz", "/metrics", "/login"} {
			if code, _ := get(at, path, "Host", "evil.example"); code != http.StatusForbidden {
				t.Errorf("%s for evil.example: %d", path, code)
			}
		}
	}
	b.login(t, client)
}

// login has Eve's page try what a browser would let it, and looks at the cookie of one that logs in.
func (b *besieged) login(t *testing.T, client *http.Client) {
	post := func(headers ...string) (status int, answer http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+b.master.HTTP+"/login",
			strings.NewReader("next=%2F%2Fevil.example&token="+aliceToken))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		if status, answer := post(headers...); status != http.StatusForbidden || answer.Get("Set-Cookie") != "" {
			t.Errorf("a login of another site's page, %v: %d", headers, status)
		}
	}
	_, answer := post()
	set := answer.Get("Set-Cookie")
	for _, want := range []string{"__Host-penstock_login=", "; Path=/;", "HttpOnly", "Secure", "SameSite=Strict"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie lacks %q: %s", want, set)
		}
	}
	if strings.Contains(set, aliceToken) || strings.Contains(set, "Domain") || answer.Get("Location") != "/" {
		t.Errorf("the cookie, or where it leads: %s, %s", set, answer.Get("Location"))
	}
}

// flood opens very many connections to each port that say nothing, or begin a handshake, a preface or a request and do
// not end it. Who is known is served meanwhile, and they are all sent away.
func (b *besieged) flood(t *testing.T) {
	// of each kind, at each port: more than strangers may be
	const each = 300
	hello := []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") // of 512 bytes
	plain := func(says string) func(net.Conn) error {
		return func(c net.Conn) error { _, err := io.WriteString(c, says); return err }
	}
	encrypted := func(proto, says string) func(net.Conn) error {
		return func(c net.Conn) error {
			in := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}}) //nolint:gosec // as who has no business here
			_, err := io.WriteString(in, says)
			return err
		}
	}
	kinds := []func(net.Conn) error{plain(""), plain(string(hello)), plain("GET / HTTP/1.1\r\nHost: x\r\nX: "), nil}
	var group errgroup.Group
	group.SetLimit(64)
	var all []net.Conn
	for _, at := range []string{b.master.Address, b.worker.Address, b.master.HTTP, b.worker.HTTP} {
		kinds[3] = encrypted("h2", "PRI * HTTP/2.0\r\n") // half of the preface
		if at == b.master.HTTP || at == b.worker.HTTP {
			kinds[3] = encrypted("http/1.1", "GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
		}
		for i := range each * len(kinds) {
			conn, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			all = append(all, conn)
			group.Go(func() error {
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				_ = kinds[i%len(kinds)](conn) // it may have been sent away
				return nil
			})
		}
	}
	b.reads("while the ports are flooded")
	client := b.client()
	for _, at := range []string{b.master.HTTP, b.worker.HTTP} {
		resp, err := client.Get("https://" + at + "/healthz")
		if err != nil {
			t.Fatalf("a probe while the ports are flooded: %v", err)
		}
		resp.Body.Close()
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, conn := range all {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("stranger %d of %d, to %v, is not sent away", i, len(all), conn.RemoteAddr())
		}
	}
}
